"""View of answers over an image's pictures: boxes and masks of A, B and the truth."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from alignkit.annotations import IGNORED
from alignkit.record import (
    Artifact,
    Drawn,
    DrawnBox,
    DrawnPair,
    PictureMap,
    ServedPredictions,
    ShownImage,
)
from alignkit.record.document import shown_bytes
from alignkit.record.picture_facts import COLOURS, is_background, pack
from alignkit.text.names import Names
from alignkit.text.numbers import count, plain

DrawnSide = Literal["a", "b", "truth", "differing"]
_LABELLED = 12
"""Boxes of an answer whose classes are written beside them; of more, those that differ alone."""
_STILL = 0.05
"""Pixels that a box may move and be called the same."""


@dataclass(frozen=True, slots=True)
class BoxMark:
    """A box in pixels of the picture."""

    side: DrawnSide
    kind: str
    """``lost``, ``won``, ``matched``, … as a class of the style sheet; empty for none."""
    x: float
    y: float
    width: float
    height: float
    text: str
    """Beside the box; empty where there are too many."""
    title: str


@dataclass(frozen=True, slots=True)
class MaskMark:
    """A mask over the picture."""

    side: DrawnSide
    source: str
    transform: str
    """As SVG writes the map from the oriented image to the picture."""
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Overlay:
    """Everything that is drawn over one picture, which its switches show or hide."""

    width: int
    height: int
    font: float
    """Height of letters in pixels of the picture."""
    masks: tuple[MaskMark, ...]
    boxes: tuple[BoxMark, ...]


@dataclass(frozen=True, slots=True)
class ClassColour:
    """A class and its colour in masks."""

    name: str
    colour: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """The overlays of a card's pictures, and what they show in words."""

    overlays: tuple[Overlay, ...]
    """Of A, of B and, if the card has one, of their difference."""
    words: str
    """``2 boxes lost, 1 won, 3 shifted by up to 4.1 px``."""
    classes: tuple[ClassColour, ...]
    """The classes that the masks have."""


def drawing(image: ShownImage) -> Drawing | None:
    """Return what is drawn of an image: of the first row whose answers changed, else of the first.

    ``None`` for an image of a task that draws nothing.
    """
    pair = _pair(image)
    if pair is None or image.maps is None:
        return None
    (a, b), sizes = image.maps, image.sizes
    places = [(a, sizes[0]), (b, sizes[1])]
    if image.difference:
        places.append((a, sizes[0]))  # in A's pixels
    return Drawing(
        tuple(_overlay(image, pair, place, size) for place, size in places),
        _words(pair),
        _classes(pair, image.truth),
    )


def _row(image: ShownImage) -> ServedPredictions | None:
    rows = [each for each in image.predictions if each.drawn]
    return next((each for each in rows if any(each.turned)), rows[0] if rows else None)


def _pair(image: ShownImage) -> DrawnPair | None:
    row = _row(image)
    return row.drawn if row else None


def _of(row: ServedPredictions, names: Names) -> str:
    """Say whose answers are drawn: ``trained with a, served with b in torch bf16, seed 1``."""
    assert row.drawn is not None
    seed = row.drawn.seed
    runtime = dict(zip(row.seeds, row.runtimes, strict=True))[seed]
    words = f"{row_place(row, names)}{f' in {runtime}' if runtime else ''}"
    return f"{words}, seed {seed}" if len(row.seeds) > 1 else words


def row_place(row: ServedPredictions, names: Names) -> str:
    """Return ``trained with opencv, served with pillow``."""
    short = names.short
    return f"trained with {short(row.trained_with)}, served with {short(row.evaluated_with)}"


def _answers(image: ShownImage, pair: DrawnPair) -> tuple[tuple[DrawnSide, Drawn], ...]:
    found: tuple[tuple[DrawnSide, Drawn | None], ...] = (
        ("truth", image.truth),
        ("a", pair.before),
        ("b", pair.after),
    )
    return tuple((side, each) for side, each in found if each)


def _masks(
    image: ShownImage, pair: DrawnPair
) -> Iterator[tuple[DrawnSide, Artifact, tuple[str, ...]]]:
    """Yield the masks, each with the names of its classes."""
    for side, each in _answers(image, pair):
        if each.mask:
            yield side, each.mask, each.classes
    if pair.differing:
        yield "differing", pair.differing, ()


def _overlay(
    image: ShownImage, pair: DrawnPair, place: PictureMap, size: tuple[int, int]
) -> Overlay:
    transform = f"matrix({' '.join(f'{part:.6g}' for part in _parts(place))})"
    return Overlay(
        *size,
        round(max(size) / 22, 2),
        tuple(
            MaskMark(side, mask.path, transform, place.width, place.height)
            for side, mask, _ in _masks(image, pair)
        ),
        tuple(
            _mark(side, box, text, place)
            for side, each in _answers(image, pair)
            for box, text in _labelled(each.boxes)
        ),
    )


def _parts(place: PictureMap) -> tuple[float, ...]:
    """Return the map in the order of SVG's ``matrix`` and of a canvas' ``transform``."""
    return place.xx, place.yx, place.xy, place.yy, place.x0, place.y0


def _labelled(boxes: Sequence[DrawnBox]) -> Iterator[tuple[DrawnBox, str]]:
    for each in boxes:
        notable = each.kind not in ("", "matched")
        yield each, _label(each) if len(boxes) <= _LABELLED or notable else ""


