"""Views of causes and remedies: the shares of a drift by factor, and what to change against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import AdviceFacts, AttributionFacts, Estimate, RunRecord
from alignkit.report.charts import DotPlot, dot_plot, drawn
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import LABELS, Names, PathName
from alignkit.text.numbers import count, plain, signed

_UNITS = {"fraction": "pp", "grey levels": "grey levels", "logits": "logits"}
_CHARTED = ("recall.macro", "top1", "churn", "pixels")
"""The chart shows the first of these that was attributed."""
_UNSIGNED = ("churn", "churn.decode", "pixels", "pixels.decode", "logits", "logits.decode")
"""Distances: without a sign unless one of their shares is negative."""


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
    """Return a section for each pair of paths and runtime, in the record's order."""
    groups: dict[tuple[str, str, str], list[AttributionFacts]] = {}
    for each in record.attributions:
        # all that is inside decode stands beside its pixels
        runtime = "" if each.metric.endswith(".decode") else _runtime(each)
        groups.setdefault((each.reference, each.candidate, runtime), []).append(each)
    first: dict[tuple[str, str], str] = {}  # the runtime whose causes are not folded
    for reference, candidate, runtime in groups:
        if runtime:
            first.setdefault((reference, candidate), runtime)
    return tuple(
        AttributionSection(
            reference=names.of(reference),
            candidate=names.of(candidate),
            runtime=runtime,
            again=runtime not in ("", first.get((reference, candidate))),  # folded on the page
            sentences=tuple(_sentence(each) for each in found),
            remarks=_remarks(found),
            chart=_chart(index, found, names),
            table=_table(found),
        )
        for index, ((reference, candidate, runtime), found) in enumerate(groups.items())
    )


def _runtime(each: AttributionFacts) -> str:
    return f"{each.backend} {each.precision}".strip()


def _sentence(each: AttributionFacts) -> str:
    """Return the sentence; predictions inside decode are those of the runtime it names."""
    words = each.sentence or each.reason
    inside = each.metric.endswith(".decode") and each.backend
    return f"{words} (the decoder alone, in {_runtime(each)})" if inside else words


def _remarks(metrics: Sequence[AttributionFacts]) -> tuple[str, ...]:
    remarks = list(dict.fromkeys(note for each in metrics for note in each.notes))
    drawn = dict.fromkeys(
        f"{_drawn_for(each)}: {each.images + each.left_out} of {count(each.drawn_from, 'image')} "
        "were mixed, drawn evenly from all classes, as a budget allows; 'attribute: {images: all}' "
        "mixes every one"
        for each in metrics
        if each.drawn_from
    )
    remarks += drawn
    if left_out := max(each.left_out for each in metrics):
        images = count(left_out, "image")
        remarks.append(f"{images} left out: not every mixture of the paths prepares them")
    if any(each.method == "one-at-a-time" and each.shares for each in metrics):
        remarks.append("one factor at a time: the interaction is the total less the shares")
    return tuple(remarks)


def _drawn_for(each: AttributionFacts) -> str:
    return "predictions inside decode" if each.metric.endswith(".decode") else "shares"


def _chart(index: int, found: Sequence[AttributionFacts], names: Names) -> DotPlot | None:
    known = {each.metric: each for each in found if each.shares}
    metric = next((metric for metric in _CHARTED if metric in known), None)
    if metric is None:
        return None
    each = known[metric]
    unit, scale = ("percentage points", 100) if each.unit == "fraction" else (each.unit, 1)
    rows = [
        (share.factor, drawn(share.effect, scale), drawn(share.alone, scale))
        for share in each.shares
    ]
    pair = f"{names.short(each.reference)} to {names.short(each.candidate)}"
    return dot_plot(
        rows,
        id=f"causes-{index}",
        title=f"{LABELS[metric]}: share of each cause, {pair}",
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
        # the second column is of single factors
        rows.append((name, *(cell for share in cells for cell in (share, ""))))
    groups = [
        Group(f"{LABELS.get(each.metric, each.metric)}, {_UNITS[each.unit]}", 2) for each in known
    ]
    caption = (
        "Shares add up to the total; alone: only this factor as in the candidate. Intervals are of "
        "other images for the same models"
    )
    columns = ("Cause", *numbers(*("Share", "Alone") * len(known)))
    return Table.of(caption, columns, rows, (Group("", 1), *groups), notes=notes)


def _shares(each: AttributionFacts, factor: str, notes: Notes) -> tuple[Shown, Shown]:
    for share in each.shares:
        if share.factor == factor:
            return _written(share.effect, each, notes), _written(share.alone, each, notes)
    gap = notes.missing("not a factor of this metric")
    return gap, gap


def _written(estimate: Estimate, each: AttributionFacts, notes: Notes) -> Shown:
    if estimate.value is None:
        return notes.missing(estimate.reason)
    scale = 100 if each.unit == "fraction" else 1
    negative = any(end is not None and end < 0 for end in (estimate.value, estimate.low))
    write = plain if each.metric in _UNSIGNED and not negative else signed  # both ends in one style
    text = write(scale * estimate.value, 2)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{write(scale * estimate.low, 2)}, {write(scale * estimate.high, 2)}]"
    return Shown(text)


@dataclass(frozen=True, slots=True)
class AdviceSection:
    """The advice for one path that serves."""

    served: PathName
    sentence: str
    """The change, its promise and its effect; why there is no advice, where there is none."""
    searched: str
    table: Table | None
    yaml: str


def advice_sections(record: RunRecord, names: Names) -> tuple[AdviceSection, ...]:
    """Return a section for each advice, in the record's order."""
    return tuple(
        AdviceSection(
            served=names.of(each.served),
            sentence=advice_sentence(each),
            searched=_searched(each),
            table=_before_and_after(each),
            yaml=each.yaml,
        )
        for each in record.advice
    )


def advice_sentence(each: AdviceFacts) -> str:
    """Return the outcome, or why there is none."""
    if each.sentence:
        return each.sentence
    what = f"{each.label} was found, but not checked" if each.label else "No advice"
    return f"{what} for {each.served}: {each.reason}."


def _searched(each: AdviceFacts) -> str:
    if each.distance is None or each.distance.value is None:
        return ""
    nearest = f"{each.distance.value:.3f} grey levels remain in the mean"
    seen = f"Of {each.tried} configurations, the nearest by pixels on {each.images} training images"
    if each.unseen is None:
        return f"{seen}: {nearest}."
    checked = count(each.unseen_images, "image")
    return f"{seen}: {nearest}, {each.unseen:.3f} on {checked} kept for a check."


def _before_and_after(each: AdviceFacts) -> Table | None:
    if not each.drift:
        return None
    notes = Notes()
    rows: list[RowCells] = [
        (
            LABELS.get(row.metric, row.metric),
            *(
                notes.estimated(value, 1 if share else 2, share=share)
                for value in (row.before, row.expected, row.confirmed)
            ),
        )
        for row in each.drift
        for share in [row.metric == "churn"]
    ]
    caption = (
        "Drift before the change, expected after it and confirmed on the evaluation images; churn "
        "in %, all else in pp"
    )
    columns = ("Metric", *numbers("Before", "Expected", "Confirmed"))
    return Table.of(caption, columns, rows, notes=notes)
