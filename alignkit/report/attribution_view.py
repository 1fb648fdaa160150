"""What causes a drift: its shares, factor by factor, as a chart and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import AttributionFacts, Estimate, RunRecord
from alignkit.report.svg import DotPlot, dot_plot, drawn
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, number_columns, text_columns
from alignkit.text.names import LABELS, Names, PathName
from alignkit.text.numbers import count, plain, signed

UNITS = {"fraction": "pp", "grey levels": "grey levels", "logits": "logits"}
CHARTED = ("recall.macro", "top1", "churn", "pixels")
"""The chart shows the first of these that was attributed."""
UNSIGNED = ("churn", "pixels", "pixels.decode", "logits")


@dataclass(frozen=True, slots=True)
class AttributionSection:
    """The causes of the drift between two paths, in one runtime."""

    reference: PathName
    candidate: PathName
    runtime: str
    """Empty where no model is involved."""
    again: bool
    """Whether another runtime of these paths stands before it."""
    sentences: tuple[str, ...]
    remarks: tuple[str, ...]
    chart: DotPlot | None
    table: Table | None


def attribution_sections(record: RunRecord, names: Names) -> tuple[AttributionSection, ...]:
    """A section for each pair of paths and runtime, in the record's order."""
    groups: dict[tuple[str, str, str], list[AttributionFacts]] = {}
    for each in record.attributions:
        runtime = f"{each.backend} {each.precision}".strip()
        groups.setdefault((each.reference, each.candidate, runtime), []).append(each)
    first: dict[tuple[str, str], str] = {}
    for reference, candidate, runtime in groups:
        if runtime:
            first.setdefault((reference, candidate), runtime)
    return tuple(
        AttributionSection(
            reference=names.of(reference),
            candidate=names.of(candidate),
            runtime=runtime,
            again=runtime not in ("", first.get((reference, candidate))),
            sentences=tuple(each.sentence or each.reason for each in found),
            remarks=_remarks(found),
            chart=_chart(index, found),
            table=_table(found),
        )
        for index, ((reference, candidate, runtime), found) in enumerate(groups.items())
    )


def _remarks(found: Sequence[AttributionFacts]) -> tuple[str, ...]:
    notes = dict.fromkeys(note for each in found for note in each.notes)
    left_out = max((each.left_out for each in found), default=0)
    if left_out:
        notes[
            f"{count(left_out, 'image')} left out: not every mixture of the paths prepares them"
        ] = None
    if any(each.method == "one-at-a-time" and each.shares for each in found):
        notes["one factor at a time: what is left is the interaction"] = None
    return tuple(notes)


def _chart(index: int, found: Sequence[AttributionFacts]) -> DotPlot | None:
    known = {each.metric: each for each in found if each.shares}
    metric = next((metric for metric in CHARTED if metric in known), None)
    if metric is None:
        return None
    each = known[metric]
    unit, scale = ("percentage points", 100) if each.unit == "fraction" else (each.unit, 1)
    rows = [
        (share.factor, drawn(share.effect, scale), drawn(share.alone, scale))
        for share in each.shares
    ]
    return dot_plot(
        rows,
        id=f"causes-{index}",
        title=f"{LABELS[metric]}: share of each cause, {each.reference} to {each.candidate}",
        series=("share", "alone, all else as in the reference"),
        unit=f"{unit}, with 95 % intervals",
    )


def _table(found: Sequence[AttributionFacts]) -> Table | None:
    known = [each for each in found if each.shares]
    if not known:
        return None
    notes = Notes()
    factors = dict.fromkeys(share.factor for each in known for share in each.shares)
    rows: list[RowCells] = [
        (factor, *(cell for each in known for cell in _shares(each, factor, notes)))
        for factor in factors
    ]
    for name in ("interaction", "total"):
        cells = (_written(getattr(each, name), each, notes) for each in known)
        rows.append((name, *(cell for first in cells for cell in (first, Shown("")))))
    groups = [
        Group(f"{LABELS.get(each.metric, each.metric)}, {UNITS[each.unit]}", 2) for each in known
    ]
    return Table.of(
        "Shares add up to the total; alone: only this factor as in the candidate. Intervals are of "
        "other images for the same models",
        (*text_columns("Cause"), *number_columns(*("Share", "Alone") * len(known))),
        rows,
        (Group("", 1), *groups),
        notes=notes,
    )


def _shares(each: AttributionFacts, factor: str, notes: Notes) -> tuple[Shown, Shown]:
    share = next((share for share in each.shares if share.factor == factor), None)
    if share is None:
        gap = notes.missing("not a factor of this metric")
        return gap, gap
    return _written(share.effect, each, notes), _written(share.alone, each, notes)


def _written(estimate: Estimate, each: AttributionFacts, notes: Notes) -> Shown:
    if estimate.value is None:
        return notes.missing(estimate.reason)
    scale = 100 if each.unit == "fraction" else 1
    negative = any(end is not None and end < 0 for end in (estimate.value, estimate.low))
    write = plain if each.metric in UNSIGNED and not negative else signed
    text = write(scale * estimate.value, 2)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{write(scale * estimate.low, 2)}, {write(scale * estimate.high, 2)}]"
    return Shown(text)
