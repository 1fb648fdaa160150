"""Tables of two runs: what changed in the matrix, and in paths, pixels and settings."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.place import Row
from alignkit.record import DriftChange
from alignkit.record.study_documents import EntryChange, PixelChange, RunComparison, StageChange
from alignkit.report.comparison.compare_words import largest, words_of
from alignkit.report.table import PLACE, Group, Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, NBSP, grouped, listed, p_value, significant
from alignkit.text.task_words import CHURN, TaskWords

CHANGES = {
    "new": Shown("▼ new", tone="bad"),
    "worse": Shown("▼ worse", tone="bad"),
    "fixed": Shown("▲ fixed"),
    "better": Shown("▲ better"),
    "unchanged": Shown("= unchanged", tone="muted"),
}
"""Of pixels, which are not a sample: any change is one."""
_OWN = "the others of its row are compared with it"


def leading(entries: Sequence[EntryChange], metrics: Sequence[str]) -> list[EntryChange]:
    """Return one entry of each pair of paths: in the runtime whose drift changed most."""
    groups: dict[tuple[Row, str], list[EntryChange]] = {}
    for each in entries:
        if not each.aligned:
            groups.setdefault((each.place.row, each.evaluated_with), []).append(each)
    found = (largest(group, metrics) for group in groups.values())
    return [each.entry for each in found if each]


def changes_table(made: RunComparison, names: Names) -> Table | None:
    """Return every cell with its drift before, after, and the change; greatest changes first."""
    entries = [each for each in made.entries if each.change != "unchanged"]
    if not entries:
        return None
    words = words_of(made)
    metrics = [m for m in words.drawn if any(_known(each, m) for each in entries)]
    ordered = sorted(entries, key=lambda each: _rank(each, words))
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(each), *_row(each, metrics, words, notes)) for each in ordered
    ]
    groups = (
        Group("", 4),
        *(Group(f"{words.label(m)}{'' if m == CHURN else ', drift'}", 2) for m in metrics),
        Group("Flips", 2),
    )
    columns = (
        *PLACE,
        *numbers("Images × seeds"),
        *numbers(*(head for m in metrics for head in ("Before → after", _change_head(m, words)))),
        *numbers("Appeared", "Gone"),
    )
    caption = "Drift in both runs and its change, p after Holm’s correction; as trained: the value"
    return Table.of(caption, columns, rows, groups, notes=notes)


def _change_head(metric: str, words: TaskWords) -> str:
    unit = words.change_unit(metric).strip()
    return f"Change, {unit}" if unit else "Change"


def _known(entry: EntryChange, metric: str) -> bool:
    return metric in entry.metrics and entry.metrics[metric].change.value is not None


def _rank(entry: EntryChange, words: TaskWords) -> tuple[bool, bool, float]:
    found = largest([entry], words.drawn)
    if found is None:
        return True, True, 0.0
    return False, not found.change.is_shown, -abs(found.change.change.value or 0)


def _row(each: EntryChange, metrics: Sequence[str], words: TaskWords, notes: Notes) -> RowCells:
    if not each.metrics:
        return (notes.missing(each.reason),) * (1 + 2 * len(metrics) + 2)
    cells: list[Shown | str] = [grouped(each.n)]
    for metric in metrics:
        found = each.metrics.get(metric)
        if found is None or found.change.value is None:
            reason = found.change.reason if found else _OWN
            cells += [notes.missing(reason)] * 2
            continue
        cells += [
            _sides(found, metric, words, value=each.aligned or metric == CHURN),
            _tested(found, metric, words),
        ]
    return (*cells, grouped(each.appeared), grouped(each.gone))


def _sides(found: DriftChange, metric: str, words: TaskWords, *, value: bool) -> str:
    write = words.value if value else words.change
    values = (side.value for side in (found.before, found.after))
    return " → ".join(write(metric, each) for each in values if each is not None)


def _tested(found: DriftChange, metric: str, words: TaskWords) -> Shown:
    said = words.changed(metric, found.change)
    p = "" if found.p is None else f"p {p_value(found.p)}"
    if not found.is_shown:
        return Shown(said, tag=f"{p}, no change shown".removeprefix(", "))
    worse = words.goodness(metric, found.change.value or 0) <= 0
    sign, word = ("▼", "worse") if worse else ("▲", "better")
    tag = f"{p}, {word}".removeprefix(", ")
    return Shown(f"{sign} {said}", tag=tag, tone="bad" if worse else "")


def differing_table(made: RunComparison, names: Names) -> Table | None:
    """Return the stages and images whose pixels changed, then versions, settings and paths.

    ``None`` if nothing differs and everything was compared.
    """
    notes = Notes()
    rows: list[RowCells] = [
        _stage_row(each, names, notes) for each in made.stages if each.change != "unchanged"
    ]
    rows += [
        (f"{pair_words(each, names)}, images", DASH, DASH, _tally(each))
        for each in made.pixels
        if each.unchanged < each.images or each.not_compared
    ]
    rows += [(each.what, each.before, each.after, "") for each in made.differences]
    before, after = made.before, made.after
    for what, was, now in (
        ("experiment", before.name, after.name),
        ("plan", before.key[:12], after.key[:12]),  # enough to see whether they are equal
    ):
        if was != now:
            rows.append((what, was, now, ""))
    caption = "Pixels (mean |Δ| of a stage on the same input, grey levels), versions, settings"
    columns = ("What", "Before", "After", "Change")
    return Table.of(caption, columns, rows, notes=notes) if rows else None


def _stage_row(each: StageChange, names: Names, notes: Notes) -> RowCells:
    change = CHANGES.get(each.change) or notes.missing(each.reason, f"not{NBSP}compared")
    sides = (notes.distance(side, significant, each.reason) for side in (each.before, each.after))
    return (f"{pair_words(each, names)}, {each.stage}", *sides, change)


def _tally(images: PixelChange) -> str:
    kinds = ("new", "worse", "fixed", "better", "unchanged", "not_compared")
    known = {kind.replace("_", " "): getattr(images, kind) for kind in kinds}
    return listed([f"{grouped(number)} {kind}" for kind, number in known.items() if number])


def pair_words(each: StageChange | PixelChange, names: Names) -> str:
    """Name the two paths of a comparison of pixels."""
    return f"{names.short(each.candidate)} against {names.short(each.reference)}"
