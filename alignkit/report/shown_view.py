"""View of the images that are shown as both paths see them, grouped by pair of paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from alignkit.record import MatrixEntry, RunRecord, ServedPredictions, ShownImage
from alignkit.record.diff_document import DiffRecord
from alignkit.report.drawn_view import Drawing, drawing, legend, row_place
from alignkit.report.page import (
    Details,
    Graphic,
    Heading,
    Link,
    Mono,
    PagePart,
    Paragraph,
    Piece,
    Section,
)
from alignkit.task_facts import CLASSIFICATION, TaskFacts
from alignkit.text.names import Names
from alignkit.text.numbers import (
    MINUS,
    MOST_NAME,
    TIMES,
    count,
    grouped,
    megabytes,
    plain,
    shorten_middle,
    significant,
)
from alignkit.text.part_commands import image_command, pair_name
from alignkit.text.task_words import in_sentence

Why: TypeAlias = Literal["changed", "pixels", "random"]
SEEN, SEEN_OF_OTHERS, FOLDED = 6, 3, 12
"""Cards in sight of the headline's pair and of each other group, and cards behind a fold."""
OPEN_GROUPS = 2
"""Groups of changed images that are open; of those shown for another reason the first is."""
_MOST_ANSWER = 90
"""Letters of an answer that is no class."""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What became of one row's predictions of an image."""

    kind: str
    """``worse``, ``better``, ``neither`` or ``changed``, as the style sheet colours it."""
    turned: str
    """The same in the task's words: ``right → wrong``."""
    share: str
    """``2 of 3 seeds``; empty for one model."""
    words: str
    """``trained with opencv, served with pillow: 1 → 7, 1 → 4``."""


@dataclass(frozen=True, slots=True)
class Card:
    """An image as both paths see it, and what is said below its pictures."""

    image: ShownImage
    captions: Sequence[str]
    """Of each of its pictures."""
    outcomes: Sequence[RowOutcome]
    """Of the rows whose prediction changed."""
    facts: Sequence[str]
    command: str = ""
    """Compares the two paths on this image; empty if no command does."""
    entry: int | None = None
    """Index of the matrix entry whose predictions the viewer shows."""
    drawing: Drawing | None = None
    """Answers over the pictures, of a task that draws them."""

    @property
    def pair(self) -> str:
        """How a link names its paths."""
        return pair_name(self.image.reference, self.image.candidate)


def changed_section(
    record: RunRecord, names: Names, omitted: str, *, listed: bool
) -> Section | None:
    """Return the images that changed prediction; ``None`` if none did.

    ``omitted`` says how many this form of the report shows; ``listed``, whether the page lists all.
    """
    groups = _groups(record, names, "changed", listed=listed)
    if not groups:
        return None
    kept = megabytes(max(each.limit for each in record.shown_pairs))
    lead = (
        "In at least one model, against the same model served as trained. Changed: "
        f"{in_sentence(record.task.changed)} Order: most models changed, then most changed for the "
        f"worse, then the largest shift of the {record.task.outputs}. A run keeps pixels in this "
        f"order, up to {kept} a pair of paths ("
    )
    words = (lead, Mono("report: {changed: …}"), f"). {omitted}".rstrip())
    switch = Graphic("switch", legend(record.shown))
    parts = [Paragraph(words, "lead"), switch, *groups]
    return Section("changed", "Images that changed prediction", parts, nav="Changed images")


def pixels_section(
    record: RunRecord | DiffRecord, names: Names, omitted: str = ""
) -> Section | None:
    """Return the images whose pixels differ most, and those drawn at random; ``None`` without any.

    ``omitted`` says how many of the stored images this form of the report shows.
    """
    largest, random = _groups(record, names, "pixels"), _groups(record, names, "random")
    if not (largest or random or omitted):
        return None
    lead = ""
    if largest and any(each.rules for each in record.shown):
        lead = "Of each failed rule about pixels, the images with the greatest distances."
    elif largest:
        lead = (
            "The images whose pixels differ most between two paths, by mean difference in the "
            "model’s input."
        )
    if largest or random:
        lead += " Difference pictures are amplified as stated; numbers are not."
    parts: list[PagePart] = [Paragraph(f"{lead} {omitted}".strip(), "lead")]
    changed = isinstance(record, RunRecord) and any(each.changed for each in record.shown_pairs)
    if (largest or random) and not changed:  # one switch serves the whole page
        parts.append(Graphic("switch", legend(record.shown)))
    parts += largest
    if random:
        summary = "Drawn at random from the images that kept their prediction, by the run’s key"
        parts.append(Details(summary, random))
    if random and not largest:
        return Section("largest", "Images drawn at random", parts, nav="Random images")
    return Section("largest", "Largest pixel differences", parts, nav="Pixel differences")


