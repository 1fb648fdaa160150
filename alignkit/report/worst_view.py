"""The images that differ most, as both paths see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import WorstImage
from alignkit.report.reproduce import image_command
from alignkit.report.viewer_data import pair_name
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import MINUS, TIMES, significant


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of a worst-image card."""

    source: str
    caption: str
    alt: str


@dataclass(frozen=True, slots=True)
class WorstCard:
    """An image as both paths see it."""

    id: str
    facts: str
    labelled: bool
    """Whether predictions of it could flip."""
    flipped: str
    pictures: tuple[Picture, ...]
    width: int
    """Of each picture, in pixels; 0 if it was not written down."""
    height: int
    command: str
    """Compares the two paths on this image; empty if no command does."""


@dataclass(frozen=True, slots=True)
class WorstGroup:
    """The worst images of one pair of paths."""

    reference: PathName
    candidate: PathName
    pair: str
    """How a link names the pair."""
    cards: tuple[WorstCard, ...]


def worst_groups(
    images: Sequence[WorstImage], names: Names, command: str
) -> tuple[WorstGroup, ...]:
    """The worst images, grouped by pair of paths, in the record's order; ``command`` made them."""
    groups: dict[tuple[str, str], list[WorstImage]] = {}
    for image in images:
        groups.setdefault((image.reference, image.candidate), []).append(image)
    return tuple(
        WorstGroup(
            names.of(reference),
            names.of(candidate),
            pair_name(reference, candidate),
            tuple(_card(image, command) for image in some),
        )
        for (reference, candidate), some in groups.items()
    )


def _card(image: WorstImage, command: str) -> WorstCard:
    factor = f"{TIMES}{image.amplification:g}"
    difference = f"|B {MINUS} A| {factor}"
    return WorstCard(
        id=image.id,
        facts=(f"label {image.label} · " if image.label else "")
        + f"after {image.stage} · max {significant(image.max_abs)} · mean {image.mean_abs:.2f}",
        labelled=bool(image.label),
        flipped=image.flipped,
        width=image.width,
        height=image.height,
        command=image_command(command, image.reference, image.candidate, image.id),
        pictures=(
            Picture(
                image.a.path, f"A {image.reference}", f"{image.id} as {image.reference} gives it"
            ),
            Picture(
                image.b.path, f"B {image.candidate}", f"{image.id} as {image.candidate} gives it"
            ),
            Picture(
                image.difference.path,
                difference,
                f"absolute difference of the two, amplified {factor}",
            ),
        ),
    )
