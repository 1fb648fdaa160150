"""View of the images that are shown as both paths see them, grouped by pair of paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from alignkit.record import MatrixEntry, RunRecord, ServedPredictions, ShownImage
from alignkit.record.diff_document import DiffRecord
from alignkit.report.drawn_view import Drawing, drawing, legend, row_place
from alignkit.report.page import Details, Graphic, Mono, PagePart, Paragraph, Section
from alignkit.task_facts import CLASSIFICATION, TaskFacts
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import (
    MINUS,
    MOST_NAME,
    TIMES,
    count,
    grouped,
    listed,
    megabytes,
    plain,
    shorten_middle,
    significant,
)
from alignkit.text.part_commands import image_command, pair_name
from alignkit.text.task_words import in_sentence


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of an image's card."""

    source: str
    caption: str
    alt: str
    width: int
    """In pixels; 0 if it was not written down."""
    height: int


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """Predictions of one row's models for an image, by seed, in words."""

    place: str
    """``trained with opencv, served with pillow``."""
    words: str
    """``1 → 7, seeds 0 and 2; still 1, seed 1``."""
    kind: str
    """``lost``, ``gained``, ``moved`` or ``changed``, that of most seeds."""
    kind_words: str
    share: str
    """``2 of 3 seeds``; empty for one model."""


@dataclass(frozen=True, slots=True)
class ImageCard:
    """An image as both paths see it."""

    id: str
    label: str
    """Empty for images without labels."""
    facts: str
    outcomes: tuple[RowOutcome, ...]
    """Of the rows whose prediction changed."""
    unchanged: bool
    """Whether predictions were compared, and none changed."""
    pictures: tuple[Picture, ...]
    """Of A, of B and, if they are of one size, of their difference."""
    command: str
    """Compares the two paths on this image; empty if no command does."""
    rules: str
    """The failed rules of whose worst images it is one; empty if none is known."""
    drawing: Drawing | None = None
    """Answers over the pictures, of a task that draws them."""


@dataclass(frozen=True, slots=True)
class ImageGroup:
    """Images of one pair of paths that are shown for one reason."""

    reference: PathName
    candidate: PathName
    pair: str
    """How a link names the pair."""
    entry: str
    """The matrix entry between them that the verdict speaks of, else that changes most, by index;
    empty if there is none."""
    title: str
    """Of that entry."""
    lead: str
    cards: tuple[ImageCard, ...]
    folded: tuple[ImageCard, ...]
    """Cards that are shown when asked for."""
    closed: bool
    """Whether the whole group is."""
    anchor: str
    """Its id on the page."""


SEEN, SEEN_OF_OTHERS, FOLDED = 6, 3, 12
"""Cards in sight of the headline's pair and of each other group, and cards behind a fold."""
OPEN_GROUPS = 2
"""Groups of changed images that are open; of those shown for another reason the first is."""
_MOST_ANSWER = 90
"""Letters of an answer that is no class."""
_KINDS = ("lost", "gained", "moved")
"""Kinds of changes, worse, better and neither, as the style sheet names them."""
_TURNED = {"worse": "lost", "better": "gained", "neither": "moved", "changed": "changed", "": ""}
"""Kinds of the record → those."""


def changed_groups(record: RunRecord, names: Names) -> tuple[ImageGroup, ...]:
    """Group the images that changed prediction by pair of paths, the headline's pair first."""
    headline = record.headline
    leading = leading_entry(record.matrix, headline)
    first = _paths(record.matrix[leading]) if leading is not None else frozenset()
    pairs = sorted(
        (each for each in record.shown_pairs if each.changed),
        key=lambda each: {each.reference, each.candidate} != first,
    )
    groups = []
    for place, each in enumerate(pairs):
        pair = each.reference, each.candidate
        images = [image for image in _shown(record, "changed") if _pair(image) == pair]
        # the run may have kept more
        kept = f"the pixels of {grouped(len(images))}" if images else "no pixels of them"
        lead = (
            f"{grouped(each.changed)} of {count(each.images, 'image')} changed prediction; "
            f"this report has {kept}"
        )
        entry = leading_entry(record.matrix, headline, frozenset(pair))
        groups.append(
            _group(images, record, names, pair, why="changed", place=place, lead=lead, entry=entry)
        )
    return tuple(groups)


