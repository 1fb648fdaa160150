"""Coordinates of waterfalls: from the value as trained, stage by stage, to the value as served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from alignkit.record import AttributionFacts, RunRecord
from alignkit.report.charts import Frame, Interval, drawn, nice_ticks
from alignkit.text.numbers import plain, shorten, signed
from alignkit.text.task_words import TaskWords

PIXELS = ("pixels",)
"""Metrics that have a waterfall where no model was; else those of `TaskWords.drawn` have."""
DISTANCES = ("churn", "pixels", "logits")
"""Metrics without a sign unless one of their shares is negative, here and inside decode."""
_ROW = 26.0
"""Height of a row."""
_LETTERS = 14
"""Of a stage's name, for which there is room."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A waterfall in data units, before it has an axis."""

    id: str
    title: str
    """The metric and its unit; those of one title share an axis."""
    start: float
    steps: tuple[tuple[str, Interval], ...]
    """Changes by name, which add up to the total."""
    total: Interval
    distance: bool
    """Whether it has no sign, and a rise is for the worse, as with churn."""
    rise_is_worse: bool = False
    """Whether a rise of a metric with a sign is for the worse, too."""

    @property
    def starts(self) -> list[float]:
        """Return where each step begins, and at last where all end."""
        return list(accumulate((each.value for _, each in self.steps), initial=self.start))

    @property
    def ends(self) -> list[float]:
        """Return every value that is drawn."""
        reach = [at + end for at, (_, each) in zip(self.starts, self.steps, strict=False)
                 for end in (each.low, each.high)]  # fmt: skip
        return [*self.starts, *reach, self.start + self.total.low, self.start + self.total.high]


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: a level, or a step between two levels."""

    name: str
    y: float
    """Of its middle."""
    x: float
    """Left end of a step; place of a level."""
    width: float
    end: float
    """Where the next row begins."""
    low: float
    high: float
    tone: str
    """``level``, ``same``, ``worse`` or ``better``."""
    text: str
    title: str
    """Its whole name and number, for the pointer."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A waterfall as it is drawn."""

    frame: Frame
    bars: tuple[Bar, ...]


def waterfalls(found: Sequence[Steps]) -> dict[str, Waterfall]:
    """Place waterfalls, by id; those of one title share an axis, so that they can be compared."""
    ends: dict[str, list[float]] = {}
    for each in found:
        ends.setdefault(each.title, []).extend(each.ends)
    return {
        each.id: _placed(each, nice_ticks(*_reach(ends[each.title]), wanted=4)) for each in found
    }


def _reach(ends: Sequence[float]) -> tuple[float, float]:
    """Return the least and the greatest; around a value that no stage changes a tenth of it."""
    low, high = min(ends), max(ends)
    room = abs(low) / 10
    return (low, high) if low < high else (low - room, high + room)


def _placed(steps: Steps, marks: list[float]) -> Waterfall:
    bottom = _ROW * (len(steps.steps) + 2) + 6
    frame = Frame(
        steps.id, steps.title, marks, (0.0, 1.0), height=bottom + 20,
        width=440.0, left=92.0, right=290.0, top=4.0, bottom=bottom,
    )  # fmt: skip
    write = plain if steps.distance else signed
    first = Interval(steps.start, steps.start, steps.start)
    bars = [_bar(frame, 0, "baseline", first, plain, tone="level")]
    for index, (at, (name, each)) in enumerate(zip(steps.starts, steps.steps, strict=False), 1):
        worse = (each.value > 0) == (steps.distance or steps.rise_is_worse)
        tone = ("worse" if worse else "better") if each.value else "same"
        bars.append(_bar(frame, index, name, each, write, at=at, tone=tone))
    total = steps.total
    last = Interval(*(steps.start + end for end in (total.value, total.low, total.high)))
    bars.append(_bar(frame, len(bars), "served", last, plain, tone="level"))
    return Waterfall(frame, tuple(bars))


def _bar(
    frame: Frame,
    row: int,
    name: str,
    size: Interval,
    write: Callable[[float, int], str],
    *,
    tone: str,
    at: float = 0.0,
) -> Bar:
    """Draw a level at ``size``, or a step of it from ``at``."""
    end = frame.x(at + size.value)
    start = end if tone == "level" else frame.x(at)

    def digits(value: float) -> str:
        return write(value, 2)

    text = digits(size.value)
    if size.low < size.high:
        text += f" [{digits(size.low)}, {digits(size.high)}]"
    return Bar(
        name=shorten(name, _LETTERS),
        y=frame.top + _ROW * (row + 0.5),
        x=min(start, end),
        width=round(abs(end - start), 1),
        end=end,
        low=frame.x(at + size.low),
        high=frame.x(at + size.high),
        tone=tone,
        text=text,
        title=f"{name}: {text}",
    )


def steps_of(record: RunRecord, found: Sequence[AttributionFacts], index: int) -> Iterator[Steps]:
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
        yield Steps(
            id=f"causes-{index}-{metric.partition('.')[0]}",
            title=f"{title}, {unit}".removesuffix(", value"),
            start=start,
            steps=tuple((name, step) for name, step in steps if step is not None),
            total=total,
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
