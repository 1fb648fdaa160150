"""Mean times of the stages of a request → stacked bars, a row for each option."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record.bench_facts import ServedStage
from alignkit.report.charts import Frame, nice_ticks
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text.bench_words import BenchWords, TimedLoads, clients_words, three_digits
from alignkit.text.numbers import shorten_middle

_STEP = 24.0
_LETTER = 6.25
_LETTERS = 34


@dataclass(frozen=True, slots=True)
class StagePart:
    """A stage of one bar."""

    stage: ServedStage
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class StageBar:
    """An option: its stages from left to right, in the order of a request."""

    label: str
    y: float
    parts: tuple[StagePart, ...]
    end: float
    text: str
    """Its mean time."""
    title: str
    """All of it in words."""


@dataclass(frozen=True, slots=True)
class StagePlot:
    """Bars of all options under equally many clients."""

    frame: Frame
    bars: tuple[StageBar, ...]
    stages: tuple[ServedStage, ...]
    """Those that any option shows."""


def stage_plot(loads: TimedLoads, words: BenchWords, *, id: str) -> StagePlot:  # noqa: A002
    """Draw how long a request of each option spends in each stage."""
    names = [shorten_middle(words.title(each), _LETTERS) for each, _ in loads]
    most = max(sum(load.stages_ms.values()) for _, load in loads)
    bottom = 12.0 + _STEP * len(loads)
    frame = Frame(
        id,
        f"Mean time of a request by stage, {clients_words(loads[0][1].clients)}",
        nice_ticks(0.0, most or 1.0, wanted=5),
        [0.0],
        x_name="milliseconds",
        width=620.0,
        height=bottom + 36,
        left=18 + _LETTER * max(map(len, names)),
        right=560.0,  # the mean stands behind its bar
        top=8.0,
        bottom=bottom,
    )
    bars = []
    for index, ((option, load), name) in enumerate(zip(loads, names, strict=True)):
        begin, parts = 0.0, []
        for stage in STAGES_SERVED:
            taken = load.stages_ms.get(stage, 0.0)
            x = frame.x(begin)
            begin += taken
            if taken:
                parts.append(StagePart(stage, x, round(frame.x(begin) - x, 1)))
        said = ", ".join(
            f"{stage} {three_digits(load.stages_ms[stage])} ms"
            for stage in STAGES_SERVED
            if stage in load.stages_ms
        )
        bars.append(
            StageBar(
                name,
                12.0 + _STEP * (index + 0.5),
                tuple(parts),
                frame.x(begin),
                three_digits(load.mean_ms),
                f"{words.title(option)}: {said}",
            )
        )
    shown = {stage for _, load in loads for stage in load.stages_ms}
    return StagePlot(frame, tuple(bars), tuple(each for each in STAGES_SERVED if each in shown))