def other_groups(
    record: RunRecord | DiffRecord, names: Names, why: Literal["pixels", "random"]
) -> tuple[ImageGroup, ...]:
    """Group the images that are shown for another reason, pair by pair in the record's order."""
    pairs = dict.fromkeys(_pair(each) for each in _shown(record, why))
    matrix = record.matrix if isinstance(record, RunRecord) else ()
    headline = record.headline if isinstance(record, RunRecord) else None
    return tuple(
        _group(
            [each for each in _shown(record, why) if _pair(each) == pair],
            record,
            names,
            pair,
            why=why,
            place=place,
            lead="",
            entry=leading_entry(matrix, headline, frozenset(pair)),
        )
        for place, pair in enumerate(pairs)
    )


def changed_section(
    record: RunRecord, names: Names, omitted: str, *, listed: bool
) -> Section | None:
    """Return the images that changed prediction; ``None`` if none did.

    ``omitted`` says how many this form of the report shows; ``listed``, whether the page lists all.
    """
    groups = changed_groups(record, names)
    if not groups:
        return None
    task = record.task
    worse, last = task.turned[0], f"largest shift of the {task.outputs}"
    changed = ""
    if not task.class_scores:
        worse, last = "changed for the worse", "greatest difference of the answers"
        changed = f" Changed: {in_sentence(task.changed)}"
    kept = megabytes(max((each.limit for each in record.shown_pairs), default=0))
    lead = (
        f"In at least one model, against the same model served as trained.{changed} Order: most "
        f"models changed, then most {worse}, then the {last}. A run keeps pixels in this order, up "
        f"to {kept} a pair of paths ("
    )
    option = Mono("report: {changed: …}")
    shown = groups if listed else tuple(replace(each, title="") for each in groups)
    parts = (
        Paragraph((lead, option, f"). {omitted}".rstrip()), "lead"),
        Graphic("switch", legend(record.shown)),
        Graphic("groups", shown),
    )
    return Section("changed", "Images that changed prediction", parts, nav="Changed images")


def pixels_section(
    record: RunRecord | DiffRecord, names: Names, omitted: str = ""
) -> Section | None:
    """Return the images whose pixels differ most, and those drawn at random; ``None`` without any.

    ``omitted`` says how many of the stored images this form of the report shows.
    """
    largest = other_groups(record, names, "pixels")
    random = other_groups(record, names, "random")
    changed = isinstance(record, RunRecord) and any(each.changed for each in record.shown_pairs)
    if not (largest or random or omitted):
        return None
    lead = ""
    if largest and largest[0].cards[0].rules:
        lead = "Of each failed rule about pixels, the images with the greatest distances."
    elif largest:
        lead = (
            "The images whose pixels differ most between two paths, by mean difference in the "
            "model’s input."
        )
    if largest or random:
        lead += " Difference pictures are amplified as stated; numbers are not."
    parts: list[PagePart] = [Paragraph(f"{lead} {omitted}".strip(), "lead")]
    if (largest or random) and not changed:  # one switch serves the whole page
        parts.append(Graphic("switch", legend(record.shown)))
    parts.append(Graphic("groups", largest))
    if random:
        summary = "Drawn at random from the images that kept their prediction, by the run’s key"
        parts.append(Details(summary, [Graphic("groups", random)]))
    if random and not largest:
        return Section("largest", "Images drawn at random", parts, nav="Random images")
    return Section("largest", "Largest pixel differences", parts, nav="Pixel differences")


def leading_entry(
    matrix: Sequence[MatrixEntry], headline: int | None, paths: frozenset[str] = frozenset()
) -> int | None:
    """Find the entry whose images come first, among those between two ``paths`` if given.

    It is the one that the verdict speaks of, by its index ``headline``, if that changes any
    prediction; else the one that changes most, of the reference path's own row if anything changes
    in it. ``None`` if no entry was compared.
    """
    found = [
        (index, each)
        for index, each in enumerate(matrix)
        if not each.aligned and each.drift and each.drift.changed is not None
        if not paths or _paths(each) == paths
    ]
    if not found:
        return None
    if any(index == headline and entry.churn for index, entry in found):
        return headline
    own = [each for each in found if each[1].trained_with == matrix[0].trained_with]
    moved = any(entry.churn for _, entry in own)
    return max(own if moved else found, key=lambda each: each[1].churn)[0]


def _paths(entry: MatrixEntry) -> frozenset[str]:
    return frozenset((entry.row.preprocesses[0], entry.evaluated_with))


def _pair(image: ShownImage) -> tuple[str, str]:
    return image.reference, image.candidate


def _shown(record: RunRecord | DiffRecord, why: str) -> list[ShownImage]:
    return [each for each in record.shown if each.why == why]


