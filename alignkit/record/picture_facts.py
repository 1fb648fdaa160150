"""Pixels of two paths → pictures for the report, and their exact values for its viewer.

PNG files are named by the SHA-256 of their bytes, so a picture that several pages or cells show is
stored once. They keep the size of the arrays; the page enlarges them.

A page opened from disk may not read files, but may run scripts beside it: the viewer's arrays are
text in classic scripts. The bytes of an array are regrouped (all first bytes of its values, then
all second ones, …), since floats then compress better, deflated, and written in base64. A ``uint8``
image is stored as each value's change from its neighbours, and a ``uint8`` candidate as its change
from the reference: decodes of photographs then take a third of the bytes, without any loss.

Answers that are drawn on a picture are stored beside it. A mask is a PNG whose values are indices
of classes and whose palette are their colours, so that a page shows it as it is and a script reads
the classes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import re
import string
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignkit.annotations import IGNORED
from alignkit.record.pixel_facts import (
    Drawn,
    DrawnBox,
    DrawnPair,
    PictureMap,
    ServedPredictions,
    ShownImage,
)
from alignkit.record.stored import Artifact
from alignkit.stored_file import file_sha256, write_atomically

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import FloatArray, Image, Pixels

COLOURS = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233),
    (240, 228, 66), (120, 94, 240), (166, 118, 29), (102, 166, 30), (231, 41, 138), (27, 158, 119),
)  # fmt: skip
"""Red, green and blue of classes by index, over and over; the first ones are Okabe and Ito's."""
_DIFFERENT = (227, 26, 28)
_BACKGROUNDS = ("background", "__background__", "unlabelled", "unlabeled", "void")
AMPLIFICATIONS = (64, 32, 16, 8, 4, 2, 1)
SATURATED_SHARE = 0.005
"""Share of values that may exceed 255 after amplification: an outlier must not hide the rest."""
PICTURE = "img/{}.png"
"""Path of a picture, with the place of its SHA-256; see `write_file`."""
_PACKED = ("uint8", "uint16", "uint32", "float32")
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PIXELS_LIMIT = 180_000_000
"""The greatest picture that a page shows: as many pixels as a path decodes by default."""
_SIDE = rb'\{"width":\d{1,6},"height":\d{1,6},"dtype":"\w+","data":""\}'
_SCRIPT = re.compile(
    rb'\(self\.alignkitPixels\?\?=\{\}\)\["(?P<path>[^"]*)"\]='
    rb'\{"a":' + _SIDE + rb',"b":' + _SIDE + rb"\};\n"
)
_LEVEL = 6
"""Of deflate, for differences of photographs: the greatest saves 1 % in four times the time."""
_ARRAYS = (15, 29)
"""The arrays' places among the pieces of a script between its quotes."""
_BASE64 = string.ascii_letters.encode() + b"0123456789+/="


def write_shown(
    folder: Path,
    a: Pixels,
    b: Pixels,
    *,
    why: Literal["changed", "pixels", "random"],
    reference: str,
    candidate: str,
    id: str,  # noqa: A002 - the record's field
    label: str,
    stage: str,
    predictions: tuple[ServedPredictions, ...] = (),
) -> ShownImage:
    """Write reference ``a``, candidate ``b`` and their amplified difference below ``folder``.

    ``a`` and ``b``: (h, w, 3), RGB, 0..255, ``uint8`` or unrounded ``float32``; the distances are
    taken before any rounding. Sides of two sizes have no difference: no pixel of one lies beside
    one of the other.
    """
    return ShownImage(
        why=why,
        reference=reference,
        candidate=candidate,
        id=id,
        label=label,
        stage=stage,
        width=a.shape[1],
        height=a.shape[0],
        size_b=None if a.shape == b.shape else (b.shape[1], b.shape[0]),
        predictions=predictions,
        a=_write_png(folder, _to_uint8(a)),
        b=_write_png(folder, _to_uint8(b)),
        pixels=write_file(folder, *pixel_script(a, b)),
        **_difference(folder, a, b),
    )


