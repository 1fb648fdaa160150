"""Arrays → text that a page loads as a classic script.

A page opened from disk may not read files, but may run scripts beside it. The bytes of an array are
regrouped (all first bytes of its values, then all second ones, …), since floats then compress
better, deflated, and written in base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

_PACKED = ("uint8", "uint16", "float32")


def pack(array: npt.NDArray[Any]) -> dict[str, str]:
    """Return ``{"dtype", "data"}`` of a uint8, uint16 or float32 array, without its shape.

    Raises `ValueError` for another dtype.
    """
    import numpy as np

    if array.dtype.name not in _PACKED:
        raise ValueError(f"cannot pack {array.dtype.name}; one of {', '.join(_PACKED)}")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    grouped = little.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T
    data = base64.b64encode(zlib.compress(grouped.tobytes(), 9)).decode()
    return {"dtype": array.dtype.name, "data": data}


def script(target: str, content: Any) -> str:
    """Return a classic script that sets ``target`` to ``content``."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{target}={text};\n"
