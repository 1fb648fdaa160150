"""Causes and remedies on a page: the shares of a drift by stage, and what to change against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from alignkit.record import AdviceFacts, AttributionFacts, Estimate, MitigationFacts, RunRecord
from alignkit.report.axis import Axis, Interval, drawn
from alignkit.report.marks import Dot, Line, PlotMark
from alignkit.report.page import (
    Beside,
    Code,
    Details,
    Heading,
    Mono,
    PagePart,
    Paragraph,
    Section,
    against,
)
from alignkit.report.plot import Plot, facets
from alignkit.report.table import Table
from alignkit.text.column import Fact
from alignkit.text.measured import of_first_models
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, plain
from alignkit.text.shares import moving_steps, share_estimated, shares_sentence, steps_of
from alignkit.text.task_words import TaskWords

_INSIDE = ".decode"
_DISTANCES = ("pixels", "logits")
"""Metrics that no task names; they begin at zero, and a rise is for the worse."""


def cause_parts(record: RunRecord, names: Names) -> Iterator[PagePart]:
    """Yield the causes of each pair of paths; those in its first runtime are drawn."""
    pairs: dict[tuple[str, str], list[AttributionFacts]] = {}
    for each in record.attributions:
        pairs.setdefault((each.reference, each.candidate), []).append(each)
    drawn_of = {pair: [*_waterfalls(record, found, names)] for pair, found in pairs.items()}
    # pairs of paths are compared by eye, so that a metric has one axis on the page
    plots = iter(facets([plot for own in drawn_of.values() for plot in own]))
    words = TaskWords(record.task)
    for pair, found in pairs.items():
        reference, candidate = map(names.of, pair)
        first = _first_runtime(found)
        runtime = f", {first}{of_first_models(record, pair[0], names)}" if first else ""
        yield against(candidate, reference, *[runtime] * bool(runtime))
        yield from map(Paragraph, _sentences(found, words))
        if drawn_of[pair]:
            yield Beside([[next(plots)] for _ in drawn_of[pair]], "columns")
        if any(each.shares for each in found):
            remarks = [Paragraph(each, "notes") for each in _remarks(found)]
            summary = "Shares in numbers: each metric, each stage alone, inside decode"
            yield Details(summary, [_table(found, words), *remarks])


def _runtime(each: AttributionFacts) -> str:
    return f"{each.backend} {each.precision}".strip()


def _first_runtime(found: Sequence[AttributionFacts]) -> str:
    return next(filter(None, map(_runtime, found)), "")


def _sentences(found: Sequence[AttributionFacts], words: TaskWords) -> list[str]:
    """Say what causes the drift in each runtime, and what of the decoder does if it adds to it."""
    whole = [each for each in found if each.shares and not each.metric.endswith(_INSIDE)]
    if not whole:
        return [f"{words.label(each.metric)}: {each.reason}" for each in found]
    order = [*words.drawn, *words.task.matrices, *(each.metric for each in whole)]
    whole.sort(key=lambda each: order.index(each.metric))
    said = []
    runtimes = [*dict.fromkeys(filter(None, map(_runtime, whole)))] or [""]
    for runtime in runtimes:
        # the pixels, which are of no runtime, are named where no change of the model is clear
        own = [each for each in whole if _runtime(each) in (runtime, "")]
        main = next((each for each in own if _is_clear(each.total)), own[0])
        where = f" in {runtime}" if len(runtimes) > 1 and _runtime(main) else ""
        said.append(shares_sentence(main, f"of {words.phrase(main.metric)}{where}"))
        inside = [each for each in found if each.metric == f"{main.metric}{_INSIDE}"]
        if any("decode" in each.factor for each in moving_steps(main)):
            said += [shares_sentence(each, "inside decode") for each in inside if each.shares]
    return list(dict.fromkeys(said))


def _is_clear(total: Estimate) -> bool:
    """Tell whether the interval of a change lies on one side of zero."""
    return bool(total.value) and not (total.low or 0) <= 0 <= (total.high or 0)


def _remarks(found: Sequence[AttributionFacts]) -> list[str]:
    remarks = [note for each in found for note in each.notes]
    remarks += [
        f"{'predictions inside decode' if each.metric.endswith(_INSIDE) else 'shares'}: "
        f"{each.images + each.left_out} of {count(each.drawn_from, 'image')} were mixed, drawn "
        "evenly from all classes, as a budget allows; 'attribute: {images: all}' mixes every one"
        for each in found
        if each.drawn_from
    ]
    if left_out := max(each.left_out for each in found):
        images = count(left_out, "image")
        remarks.append(f"{images} left out: not every mixture of the paths prepares them")
    if any(each.method == "one-at-a-time" and each.shares for each in found):
        remarks.append("one factor at a time: the interaction is the total less the shares")
    return list(dict.fromkeys(remarks))


class _Share(NamedTuple):
    """A row of the table of shares."""

    of: AttributionFacts
    cause: str
    share: Estimate
    alone: Estimate | str = ""


def _table(found: Sequence[AttributionFacts], words: TaskWords) -> Table:
    rows = []
    for each in found:
        rows += [_Share(each, e.factor, e.effect, e.alone) for e in each.shares]
        rows += [_Share(each, "interaction", each.interaction)] if each.shares else []
        # of a metric without shares it has the reason
        rows.append(_Share(each, "total", each.total))

    def estimate(value: Estimate, row: _Share) -> str:
        return share_estimated(value, row.of)

    columns: tuple[Fact[_Share], ...] = (
        Fact("Metric", lambda row: _in_unit(words.label(row.of.metric), row.of, "pp")),
        Fact("Runtime", lambda row: _runtime(row.of) or DASH),
        Fact("Cause", lambda row: row.cause),
        Fact("Share", lambda row: row.share, "points", format=estimate,
               note=lambda row: row.of.reason),
        Fact("Alone", lambda row: row.alone, "points", format=estimate),
    )  # fmt: skip
    caption = (
        "Share: splits the total. Alone: swap only this stage. The 95 % intervals cover other "
        "images, not other trainings"
    )
    return Table.made(caption, columns, rows)


def _in_unit(name: str, found: AttributionFacts, points: str) -> str:
    unit = points if found.unit == "fraction" else found.unit
    return f"{name}, {unit}".removesuffix(", value")


def _waterfalls(
    record: RunRecord, found: Sequence[AttributionFacts], names: Names
) -> Iterator[Plot]:
    """Yield the waterfalls of a pair in its first runtime."""
    own = ("", _first_runtime(found))
    known = {each.metric: each for each in found if each.shares and _runtime(each) in own}
    words = TaskWords(record.task)
    # without a model there are the pixels alone
    for metric in [name for name in words.drawn if name in known] or _DISTANCES[:1]:
        if each := known.get(metric):
            of = f"{names.short(each.candidate)} against {names.short(each.reference)}"
            of = f"{of} {_runtime(each)}".rstrip()
            if plot := waterfall(each, _baseline(record, each), words, of):
                yield plot


def waterfall(found: AttributionFacts, baseline: float, words: TaskWords, of: str) -> Plot | None:
    """Draw how a value comes from the ``baseline`` to that as served, a row a factor.

    ``None`` where a share is not known.
    """
    scale = 100 if found.unit == "fraction" else 1
    steps, total, start = steps_of(found), drawn(found.total, scale), scale * baseline
    sizes = [size for each in steps if (size := drawn(each.effect, scale))]
    if total is None or len(sizes) < len(steps):
        return None
    rise_is_worse = found.metric in _DISTANCES or words.lower_is_better(found.metric)
    marks: list[PlotMark] = [Dot(start, 0, "t2", "level")]
    at, last = start, len(steps) + 1
    for row, size in enumerate(sizes, 1):
        end = _moved(size, at)
        marks.append(Line(((at, row - 1), (at, row)), "ink next"))  # from the row before
        if size.value:
            tone = "t1 bar" if (size.value > 0) == rise_is_worse else "t0 bar"
            marks.append(Line(((at, row), (end.value, row)), tone))
        # the end is drawn, too, so that a small change is seen
        marks.append(Dot(end, row, "ink", "tick"))
        at = end.value
    served = _moved(total, start)
    marks += [Line(((at, last - 1), (at, last)), "ink next"), Dot(served, last, "t2", "level")]
    title = words.label(found.metric)
    if not (start or found.metric in _DISTANCES or words.is_size(found.metric)):
        title = f"Change of {words.phrase(found.metric)}"
    caption = _in_unit(title, found, "%")
    # values have no sign, changes have one
    ends = f" [{plain(served.low, 2)}, {plain(served.high, 2)}]" if served.low < served.high else ""
    beside = [plain(start, 2), *(share_estimated(each.effect, found) for each in steps)]
    return Plot(
        title=f"{caption}, {of}, from the baseline to the value as served, with 95 % intervals",
        caption=caption,
        x=Axis(),
        y=Axis(
            rows=("baseline", *(each.factor for each in steps), "served"),
            beside=(*beside, f"{plain(served.value, 2)}{ends}"),
        ),
        marks=marks,
    )


def _moved(size: Interval, by: float) -> Interval:
    return Interval(by + size.value, by + size.low, by + size.high)


def _baseline(record: RunRecord, each: AttributionFacts) -> float:
    """Return the value of the models on the path that they were trained with, else zero."""
    if each.drawn_from or each.left_out:  # the cell is of more images
        return 0.0
    aligned = (entry for entry in record.matrix if entry.aligned)
    own = next((entry for entry in aligned if entry.row.is_only(each.reference)), None)
    return (own.metrics.get(each.metric) or 0.0) if own else 0.0


def advice_section(record: RunRecord, names: Names) -> Section | None:
    """Return the change that each path that serves calls for; ``None`` without advice."""
    lead = (
        "The search used only training images; the evaluation images confirm its result, in the "
        "reference runtime."
    )
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for each in record.advice:
        parts.append(Heading(("For models served with ", names.of(each.served))))
        parts.append(Paragraph(advice_sentence(each)))
        if each.distance is not None and each.distance.value is not None:
            parts.append(Paragraph(_searched(each, each.distance.value), "notes"))
        if each.drift:
            parts.append(_before_and_after(each, TaskWords(record.task)))
        if each.yaml:
            summary = ("YAML to paste below ", Mono("preprocess:"))
            parts.append(Details(summary, [Code(each.yaml)]))
    if not record.advice:
        return None
    return Section("advice", "Recommended change", parts, nav="Advice")


def advice_sentence(each: AdviceFacts) -> str:
    """Return the outcome, or why there is none."""
    if each.sentence:
        return each.sentence
    what = f"{each.label} was found, but not checked" if each.label else "No advice"
    return f"{what} for {each.served}: {each.reason}."


def _searched(each: AdviceFacts, distance: float) -> str:
    checked = ""
    if each.unseen is not None:
        images = count(each.unseen_images, "image")
        checked = f", {each.unseen:.3f} on {images} kept for a check"
    return (
        f"Of {each.tried} configurations, the nearest by pixels on {each.images} training images: "
        f"{distance:.3f} grey levels remain in the mean{checked}."
    )


def _before_and_after(each: AdviceFacts, words: TaskWords) -> Table:
    def estimate(value: Estimate, row: MitigationFacts) -> str:
        return words.estimated(row.metric, value)

    columns: tuple[Fact[MitigationFacts], ...] = (
        Fact("Metric", lambda row: words.label(row.metric)),
        Fact("Before", lambda row: row.before, "points", format=estimate),
        Fact("Expected", lambda row: row.expected, "points", format=estimate),
        Fact("Confirmed", lambda row: row.confirmed, "points", format=estimate),
    )
    caption = (
        "Drift before the change, expected after it and confirmed on the evaluation images; "
        "changes of shares in pp, all else in its own unit"
    )
    return Table.made(caption, columns, each.drift)
