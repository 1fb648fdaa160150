"""Answers as JSON values → their drawings beside a record: boxes, masks, and where masks differ.

A mask is a PNG whose values are indices of classes and whose palette are their colours, so that a
page shows it as it is and a script reads the classes.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.annotations import IGNORED
from alignkit.record.drawn_facts import Drawn, DrawnBox, DrawnPair, PictureMap
from alignkit.record.picture_facts import write_file
from alignkit.record.stored import Artifact

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import FloatArray

COLOURS = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233),
    (240, 228, 66), (120, 94, 240), (166, 118, 29), (102, 166, 30), (231, 41, 138), (27, 158, 119),
)  # fmt: skip
"""Red, green and blue of classes by index, over and over; the first ones are Okabe and Ito's."""
_DIFFERENT = (227, 26, 28)
_BACKGROUNDS = ("background", "__background__", "unlabelled", "unlabeled", "void")


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