def by_pair(record: RunRecord | DiffRecord, why: Why) -> dict[tuple[str, str], list[ShownImage]]:
    """Return the images that are shown for a reason, by reference and candidate."""
    found: dict[tuple[str, str], list[ShownImage]] = {}
    for each in record.shown:
        if each.why == why:
            found.setdefault((each.reference, each.candidate), []).append(each)
    return found


def group_ids(record: RunRecord) -> dict[tuple[str, str], str]:
    """Return the id on the page of each pair of paths with the largest differences of pixels."""
    return {pair: f"pixels-{place}" for place, pair in enumerate(by_pair(record, "pixels"))}


def leading_entry(
    matrix: Sequence[MatrixEntry], headline: int | None, paths: frozenset[str] = frozenset()
) -> int | None:
    """Find the entry whose images come first, among those between two ``paths`` if given.

    It is the one that the verdict speaks of, by its index ``headline``, if that changes any
    prediction; else the one that changes most, of the reference path's own row if anything changes
    in it. ``None`` if no entry was compared.
    """
    churn = {
        index: each.churn
        for index, each in enumerate(matrix)
        if not each.aligned and each.drift and each.drift.changed is not None
        if not paths or _paths(each) == paths
    }
    if headline is not None and churn.get(headline):
        return headline
    own = [each for each in churn if matrix[each].trained_with == matrix[0].trained_with]
    return max(own if any(map(churn.get, own)) else churn, key=lambda at: churn[at], default=None)


def _paths(entry: MatrixEntry) -> frozenset[str]:
    return frozenset((entry.row.preprocesses[0], entry.evaluated_with))


def _groups(
    record: RunRecord | DiffRecord, names: Names, why: Why, *, listed: bool = False
) -> list[PagePart]:
    """Return the images that are shown for a reason, a group for each pair of paths."""
    images = by_pair(record, why)
    run = record if isinstance(record, RunRecord) else None
    leads = _leads(run) if run and why == "changed" else dict.fromkeys(images, "")
    parts: list[PagePart] = []
    for place, (pair, lead) in enumerate(leads.items()):
        entry = leading_entry(run.matrix, run.headline, frozenset(pair)) if run else None
        seen = SEEN if lead and not place else SEEN_OF_OTHERS
        cards = [
            image_card(each, record.command, names, record.task, entry)
            for each in images.get(pair, [])[: seen + FOLDED]
        ]
        title = names.of(pair[1]), " against ", names.of(pair[0])
        anchor = f"{why}-{place}"  # see `group_ids`
        if place >= (OPEN_GROUPS if lead else 1):
            # a link in a summary could not be reached
            summary = (*title, f": {lead}") if lead else title
            parts.append(Details(summary, _folded(cards, seen), id=anchor))
            continue
        words: list[Piece] = [lead]
        if run and listed and entry is not None:
            link = f"list of {names.title(run.matrix[entry])}"
            words += [" · ", Link(link, f"#/images?cell={entry}&q=flip%3Ayes")]
        said = [Paragraph(words, "lead")] if lead else []
        parts += [Heading(title, id=anchor), *said, *_folded(cards, seen)]
    return parts


def _folded(cards: Sequence[Card], seen: int) -> list[PagePart]:
    """Return the first cards in sight and the others behind a fold."""
    parts: list[PagePart] = [Graphic("cards", cards[:seen])] if cards else []
    if more := cards[seen:]:
        parts.append(Details(f"{len(more)} more", [Graphic("cards", more)]))
    return parts


