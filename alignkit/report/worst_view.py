"""View of the images that differ most, as both paths see them, and commands that repeat a part."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from alignkit.record import WorstImage
from alignkit.record.stored import Placed
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import MINUS, TIMES, significant

_DROPPED = ("--cell", "--out", "--only")
"""Options of the whole, each with its value, that a part of it does not take over."""


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
    """Group the images by pair of paths, in the record's order; ``command`` made them."""
    groups: dict[tuple[str, str], list[WorstImage]] = {}
    for image in images:
        groups.setdefault((image.reference, image.candidate), []).append(image)
    return tuple(
        WorstGroup(
            names.of(reference),
            names.of(candidate),
            pair_name(reference, candidate),
            tuple(_card(image, command, names) for image in some),
        )
        for (reference, candidate), some in groups.items()
    )


def _card(image: WorstImage, command: str, names: Names) -> WorstCard:
    factor = f"{TIMES}{image.amplification:g}"
    a, b = names.short(image.reference), names.short(image.candidate)
    # a folder of images alone has no labels
    label = f"label {image.label} · " if image.label else ""
    return WorstCard(
        id=image.id,
        facts=f"{label}after {image.stage} · max {significant(image.max_abs)} · "
        f"mean {image.mean_abs:.2f}",
        labelled=bool(image.label),
        flipped=image.flipped,
        width=image.width,
        height=image.height,
        command=image_command(command, image.reference, image.candidate, image.id),
        pictures=(
            Picture(image.a.path, f"A {a}", f"{image.id} as {a} gives it"),
            Picture(image.b.path, f"B {b}", f"{image.id} as {b} gives it"),
            Picture(
                image.difference.path,
                f"|B {MINUS} A| {factor}",
                f"absolute difference of the two, amplified {factor}",
            ),
        ),
    )


def pair_name(reference: str, candidate: str) -> str:
    """Return the name of a pair of paths in a link."""
    return f"{reference}>{candidate}"


def cell_option(cell: Placed) -> str:
    """``--cell opencv/pillow/torch/bf16``, as a shell takes it."""
    return shlex.join(["--cell", str(cell.place)])


def cell_command(command: str, cell: Placed) -> str:
    """Return the shell line that runs one cell and the one it is compared with.

    Empty if ``command`` is not that of a run.
    """
    words = shlex.split(command)
    if words[:2] != ["alignkit", "run"]:  # a gate has no --cell
        return ""
    return f"{shlex.join(_of_a_part(words))} {cell_option(cell)}"


def image_command(command: str, reference: str, candidate: str, image: str = "") -> str:
    """Return the shell line that compares two paths, stage by stage, on one image.

    ``command`` is that of the run, gate or diff that showed it; empty if it was another. Without
    an ``image`` the line ends where its name is to stand.
    """
    words = shlex.split(command)
    if words[:2] == ["alignkit", "diff"]:
        line = _of_a_part(words)
    elif words[:1] == ["alignkit"] and words[1] in ("run", "gate"):
        overrides = [word for pair in pairwise(words) if pair[0] == "--set" for word in pair]
        line = ["alignkit", "diff", "--config", words[2], *overrides]
        line += ["--preprocess", reference, "--preprocess", candidate]
    else:
        return ""
    # quoted by itself: the page's script appends the name of an image to a line that has none
    return f"{shlex.join([*line, '--only'])} {shlex.quote(image) if image else ''}"


def _of_a_part(words: list[str]) -> list[str]:
    """Drop the options of the whole with their values, whether apart or after ``=``."""
    kept = []
    following = iter(words)
    for word in following:
        if word in _DROPPED:
            next(following)
        elif not word.startswith(tuple(f"{option}=" for option in _DROPPED)):
            kept.append(word)
    return kept
