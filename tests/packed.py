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


def unpack_pair(content):
    """Return the reference and candidate of a pixel script: (h, w, 3) each."""
    sides = {}
    for side in ("a", "b"):
        packed = content[side]
        shape = packed["height"], packed["width"], 3
        kind = packed["dtype"]
        flat = unpack(packed if kind in ("uint8", "float32") else packed | {"dtype": "uint8"})
        if kind == "differences":
            planes = flat.reshape(3, *shape[:2]).cumsum(axis=1).cumsum(axis=2).astype(np.uint8)
            planes[0::2] += planes[1]
            sides[side] = np.moveaxis(planes, 0, 2)
        elif kind == "change":
            sides[side] = sides["a"] + flat.reshape(shape)
        else:
            sides[side] = flat.reshape(shape)
    return sides["a"], sides["b"]