def _group(
    images: Sequence[ShownImage],
    record: RunRecord | DiffRecord,
    names: Names,
    pair: tuple[str, str],
    *,
    why: str,
    place: int,
    lead: str,
    entry: int | None,
) -> ImageGroup:
    seen = SEEN if lead and place == 0 else SEEN_OF_OTHERS
    shown = images[: seen + FOLDED]
    cards = tuple(image_card(image, record.command, names, record.task) for image in shown)
    return ImageGroup(
        names.of(pair[0]),
        names.of(pair[1]),
        pair_name(*pair),
        "" if entry is None else str(entry),
        ""
        if entry is None or isinstance(record, DiffRecord)
        else names.title(record.matrix[entry]),
        lead,
        cards[:seen],
        cards[seen:],
        closed=place >= (OPEN_GROUPS if lead else 1),
        anchor=f"{why}-{place}",
    )


def image_card(
    image: ShownImage, command: str, names: Names, task: TaskFacts = CLASSIFICATION
) -> ImageCard:
    """Return the card of an image; ``command`` made the record that shows it."""
    changed = [each for each in image.predictions if any(_kinds(each, image.label))]
    return ImageCard(
        id=image.id,
        label=image.label,
        facts=_facts(image),
        outcomes=tuple(_outcome(each, image.label, names, task) for each in changed),
        unchanged=bool(image.predictions) and not changed,
        command=image_command(command, image.reference, image.candidate, image.id),
        rules="; ".join(image.rules),
        drawing=drawing(image),
        pictures=tuple(_pictures(image, names)),
    )


def _facts(image: ShownImage) -> str:
    if image.max_abs is None or image.mean_abs is None:
        return "no difference is shown: of two sizes, no pixel of A lies beside one of B"
    return f"max {significant(image.max_abs)} · mean {plain(image.mean_abs, 2)} of 255"


def _pictures(image: ShownImage, names: Names) -> Iterator[Picture]:
    a, b = names.short(image.reference), names.short(image.candidate)
    sides = ("A", a, image.a), ("B", b, image.b)
    for (side, name, picture), (width, height) in zip(sides, image.sizes, strict=True):
        beside = f", {width}{TIMES}{height}" if image.size_b else ""
        yield Picture(picture.path, f"{side} {name}{beside}", f"{image.id}, {name}", width, height)
    if image.difference:
        factor = f"{TIMES}{image.amplification:g}"
        yield Picture(
            image.difference.path,
            f"|B {MINUS} A| {factor}",
            f"absolute difference of the two, amplified {factor}",
            *image.sizes[0],
        )


def _outcome(row: ServedPredictions, label: str, names: Names, task: TaskFacts) -> RowOutcome:
    """Word the predictions of one row: the most frequent change first, then what stayed."""
    seeds: dict[tuple[str, str, str], list[int]] = {}
    for seed, *said in zip(row.seeds, row.before, row.after, row.runtimes, strict=True):
        seeds.setdefault((said[0], said[1], said[2]), []).append(seed)
    ordered = sorted(seeds, key=lambda said: (said[0] == said[1], -len(seeds[said])))
    worse, better, neither = task.turned
    moved = f"neither {worse} nor {better}" if neither == "neither" else neither
    turned = dict(zip(_KINDS, (worse, better, moved), strict=True))
    short = partial(shorten_middle, most=_MOST_ANSWER if row.turned else MOST_NAME)
    # of one model there is nothing to tell apart
    several = len(row.seeds) > 1
    words = [
        (f"still {short(was)}" if was == now else f"{short(was)} → {short(now)}")
        + (f" in {runtime}" if runtime else "")
        + (f", {_seeds(seeds[was, now, runtime])}" if several else "")
        for was, now, runtime in ordered
    ]
    kinds = _kinds(row, label)
    changed = [each for each in kinds if each]
    kind = max(dict.fromkeys(changed), key=changed.count)
    return RowOutcome(
        place=row_place(row, names),
        words="; ".join(words),
        kind=kind,
        kind_words=turned.get(kind, "changed"),
        share=f"{len(changed)} of {count(len(kinds), 'seed')}" if several else "",
    )


def _kinds(row: ServedPredictions, label: str) -> list[str]:
    """Return how each seed's answer changed, as `RowOutcome.kind`; empty where it did not."""
    if row.turned:
        return [_TURNED[each] for each in row.turned]
    return [_kind(was, now, label) for was, now in zip(row.before, row.after, strict=True)]


def _kind(was: str, now: str, label: str) -> str:
    if was == now:
        return ""
    if not label:
        return "changed"
    return "lost" if was == label else "gained" if now == label else "moved"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {listed([str(each) for each in sorted(seeds)])}"
