"""Boxes and masks of A, B and the truth, drawn over an image: on its card, and in the viewer."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from markupsafe import Markup, escape

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
from alignkit.report.marks import number
from alignkit.text import printable
from alignkit.text.names import Names
from alignkit.text.numbers import count, plain

DrawnSide: TypeAlias = Literal["a", "b", "truth", "differing"]
_LABELLED = 12
"""Boxes of an answer whose classes are written beside them; of more, those that differ alone."""
_STILL = 0.05
"""Pixels that a box may move and be called the same."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn over the pictures of a card."""

    overlays: tuple[Markup, ...]
    """Of A, of B and, if the card has one, of their difference."""
    words: str
    """``2 boxes lost, 1 won, 3 shifted by up to 4.1 px``."""
    classes: tuple[tuple[str, str], ...]
    """Name and colour of each class that the masks have."""


def drawing(image: ShownImage) -> Drawing | None:
    """Return what is drawn on the card of an image; ``None`` if its task draws nothing."""
    found = _row(image)
    if found is None or image.maps is None:
        return None
    pair = found[1]
    # A, B, and the difference, which is in A's pixels
    places = [*zip(image.maps, image.sizes, strict=True)] * 2
    overlays = (_overlay(image, pair, *place) for place in places[: len(image.pictures)])
    return Drawing(tuple(overlays), _words(pair), _classes(pair, image.truth))


def legend(images: Sequence[ShownImage]) -> str:
    """Say what the marks of drawn answers mean; empty where nothing is drawn."""
    pairs = [row.drawn for each in images for row in each.predictions if row.drawn]
    if any(pair.differing for pair in pairs):
        return "on the difference, in red: pixels whose class in B is another than in A"
    if pairs:
        return "thick: lost or won; dashed: its match has another class; thin: matched"
    return ""


def drawn_data(image: ShownImage, names: Names, folder: Path) -> dict[str, Any]:
    """Return what the viewer draws on an image, see ``answers.js``; nothing if its task does not.

    Raises `RecordError` if a mask is missing or damaged.
    """
    found = _row(image)
    if found is None or image.maps is None:
        return {}
    row, pair = found
    stages = [("", image.maps), *((each.stage, each.maps) for each in image.stages)]
    drawn = {
        "of": _of(row, pair.seed, names),
        "boxes": [
            [side, *(round(at, 2) for at in box.corners), text, _kind(box)]
            for side, box, text in _boxes(image, pair)
        ],
        "masks": [[side, *_mask(folder, mask, names)] for side, mask, names in _masks(image, pair)],
        "maps": {
            stage: [[float(f"{part:.6g}") for part in _parts(each)] for each in maps]
            for stage, maps in stages
            if maps
        },
    }
    return {"drawn": drawn}


def row_place(row: ServedPredictions, names: Names) -> str:
    """Return ``trained with opencv, served with pillow``."""
    trained, served = names.short(row.trained_with), names.short(row.evaluated_with)
    return f"trained with {trained}, served with {served}"


def _row(image: ShownImage) -> tuple[ServedPredictions, DrawnPair] | None:
    """Find the row that is drawn: the first whose answers changed, else the first."""
    # one row is drawn: the boxes of several would hide each other
    rows = [(each, each.drawn) for each in image.predictions if each.drawn]
    return next((each for each in rows if any(each[0].turned)), rows[0] if rows else None)


def _of(row: ServedPredictions, seed: int, names: Names) -> str:
    """Say whose answers are drawn: ``trained with a, served with b in torch bf16, seed 1``."""
    runtime = row.runtimes[row.seeds.index(seed)]
    words = f"{row_place(row, names)}{f' in {runtime}' if runtime else ''}"
    return f"{words}, seed {seed}" if len(row.seeds) > 1 else words


def _answers(image: ShownImage, pair: DrawnPair) -> Iterator[tuple[DrawnSide, Drawn]]:
    if image.truth:
        yield "truth", image.truth
    yield "a", pair.before
    yield "b", pair.after


def _masks(
    image: ShownImage, pair: DrawnPair
) -> Iterator[tuple[DrawnSide, Artifact, tuple[str, ...]]]:
    """Yield the masks, each with the names of its classes."""
    for side, each in _answers(image, pair):
        if each.mask:
            yield side, each.mask, each.classes
    if pair.differing:
        yield "differing", pair.differing, ()


def _boxes(image: ShownImage, pair: DrawnPair) -> Iterator[tuple[DrawnSide, DrawnBox, str]]:
    """Yield the boxes, each with the text beside it, which is empty where there are too many."""
    for side, each in _answers(image, pair):
        for box in each.boxes:
            shown = len(each.boxes) <= _LABELLED or box.kind not in ("", "matched")
            yield side, box, _label(box) if shown else ""


