"""Arrays → text that a page loads as a classic script.

A page opened from disk may not read files; it may run scripts beside it. The bytes of an array are
regrouped (all first bytes of its values, then all second ones, …), which floats compress better by,
then deflated and written in base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

PACKED = ("uint8", "uint16", "float32")


def pack(array: npt.NDArray[Any]) -> dict[str, str]:
    """``{"dtype", "data"}`` of an array of one of `PACKED`; its shape is not kept."""
    import numpy as np

    if array.dtype.name not in PACKED:
        raise ValueError(f"cannot pack {array.dtype.name}; one of {', '.join(PACKED)}")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    grouped = little.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T
    data = base64.b64encode(zlib.compress(grouped.tobytes(), 9)).decode()
    return {"dtype": array.dtype.name, "data": data}


def unpack(packed: dict[str, str]) -> npt.NDArray[Any]:
    """(n,): what `pack` was given, flat."""
    import numpy as np

    dtype = np.dtype(packed["dtype"])
    grouped = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8)
    return np.ascontiguousarray(grouped.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)


def script(target: str, content: Any) -> str:
    """A classic script that sets ``target`` to ``content``."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{target}={text};\n"