def thumbnail_png(image: Pixels, side: int = 80) -> bytes:
    """Encode a picture of (h, w, 3) RGB pixels 0..255, made smaller to ``side`` if it is larger."""
    import cv2

    whole = _to_uint8(image)
    scale = side / max(whole.shape[:2])
    if scale >= 1:
        return _png(whole)
    size = [max(1, round(scale * each)) for each in whole.shape[1::-1]]
    smaller: Image = cv2.resize(whole, size, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    return _png(smaller)


def _difference(folder: Path, a: Pixels, b: Pixels) -> dict[str, Any]:
    """Write the amplified difference; return the fields of `ShownImage` that follow from it."""
    if a.shape != b.shape:
        return dict.fromkeys(("max_abs", "mean_abs", "amplification", "difference"))
    import numpy as np

    # in float64: uint8 would wrap around
    distance: npt.NDArray[np.float64] = np.abs(b.astype(np.float64) - a.astype(np.float64))
    amplification = choose_amplification(distance)
    return {
        "max_abs": float(distance.max(initial=0.0)),
        # an empty image has no mean, which numpy warns of
        "mean_abs": float(distance.mean()) if distance.size else 0.0,
        "amplification": amplification,
        "difference": _write_png(folder, _to_uint8(distance * amplification)),
    }


def choose_amplification(distance: npt.NDArray[np.float64]) -> int:
    """Return the greatest of 1, 2, 4 … 64 that leaves at most 0.5 % of the values above 255.

    1 if nothing differs.
    """
    if not distance.any():  # there is nothing to make visible
        return 1
    for factor in AMPLIFICATIONS:
        if (distance * factor > 255).mean() <= SATURATED_SHARE:
            return factor
    return 1


def _to_uint8(pixels: Pixels | npt.NDArray[np.float64]) -> Image:
    import numpy as np

    if pixels.dtype == np.uint8:
        return pixels  # type: ignore[return-value]  # mypy does not narrow by dtype
    # resizers leave unrounded values, some beyond 0..255
    rounded: Image = np.rint(np.clip(pixels, 0.0, 255.0)).astype(np.uint8)
    return rounded


def _write_png(folder: Path, image: Image) -> Artifact:
    return write_file(folder, PICTURE, _png(image))


def _png(image: Image) -> bytes:
    import cv2

    # reversed, because OpenCV takes channels as B, G, R
    done, encoded = cv2.imencode(".png", image[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 6])
    if not done:
        raise ValueError(f"OpenCV cannot encode a picture of shape {image.shape}")
    data: bytes = encoded.tobytes()
    return data


def pixel_script(a: Pixels, b: Pixels) -> tuple[str, bytes]:
    """Return the path and the text of a script that holds both arrays exactly.

    ``a`` and ``b``: (h, w, 3), ``uint8`` or ``float32``, of any two sizes.
    """
    content = {"a": _packed_image(a, None), "b": _packed_image(b, a)}
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    # named before it is written: the script sets the entry that has its own path
    path = f"data/{digest[:16]}.js"
    return path, script(f'(self.alignkitPixels??={{}})["{path}"]', content).encode()


def _packed_image(image: Pixels, reference: Pixels | None) -> dict[str, Any]:
    height, width = image.shape[:2]
    return {"width": width, "height": height, **_packed_values(image, reference)}


def _packed_values(image: Pixels, reference: Pixels | None) -> dict[str, str]:
    """Pack an image; ``uint8`` as its ``change`` from the reference, or as ``differences``.

    ``unpack.js`` adds them up again, modulo 256.
    """
    if image.dtype != "uint8":
        return pack(image)
    if reference is not None and reference.dtype == "uint8" and reference.shape == image.shape:
        return pack(image - reference, _LEVEL) | {"dtype": "change"}
    import numpy as np

    planes = np.moveaxis(image, 2, 0).copy()
    planes[0::2] -= planes[1]  # red and blue mostly follow green
    for axis in (1, 2):
        planes = np.diff(planes, axis=axis, prepend=np.zeros_like(planes.take([0], axis)))
    return pack(planes, _LEVEL) | {"dtype": "differences"}


def is_picture(path: str, data: bytes) -> bool:
    """Tell whether a file is a PNG, by name, content and a size that a browser can show."""
    if not path.endswith(".png") or not data.startswith(_PNG):
        return False
    width, height = (int.from_bytes(data[at : at + 4]) for at in (len(_PNG), len(_PNG) + 4))
    return 0 < width * height <= _PIXELS_LIMIT


def is_pixel_script(path: str, data: bytes) -> bool:
    """Tell whether a script does no more than set the two arrays of its own path."""
    pieces = data.split(b'"')
    # the arrays apart: an expression takes ten times as long over their megabytes
    arrays = [pieces[place] for place in _ARRAYS if place < len(pieces)]
    frame = b'"'.join(b"" if place in _ARRAYS else each for place, each in enumerate(pieces))
    found = _SCRIPT.fullmatch(frame)
    if found is None or found["path"] != path.encode() or not path.endswith(".js"):
        return False
    return not any(each.translate(None, _BASE64) for each in arrays)


def write_file(folder: Path, path: str, data: bytes) -> Artifact:
    """Write a picture or script, whose SHA-256 takes the place of ``{}`` in its path."""
    sha256 = hashlib.sha256(data).hexdigest()
    artifact = Artifact(path=path.format(sha256[:16]), sha256=sha256)
    target = folder / artifact.path
    # named by its content, so that an existing one is equal unless it was damaged
    if not target.is_file() or file_sha256(target) != sha256:
        # thousands a run: a sync of each took longer than all of its other work
        write_atomically(target, data, synced=False)
    return artifact


def pack(array: npt.NDArray[Any], level: int = 9) -> dict[str, str]:
    """Return ``{"dtype", "data"}`` of an unsigned or float32 array, without its shape.

    Raises `ValueError` for another dtype.
    """
    if array.dtype.name not in _PACKED:
        raise ValueError(f"cannot pack {array.dtype.name}; one of {', '.join(_PACKED)}")
    import numpy as np

    # whatever this machine's byte order is: the page's typed arrays are little-endian
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    grouped = little.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T
    data = base64.b64encode(zlib.compress(grouped.tobytes(), level)).decode()
    return {"dtype": array.dtype.name, "data": data}


def script(target: str, content: Any) -> str:
    """Return a classic script that sets ``target`` to ``content``."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{target}={text};\n"


def is_background(name: str) -> bool:
    """Tell whether a class is the rest of an image, which a mask leaves as it is."""
    return name.lower() in _BACKGROUNDS


def picture_map(
    width: int, height: int, to_input: Callable[[FloatArray], FloatArray]
) -> PictureMap:
    """Find the map of an image from ``Geometry.to_input``: (n, 4) corners → those of the input."""
    import numpy as np

    points = np.array([[0, 0], [width, 0], [0, height]], np.float64)
    # a box without an extent is a point
    (x0, y0), (xw, yw), (xh, yh) = to_input(np.hstack([points, points]))[:, :2].tolist()
    return PictureMap(
        width=width,
        height=height,
        xx=(xw - x0) / width,
        xy=(xh - x0) / height,
        x0=x0,
        yx=(yw - y0) / width,
        yy=(yh - y0) / height,
        y0=y0,
    )


def write_pair(
    folder: Path, seed: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> DrawnPair:
    """Store what `Answers.drawn` returns of two answers, each beside the other.

    ``{"boxes": [{"corners": [l, t, r, b], "class": "cat", "score": 0.83, "kind": "matched",
    "shift": 1.2}]}``, or ``{"mask": base64 of a PNG of class indices, "classes": [names]}``. A box
    ``alone`` is lost or won. Raises `ValueError` for other values.
    """
    sides = _drawn(folder, before, alone="lost"), _drawn(folder, after, alone="won")
    if not (sides[0].mask and sides[1].mask):
        return DrawnPair(seed=seed, before=sides[0], after=sides[1])
    import numpy as np

    differing = _mask(before["mask"]) != _mask(after["mask"])
    return DrawnPair(
        seed=seed,
        before=sides[0],
        after=sides[1],
        differing=_write_mask(folder, differing.astype(np.uint8), [0, 0, 0, *_DIFFERENT], {0}),
        share=float(differing.mean()) if differing.size else 0.0,
    )


def write_truth(folder: Path, values: Mapping[str, Any]) -> Drawn | None:
    """Store the ``truth`` beside an answer, boxes or a mask; ``None`` where it is not known."""
    truth = values.get("truth")
    if truth is None:
        return None
    if isinstance(truth, str):
        return _drawn_mask(folder, truth, values["classes"])
    return _drawn_boxes(truth)


def _drawn(folder: Path, values: Mapping[str, Any], alone: str) -> Drawn:
    if (mask := values.get("mask")) is not None:
        return _drawn_mask(folder, mask, values["classes"])
    return _drawn_boxes(values.get("boxes", ()), alone)


def _drawn_boxes(found: Iterable[Mapping[str, Any]], alone: str = "") -> Drawn:
    boxes = []
    for each in found:
        fields = {name: value for name, value in each.items() if name != "class"}
        if fields.get("kind") == "alone":
            fields["kind"] = alone
        boxes.append(DrawnBox(of_class=each["class"], **fields))
    return Drawn(boxes=tuple(boxes))


def _drawn_mask(folder: Path, text: str, classes: Sequence[str]) -> Drawn:
    import numpy as np

    mask = _mask(text)
    present = set(np.unique(mask).tolist())
    names = tuple(name if at in present else "" for at, name in enumerate(classes))
    clear = {IGNORED, *(at for at, name in enumerate(classes) if is_background(name))}
    return Drawn(mask=_write_mask(folder, mask, _palette(), clear), classes=names)


def _palette() -> list[int]:
    return [part for index in range(256) for part in COLOURS[index % len(COLOURS)]]


def _mask(text: str) -> npt.NDArray[np.uint8]:
    import numpy as np
    from PIL import Image

    try:
        with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=["PNG"]) as read:
            if read.mode not in ("L", "P"):
                raise ValueError(f"a mask has one value a pixel, not {read.mode}")
            return np.array(read)
    except (binascii.Error, OSError) as error:
        raise ValueError(f"a drawn mask is no PNG ({error})") from None


def _write_mask(
    folder: Path, mask: npt.NDArray[np.uint8], palette: list[int], clear: Collection[int]
) -> Artifact:
    """Write indices with their colours; those of ``clear`` are transparent."""
    from PIL import Image

    picture = Image.fromarray(mask, "L")
    picture.putpalette(palette)
    written = io.BytesIO()
    opacity = bytes(0 if at in clear else 255 for at in range(max(clear) + 1))
    picture.save(written, "PNG", transparency=opacity, optimize=True)
    return write_file(folder, "img/{}.png", written.getvalue())