def _mark(side: DrawnSide, box: DrawnBox, text: str, place: PictureMap) -> BoxMark:
    left, top, right, bottom = box.corners
    xs, ys = zip(*(_at(place, x, y) for x in (left, right) for y in (top, bottom)), strict=True)
    return BoxMark(
        side,
        _kind(box),
        round(min(xs), 2),
        round(min(ys), 2),
        round(max(xs) - min(xs), 2),
        round(max(ys) - min(ys), 2),
        text,
        _title(side, box),
    )


def _kind(box: DrawnBox) -> str:
    return box.kind.replace(" ", "-")


def _at(place: PictureMap, x: float, y: float) -> tuple[float, float]:
    return place.xx * x + place.xy * y + place.x0, place.yx * x + place.yy * y + place.y0


def _label(box: DrawnBox) -> str:
    return box.of_class if box.score is None else f"{box.of_class} {box.score:.2f}"


def _title(side: DrawnSide, box: DrawnBox) -> str:
    name = {"a": "A: ", "b": "B: ", "truth": "truth: "}[side]
    kind = "" if box.kind in ("", "matched") else f", {box.kind}"
    moved = "" if box.shift is None or box.shift < _STILL else f", shifted by {_px(box.shift)}"
    return f"{name}{_label(box)}{kind}{moved}"


def _px(shift: float) -> str:
    return f"{plain(shift, 1)} px"


def _words(pair: DrawnPair) -> str:
    """Say what became of the boxes, or how many pixels have another class."""
    if pair.share is not None:
        return f"{plain(100 * pair.share, 2)} % of the pixels have another class"
    kinds: Counter[str] = Counter(each.kind for each in pair.before.boxes)
    kinds["won"] = sum(each.kind == "won" for each in pair.after.boxes)
    moved = [each.shift for each in pair.before.boxes if each.shift and each.shift >= _STILL]
    parts = [f"{kinds[kind]} {words}" for kind, words in (
        ("lost", "lost"), ("won", "won"), ("class changed", "of another class"),
    ) if kinds[kind]]  # fmt: skip
    if moved:
        parts.append(f"{len(moved)} shifted by up to {_px(max(moved))}")
    boxes = f"{count(len(pair.before.boxes), 'box', 'boxes')} in A, {len(pair.after.boxes)} in B"
    return f"{boxes}: {', '.join(parts) or 'all the same'}"


def _classes(pair: DrawnPair, truth: Drawn | None) -> tuple[ClassColour, ...]:
    """Return the coloured classes that any of the masks has, by value."""
    found: dict[int, str] = {}
    for each in (pair.before, pair.after, truth):
        found |= {at: name for at, name in enumerate(each.classes if each else ()) if name}
    return tuple(
        ClassColour(name, f"rgb{COLOURS[at % len(COLOURS)]}")
        for at, name in sorted(found.items())
        if not is_background(name)
    )


def legend(images: Sequence[ShownImage]) -> str:
    """Say what the marks of drawn answers mean; empty where nothing is drawn."""
    pairs = [row.drawn for each in images for row in each.predictions if row.drawn]
    if any(pair.differing for pair in pairs):
        return "on the difference, in red: pixels whose class in B is another than in A"
    if pairs:
        return "thick: lost or won; dashed: its match has another class; thin: matched"
    return ""


def drawn_data(
    shown: Sequence[ShownImage], stored: Sequence[dict[str, Any]], names: Names, folder: Path
) -> dict[str, Any]:
    """Add each image's drawing to its entry in ``stored``; return the colours of classes.

    Nothing is added for a task that draws nothing; see ``answers.js``. Raises `RecordError` if a
    mask is missing or damaged.
    """
    known = {(image.a.path, image.b.path, image.id): image for image in shown}
    found = False
    for entry in stored:
        image = known[entry["pictures"][0], entry["pictures"][1], entry["id"]]
        row = _row(image)
        if row and row.drawn and image.maps:
            found = True
            entry["drawn"] = _packed(image, row.drawn, folder) | {"of": _of(row, names)}
    return {"colours": COLOURS} if found else {}


def _packed(image: ShownImage, pair: DrawnPair, folder: Path) -> dict[str, Any]:
    stages = [("", image.maps), *((each.stage, each.maps) for each in image.stages)]
    return {
        "boxes": [
            [side, *(round(at, 2) for at in box.corners), text, _kind(box)]
            for side, each in _answers(image, pair)
            for box, text in _labelled(each.boxes)
        ],
        "masks": [[side, *_mask(folder, mask, names)] for side, mask, names in _masks(image, pair)],
        "maps": {
            stage: [[float(f"{part:.6g}") for part in _parts(each)] for each in maps]
            for stage, maps in stages
            if maps
        },
    }


def _mask(folder: Path, mask: Artifact, names: Sequence[str]) -> tuple[Any, int, int]:
    """Return a mask's values, packed, with 255 where nothing is drawn; its width and its height."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(shown_bytes(folder, mask))) as read:
        values = np.array(read)
    clear = [at for at, name in enumerate(names) if is_background(name)]
    values[np.isin(values, clear)] = IGNORED
    return pack(values), values.shape[1], values.shape[0]