def _element(tag: str, *inside: str, **attributes: str | float) -> Markup:
    """Write an element: all that is no markup is escaped, and what is not seen is written out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_said(value)}"'
        for name, value in attributes.items()
        if value != ""
    )
    body = "".join(each if isinstance(each, Markup) else _said(each) for each in inside)
    return Markup(f"<{tag}{given}>{body}</{tag}>")  # noqa: S704 - each part is escaped above


def _said(value: str | float) -> str:
    return str(escape(printable(value if isinstance(value, str) else number(value))))


def _overlay(
    image: ShownImage, pair: DrawnPair, place: PictureMap, size: tuple[int, int]
) -> Markup:
    """Draw masks and boxes in pixels of a picture; the page's switches show or hide them."""
    transform = f"matrix({' '.join(f'{part:.6g}' for part in _parts(place))})"
    masks = (
        _element(
            "image", class_=f"of-{side}", href=mask.path, width=place.width, height=place.height,
            preserveAspectRatio="none", transform=transform,
        )
        for side, mask, _ in _masks(image, pair)
    )  # fmt: skip
    boxes = (_box(*each, place, size) for each in _boxes(image, pair))
    return _element(
        "svg", *masks, *boxes, class_="drawn", viewBox=f"0 0 {size[0]} {size[1]}",
        font_size=_font(size), role="img", aria_label="Answers drawn on the picture",
    )  # fmt: skip


def _box(
    side: DrawnSide, box: DrawnBox, text: str, place: PictureMap, size: tuple[int, int]
) -> Markup:
    """Draw a box, upright also where the picture is turned, its text above it and inside."""
    left, top, right, bottom = box.corners
    corners = [(x, y) for x in (left, right) for y in (top, bottom)]
    # a turned picture swaps its axes
    xs = [place.xx * x + place.xy * y + place.x0 for x, y in corners]
    ys = [place.yx * x + place.yy * y + place.y0 for x, y in corners]
    x, y, end = min(xs), min(ys), max(xs)
    sides = {"x": x, "y": y, "width": end - x, "height": max(ys) - y}
    # in hundredths: a picture may be a few pixels large
    parts = [_element("rect", **{name: f"{round(value, 2):g}" for name, value in sides.items()})]
    if text:
        # else it would leave the picture on the right, or at the top
        late, font = x > 0.6 * size[0], _font(size)
        above = max(y - font / 4, 0.9 * font)
        anchor = {"text_anchor": "end"} if late else {}
        parts.append(_element("text", text, x=end if late else x, y=above, **anchor))
    return _element("g", *parts, class_=f"of-{side} {_kind(box)}".rstrip())


def _font(size: tuple[int, int]) -> float:
    """Return the height of letters in pixels of the picture."""
    return max(size) / 22


def _parts(place: PictureMap) -> tuple[float, ...]:
    """Return the map in the order of SVG's ``matrix`` and of a canvas' ``transform``."""
    return place.xx, place.yx, place.xy, place.yy, place.x0, place.y0


def _kind(box: DrawnBox) -> str:
    """Return the kind of a box as a class of the style sheet."""
    return box.kind.replace(" ", "-")


def _label(box: DrawnBox) -> str:
    return box.of_class if box.score is None else f"{box.of_class} {box.score:.2f}"


def _words(pair: DrawnPair) -> str:
    """Say what became of the boxes, or how many pixels have another class."""
    if pair.share is not None:
        return f"{plain(100 * pair.share, 2)} % of the pixels have another class"
    kinds: Counter[str] = Counter(each.kind for each in pair.before.boxes)
    # a box that was won is in B alone
    kinds["won"] = sum(each.kind == "won" for each in pair.after.boxes)
    moved = [each.shift for each in pair.before.boxes if each.shift and each.shift >= _STILL]
    parts = [f"{kinds[kind]} {words}" for kind, words in (
        ("lost", "lost"), ("won", "won"), ("class changed", "of another class"),
    ) if kinds[kind]]  # fmt: skip
    if moved:
        parts.append(f"{len(moved)} shifted by up to {plain(max(moved), 1)} px")
    boxes = f"{count(len(pair.before.boxes), 'box', 'boxes')} in A, {len(pair.after.boxes)} in B"
    return f"{boxes}: {', '.join(parts) or 'all the same'}"


def _classes(pair: DrawnPair, truth: Drawn | None) -> tuple[tuple[str, str], ...]:
    """Return the coloured classes that any of the masks has, by value."""
    found: dict[int, str] = {}
    for each in (pair.before, pair.after, truth):
        found |= {at: name for at, name in enumerate(each.classes if each else ()) if name}
    return tuple(
        (name, f"rgb{COLOURS[at % len(COLOURS)]}")
        for at, name in sorted(found.items())
        if not is_background(name)
    )


def _mask(folder: Path, mask: Artifact, names: Sequence[str]) -> tuple[Any, int, int]:
    """Return a mask's values, packed, with 255 where nothing is drawn; its width and its height."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(shown_bytes(folder, mask))) as read:
        values = np.array(read)
    # as the PNG has it: the script knows no names of classes
    clear = [at for at, name in enumerate(names) if is_background(name)]
    values[np.isin(values, clear)] = IGNORED
    return pack(values), values.shape[1], values.shape[0]