def _leads(record: RunRecord) -> dict[tuple[str, str], str]:
    """Say of each pair of paths how many images changed prediction, the headline's first."""
    leading = leading_entry(record.matrix, record.headline)
    first = _paths(record.matrix[leading]) if leading is not None else frozenset()
    shown = by_pair(record, "changed")
    leads: dict[tuple[str, str], str] = {}
    for each in record.shown_pairs:
        pair = each.reference, each.candidate
        # the run may have kept more
        images = len(shown.get(pair, ()))
        kept = f"the pixels of {grouped(images)}" if images else "no pixels of them"
        of = f"{grouped(each.changed)} of {count(each.images, 'image')}"
        if each.changed:
            leads[pair] = f"{of} changed prediction; this report has {kept}"
    return dict(sorted(leads.items(), key=lambda item: {*item[0]} != first))


def image_card(
    image: ShownImage,
    command: str,
    names: Names,
    task: TaskFacts = CLASSIFICATION,
    entry: int | None = None,
) -> Card:
    """Return the card of an image; ``command`` made the record that shows it."""
    changed = [each for each in image.predictions if any(_turned(each, image.label))]
    facts = [_distance(image)]
    if image.predictions and not changed:
        facts[0] += " · no prediction changed"
    if image.rules:
        facts.append(f"Among the worst of a failed rule: {'; '.join(image.rules)}")
    return Card(
        image,
        _captions(image, names),
        [_outcome(each, image.label, names, task) for each in changed],
        facts,
        image_command(command, image.reference, image.candidate, image.id),
        entry,
        drawing(image),
    )


def _distance(image: ShownImage) -> str:
    if image.max_abs is None or image.mean_abs is None:
        return "no difference is shown: of two sizes, no pixel of A lies beside one of B"
    return f"max {significant(image.max_abs)} · mean {plain(image.mean_abs, 2)} of 255"


def _captions(image: ShownImage, names: Names) -> list[str]:
    # in the order of its pictures
    sides = [f"A {names.short(image.reference)}", f"B {names.short(image.candidate)}"]
    if image.difference is None:
        sizes = (f", {width}{TIMES}{height}" for width, height in image.sizes)
        return [side + size for side, size in zip(sides, sizes, strict=True)]
    return [*sides, f"|B {MINUS} A| {TIMES}{image.amplification:g}"]


def _outcome(row: ServedPredictions, label: str, names: Names, task: TaskFacts) -> RowOutcome:
    """Word the predictions of one row: each change once, as the list of images has it."""
    short = partial(shorten_middle, most=_MOST_ANSWER if row.turned else MOST_NAME)
    turned = _turned(row, label)
    said = zip(row.before, row.after, row.runtimes, turned, strict=True)
    # seeds that say the same are one change; a runtime is named where it alone changes the answer
    changes = dict.fromkeys(
        f"{short(was)} → {short(now)}" + (f" in {runtime}" if runtime else "")
        for was, now, runtime, kind in said
        if kind
    )
    kinds = [each for each in turned if each]
    kind = max(dict.fromkeys(kinds), key=kinds.count)  # of equally frequent ones the first
    worse, better, neither = task.turned
    if neither == "neither":  # alone on a card it would not say of what
        neither = f"neither {worse} nor {better}"
    words = {"worse": worse, "better": better, "neither": neither, "changed": "changed"}
    share = f"{len(kinds)} of {count(len(turned), 'seed')}" if len(turned) > 1 else ""
    return RowOutcome(kind, words[kind], share, f"{row_place(row, names)}: {'; '.join(changes)}")


def _turned(row: ServedPredictions, label: str) -> Sequence[str]:
    """Tell how each seed's answer changed, as `RowOutcome.kind`; empty where it did not."""
    if row.turned:
        return row.turned
    # classes say themselves what changed
    return [
        "" if was == now
        else "changed" if not label
        else "worse" if was == label
        else "better" if now == label
        else "neither"
        for was, now in zip(row.before, row.after, strict=True)
    ]  # fmt: skip
