"""`alignkit gate thresholds`: propose thresholds from noise and today's drift.

A path is compared with itself several times: no threshold may be below that noise. A rule then
allows today's difference and a quarter more; a stage without any difference must stay equal bit for
bit. For models, the noise is the difference between seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from alignkit.compare.compare_pixels import compare_preprocess
from alignkit.errors import NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.pixel_gate import judged_images
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.progress import Progress
from alignkit.record import RunRecord
from alignkit.samples import Samples
from alignkit.text.names import facts_of_paths, surrogate_lines
from alignkit.text.task_words import TaskWords

SLACK = 1.25
"""Threshold over today's difference."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One rule, and the numbers it comes from."""

    rule: str
    """As the YAML writes it; empty where there is no limit to propose."""
    because: str
    """The numbers, or why there is none."""


@dataclass(frozen=True, slots=True)
class _Measured:
    mean: float
    most: float

    def __or__(self, other: _Measured) -> _Measured:
        return _Measured(max(self.mean, other.mean), max(self.most, other.most))


def propose(
    experiment: Experiment, record: RunRecord | None, *, repeats: int, progress: Progress
) -> list[Proposal]:
    """Propose rules for every stage, and for the model if ``record`` has a matrix.

    Raises `NothingCompared` if fewer than two paths can run here, `DataError` if the images are no
    longer those of ``record``.
    """
    usable = [path for path in experiment.paths if not path.missing()]
    if len(usable) < 2:
        raise NothingCompared("fewer than two paths can run here; there are no limits to propose")
    samples = judged_images(experiment, record) if record else experiment.data.evaluation()
    total = len(usable) * repeats + len(usable) - 1
    noise, drift = [], []
    with progress.stage("thresholds", total, f"{repeats} times each") as stage:
        for path in usable:
            for _ in range(repeats):
                noise.append(_compared(path, path, samples))
                stage.advance()
        for path in usable[1:]:
            drift.append(_compared(usable[0], path, samples))
            stage.advance()
    proposals = [each for name in STAGES for each in _of_stage(name, noise, drift, repeats)]
    return proposals + (list(_of_model(record)) if record and record.matrix else [])


def _compared(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> dict[StageName, _Measured]:
    # no rule proposed here reads SSIM
    diffs = compare_preprocess(reference, candidate, samples, ssim=False)
    return {
        diff.stage: _Measured(diff.sums.mean_abs or 0.0, diff.sums.max_abs)
        for diff in diffs.diffs
        if diff.mode == "isolated" and diff.sums is not None
    }


def _of_stage(
    name: StageName,
    noise: Sequence[dict[StageName, _Measured]],
    drift: Sequence[dict[StageName, _Measured]],
    repeats: int,
) -> Iterator[Proposal]:
    zero = _Measured(0.0, 0.0)
    floor = reduce(or_, (each.get(name, zero) for each in noise), zero)
    today = reduce(or_, (each.get(name, zero) for each in drift), zero)
    noise_text = f"noise of {repeats} repeats: mean {floor.mean:.4g}, max {floor.most:.4g}"
    if (floor | today).most == 0:
        yield Proposal(f"{{metric: {name}.changed, fail: 0}}", f"{noise_text}; no difference today")
        return
    fields = (("mean_abs", today.mean, floor.mean), ("max_abs", today.most, floor.most))
    for field, now, least in fields:
        limit = rounded_up(SLACK * max(now, least))
        because = f"{noise_text}; today {now:.4g}"
        # a limit of 255 grey levels or more could never fail
        if name == "normalise" or limit < 255:
            yield Proposal(f"{{metric: {name}.{field}, fail: {limit:g}}}", because)


def _of_model(record: RunRecord) -> Iterator[Proposal]:
    # one seed alone shows no noise
    floors = [floor for floor in record.noise_floor if len(floor.seeds) > 1]
    if not floors:
        return
    churn = rounded_up(max(floor.churn for floor in floors))
    # a share of 1 or more could never be exceeded
    if churn < 1:
        yield Proposal(
            f"{{metric: churn, fail: {churn:g}}}", "two seeds of one path disagree on as many"
        )
    words = TaskWords(record.task)
    headline = words.headline
    spread = max((floor.metrics.get(headline, 0.0) for floor in floors), default=0.0)
    widths = [
        (estimate.high - estimate.low) / 2
        for entry in record.matrix
        if entry.drift is not None
        for estimate in (entry.drift.of(headline),)
        if estimate.low is not None and estimate.high is not None
    ]
    margin = rounded_up(max([spread, *widths]))
    # a share cannot change by 1 or more; pixels and scores have no such end
    if margin > 0 and (margin < 1 or not words.is_share(headline)):
        wide = max(widths, default=0.0)
        yield Proposal(
            f"{{metric: {headline}, margin: {margin:g}}}",
            f"seeds spread by {_size(words, headline, spread)}; intervals here are "
            f"{_size(words, headline, wide)} wide on each side",
        )


def _size(words: TaskWords, metric: str, size: float) -> str:
    if words.is_share(metric):
        return f"{100 * size:.2f} pp"
    return f"{size:.3g}{words.change_unit(metric)}"


def rounded_up(value: float) -> float:
    """Round up to two significant digits.

    >>> rounded_up(0.4123)
    0.42
    """
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # rounded first: 0.14 / 0.01 is a little more than 14 in binary, and would become 0.15
    return float(f"{math.ceil(round(value / unit, 6)) * unit:.2g}")


def proposal_text(proposals: Sequence[Proposal], paths: Sequence[Preprocess]) -> str:
    """Format the proposals as a ``gate:`` block for the file, below the labels of surrogates."""
    width = max((len(each.rule) for each in proposals), default=0)
    lines = [f"    - {each.rule.ljust(width)}  # {each.because}" for each in proposals if each.rule]
    lines += [f"    # {each.because}" for each in proposals if not each.rule]
    labels = [f"# {line}" for line in surrogate_lines(facts_of_paths(paths))]
    return "\n".join([*labels, "gate:", "  rules:", *lines])
