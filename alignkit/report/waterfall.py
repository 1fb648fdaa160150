"""Waterfalls: from the value as trained, stage by stage, to the value as served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from alignkit.record import AttributionFacts, RunRecord
from alignkit.report.axis import Axis, Interval, drawn
from alignkit.report.marks import Dot, Line, PlotMark
from alignkit.report.plot import Plot
from alignkit.text.numbers import plain, signed
from alignkit.text.task_words import TaskWords

PIXELS = ("pixels",)
"""Metrics that have a waterfall where no model was; else those of `TaskWords.drawn` have."""
DISTANCES = ("churn", "pixels", "logits")
"""Metrics without a sign unless one of their shares is negative, here and inside decode."""


def waterfall(
    caption: str,
    start: float,
    steps: Sequence[tuple[str, Interval]],
    total: Interval,
    *,
    of: str = "",
    distance: bool = False,
    rise_is_worse: bool = False,
) -> Plot:
    """Draw changes by name, which add up to ``total``; ``of`` says what is compared, in the title.

    A ``distance`` has no sign, and a rise of it is for the worse, as with churn.
    """
    write = plain if distance else signed
    marks: list[PlotMark] = [Dot(start, 0, "t2", "level")]
    sizes, at = [plain(start, 2)], start
    for row, (name, each) in enumerate(steps, 1):
        marks.append(Line(((at, row - 1), (at, row)), "ink next"))  # from the row before
        end, size = _moved(each, at), _sized(each, write)
        if each.value:
            worse = (each.value > 0) == (distance or rise_is_worse)
            marks.append(Line(((at, row), (end.value, row)), "t1 bar" if worse else "t0 bar"))
            # the end is drawn, too, so that a small change is seen
            marks.append(Dot(end, row, "ink", "tick", title=f"{name}: {size}"))
        else:
            marks.append(Dot(end, row, "t2", "point", title=f"{name}: {size}"))
        sizes.append(size)
        at = end.value
    served, last = _moved(total, start), len(steps) + 1
    marks += [Line(((at, last - 1), (at, last)), "ink next"), Dot(served, last, "t2", "level")]
    return Plot(
        title=f"{caption}{of}, from the baseline to the value as served, with 95 % intervals",
        caption=caption,
        x=Axis(),
        y=Axis(
            rows=("baseline", *(name for name, _ in steps), "served"),
            beside=(*sizes, _sized(served, plain)),
        ),
        marks=marks,
    )


def _moved(size: Interval, by: float) -> Interval:
    return Interval(by + size.value, by + size.low, by + size.high)


def _sized(size: Interval, write: Callable[[float, int], str]) -> str:
    ends = f" [{write(size.low, 2)}, {write(size.high, 2)}]" if size.low < size.high else ""
    return f"{write(size.value, 2)}{ends}"


def waterfalls_of(record: RunRecord, found: Sequence[AttributionFacts], of: str) -> Iterator[Plot]:
    """Yield the waterfalls of a pair; from zero where the baseline is of other images."""
    known = {each.metric: each for each in found if each.shares}
    words = TaskWords(record.task)
    for metric in [name for name in words.drawn if name in known] or PIXELS:
        if metric not in known:
            continue
        each = known[metric]
        scale, unit = (100, "%") if each.unit == "fraction" else (1, each.unit)
        start = scale * _baseline(record, each)
        factors = [(share.factor, share.effect) for share in each.shares]
        if each.method == "one-at-a-time":
            factors.append(("interaction", each.interaction))
        steps = [(name, drawn(effect, scale)) for name, effect in factors]
        total = drawn(each.total, scale)
        if total is None or any(step is None for _, step in steps):
            continue
        title = words.label(metric)
        if not start and metric not in DISTANCES:
            title = f"Change of {words.phrase(metric)}"
        yield waterfall(
            f"{title}, {unit}".removesuffix(", value"),
            start,
            [(name, step) for name, step in steps if step is not None],
            total,
            of=of,
            distance=metric in DISTANCES,
            rise_is_worse=words.lower_is_better(metric),
        )


def _baseline(record: RunRecord, each: AttributionFacts) -> float:
    """Return the value of the models on the path that they were trained with, else zero."""
    if each.drawn_from or each.left_out:  # the cell is of more images
        return 0.0
    aligned = (entry for entry in record.matrix if entry.aligned)
    own = next((entry for entry in aligned if entry.row.is_only(each.reference)), None)
    return (own.metrics.get(each.metric) or 0.0) if own else 0.0
