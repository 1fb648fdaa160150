"""Tables of two runs: what changed in the matrix, and in paths, pixels and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from alignkit.place import Row
from alignkit.record import DriftChange
from alignkit.record.study_documents import (
    Change,
    EntryChange,
    PixelChange,
    RunComparison,
    StageChange,
)
from alignkit.report.table import Notes, RowCells, Shown, Table
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, NBSP, count, grouped, listed, p_value, significant
from alignkit.text.run_columns import place_columns
from alignkit.text.task_words import CHURN, TaskWords

ORDER: tuple[Change, ...] = (
    "new", "worse", "fixed", "better", "no change shown", "unchanged", "not compared"
)  # fmt: skip
"""Bad news first."""
CHANGES = {
    "new": Shown("▼ new", tone="bad"),
    "worse": Shown("▼ worse", tone="bad"),
    "fixed": Shown("▲ fixed"),
    "better": Shown("▲ better"),
    "unchanged": Shown("= unchanged", tone="muted"),
}
"""Of pixels, which are not a sample: any change is one."""
_OWN = "the others of its row are compared with it"


class Largest(NamedTuple):
    """The change of one metric at one place."""

    metric: str
    entry: EntryChange
    change: DriftChange


def largest(entries: Iterable[EntryChange], metrics: Iterable[str]) -> Largest | None:
    """Find the greatest change: of those that are shown, if any are; the first of equal ones."""
    known = [
        Largest(metric, entry, change)
        for entry in entries
        for metric in metrics
        if (change := _known(entry, metric))
    ]
    return max(known, key=_size) if known else None


def _size(found: Largest) -> tuple[bool, float]:
    return found.change.is_shown, abs(found.change.change.value or 0)


def _known(entry: EntryChange, metric: str) -> DriftChange | None:
    found = entry.metrics.get(metric)
    return found if found and found.change.value is not None else None


def leading(entries: Sequence[EntryChange], metrics: Sequence[str]) -> list[EntryChange]:
    """Return one entry of each pair of paths: in the runtime whose drift changed most."""
    groups: dict[tuple[Row, str], list[EntryChange]] = {}
    for each in entries:
        if not each.aligned:
            groups.setdefault((each.place.row, each.evaluated_with), []).append(each)
    found = (largest(group, metrics) for group in groups.values())
    return [each.entry for each in found if each]


def tally(kinds: Iterable[str], noun: str) -> str:
    """``Of 6 cells: 1 worse and 5 no change shown.``; empty for none."""
    counts = Counter(kinds)
    known = [f"{grouped(counts[kind])} {kind}" for kind in ORDER if counts[kind]]
    return f"Of {count(counts.total(), noun)}: {listed(known)}." if known else ""


def change_words(lead: str, found: Largest | None, words: TaskWords, names: Names) -> str:
    """Say a change as its row of the table does, and of how many images; empty for ``None``."""
    if found is None:
        return ""
    metric, entry, _ = found
    seeds = f" × {count(entry.seeds, 'seed')}" if entry.seeds > 1 else ""
    sample = f"n = {count(entry.n // max(entry.seeds, 1), 'image')}{seeds}"
    if entry.change == "unchanged":
        return f"{lead}: none, {sample}."
    unit = "" if metric == CHURN or entry.aligned else words.change_unit(metric)
    return (
        f"{lead}: {names.title(entry)}: {words.phrase(metric)} {_sides(found, words)}{unit}, "
        f"change {_tested(found, words, unit=True).said}, {sample}."
    )


def changes_table(made: RunComparison, names: Names) -> Table | None:
    """Return every cell with its drift before, after, and the change; greatest changes first."""
    entries = [each for each in made.entries if each.change != "unchanged"]
    if not entries:
        return None
    # the later run's task is that of both where they are compared
    words = TaskWords(made.after.task)

    def rank(each: EntryChange) -> tuple[bool, bool, float]:
        found = largest([each], words.drawn)
        shown, size = _size(found) if found else (False, 0.0)
        return found is None, not shown, -size

    why = attrgetter("reason")
    columns: tuple[Fact[EntryChange], ...] = (
        *place_columns(names),
        Fact("Images × seeds", lambda each: each.n if each.metrics else None, "count", note=why),
        *(
            column
            for metric in words.drawn
            if any(_known(each, metric) for each in entries)
            for column in _metric_columns(metric, words)
        ),
        Fact("Appeared", lambda each: each.appeared if each.metrics else None, "count", note=why,
             group="Flips"),
        Fact("Gone", lambda each: each.gone if each.metrics else None, "count", note=why,
             group="Flips"),
    )  # fmt: skip
    caption = "Drift in both runs and its change, p after Holm’s correction; as trained: the value"
    return Table.made(caption, columns, sorted(entries, key=rank))


def _metric_columns(metric: str, words: TaskWords) -> tuple[Fact[EntryChange], Fact[EntryChange]]:
    def found(each: EntryChange) -> Largest | None:
        change = _known(each, metric)
        return Largest(metric, each, change) if change else None

    def why(each: EntryChange) -> str:
        measured = each.metrics.get(metric)
        return measured.change.reason if measured else each.reason or _OWN

    group = f"{words.label(metric)}{'' if metric == CHURN else ', drift'}"
    unit = words.change_unit(metric).strip()
    head = f"Change, {unit}" if unit else "Change"
    return (
        Fact("Before → after", lambda each: (at := found(each)) and _sides(at, words), "points",
             note=why, group=group),
        Fact(head, lambda each: (at := found(each)) and _tested(at, words), "points",
             note=why, group=group),
    )  # fmt: skip


def _sides(found: Largest, words: TaskWords) -> str:
    value = found.entry.aligned or found.metric == CHURN
    write = words.value if value else words.change
    sides = (side.value for side in (found.change.before, found.change.after))
    return " → ".join("unknown" if e is None else write(found.metric, e) for e in sides)


def _tested(found: Largest, words: TaskWords, *, unit: bool = False) -> Shown:
    metric, change = found.metric, found.change
    said = words.changed(metric, change.change, unit=unit)
    p = [] if change.p is None else [f"p {p_value(change.p)}"]
    if not change.is_shown:
        return Shown(said, tag=", ".join([*p, "no change shown"]))
    worse = words.goodness(metric, change.change.value or 0) <= 0
    sign, word = ("▼", "worse") if worse else ("▲", "better")
    return Shown(f"{sign} {said}", tag=", ".join([*p, word]), tone="bad" if worse else "")


def differing_table(made: RunComparison, names: Names) -> Table | None:
    """Return the stages and images whose pixels changed, then versions, settings and paths.

    ``None`` if nothing differs and everything was compared.
    """
    notes, before, after = Notes(), made.before, made.after
    rows: list[RowCells] = [
        _stage_row(each, names, notes) for each in made.stages if each.change != "unchanged"
    ]
    rows += [
        (f"{pair_words(each, names)}, images", DASH, DASH, _images_tally(each))
        for each in made.pixels
        if each.unchanged < each.images or each.not_compared
    ]
    others = [(each.what, each.before, each.after) for each in made.differences]
    # twelve letters are enough to see whether they are equal
    plans = [("plan", before.key[:12], after.key[:12])]
    others += [each for each in [("experiment", before.name, after.name), *plans]
               if each[1] != each[2]]  # fmt: skip
    rows += [(*each, "") for each in others]
    caption = "Pixels (mean |Δ| of a stage on the same input, grey levels), versions, settings"
    columns = ("What", "Before", "After", "Change")
    return Table.of(caption, columns, rows, notes=notes) if rows else None


def _stage_row(each: StageChange, names: Names, notes: Notes) -> RowCells:
    change = CHANGES.get(each.change) or notes.missing(each.reason, f"not{NBSP}compared")
    sides = (notes.distance(side, significant, each.reason) for side in (each.before, each.after))
    return (f"{pair_words(each, names)}, {each.stage}", *sides, change)


def _images_tally(images: PixelChange) -> str:
    counts = {kind: getattr(images, kind.replace(" ", "_"), 0) for kind in ORDER}
    return listed([f"{grouped(number)} {kind}" for kind, number in counts.items() if number])


def pair_words(each: StageChange | PixelChange, names: Names) -> str:
    """Name the two paths of a comparison of pixels."""
    return f"{names.short(each.candidate)} against {names.short(each.reference)}"
