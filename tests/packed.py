"""Read back the arrays that a page's scripts hold."""

import base64
import zlib

import numpy as np
import numpy.typing as npt


def unpack(packed: dict[str, str]) -> npt.NDArray[np.generic]:
    """Return the array that `alignkit.record.picture_facts.pack` was given, flat: (n,)."""
    dtype = np.dtype(packed["dtype"])
    grouped = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8)
    return np.ascontiguousarray(grouped.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)
