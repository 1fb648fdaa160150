"""Proposed limits for speed from an A/A, and for headroom and churn from the curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.experiment.rule_option import USUAL_BUDGET
from alignkit.gate.gate_headroom import headroom_facts
from alignkit.gate.gate_thresholds import SLACK, Proposal, rounded_up
from alignkit.judge.observe_options import headroom_bounds, paired_ratio
from alignkit.plan.plan_keys import keyed_plan
from alignkit.record import RunRecord, ServingOption
from alignkit.record.bench_facts import ServedLoad
from alignkit.record.tolerance_facts import PixelTolerance
from alignkit.serve.cpu_use import chosen_cpus
from alignkit.serve.rounds import Load, time_options
from alignkit.serve.served_facts import served_facts
from alignkit.serve.serving_options import ready_options
from alignkit.text.numbers import percent, significant

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.workspace import Context

_CLIENTS = 1


def propose_speed(experiment: Experiment, context: Context) -> list[Proposal]:
    """Propose limits for every serving option from its speed here, and from that of an A/A.

    Every reference is timed twice, in two processes. No limit of speed is proposed from a busy
    machine. Raises as `alignkit.gate.gate_served.measure_served` does.
    """
    bench = experiment.gate.bench
    load = Load((_CLIENTS,), bench.requests)
    cpus = chosen_cpus(bench.cpus, "gate.bench.cpus:")
    options, _ = ready_options(keyed_plan(experiment, context.workspace), context, load.batch)
    references = [each for each in options if each.reference]
    servings = [each.serving for each in (*options, *references)]
    timed = time_options(servings, load, cpus, context.progress)
    facts = served_facts(options, timed[: len(options)], load, cpus)
    again = served_facts(references, timed[len(options) :], load, cpus)
    found: list[Proposal] = []
    for twin in again:
        base = next(each for each in facts if each.place == twin.place)
        own = [each for each in facts if each.row == twin.row and not each.reference]
        found += chain.from_iterable(_of_option(each, base, twin) for each in own)
    return found


def _of_option(
    option: ServingOption, base: ServingOption, twin: ServingOption
) -> Iterator[Proposal]:
    where = _where(option.evaluated_with, option.backend, option.precision)
    absent = [each.reason for each in (option, base, twin) if each.state != "measured"]
    if absent:
        yield Proposal("", f"no limit of speed for{where[1:]}: {absent[0]}")
        return
    loads = [each.loads[0] for each in (base, option, twin)]
    if busy := [each.contended for each in loads if each.contended]:
        yield Proposal("", f"no limit of speed for{where[1:]}: the machine was busy: {busy[0]}")
    else:
        yield from _of_speed(where, *loads)


def _of_speed(
    where: str, base: ServedLoad, option: ServedLoad, twin: ServedLoad
) -> Iterator[Proposal]:
    for metric, field in (("throughput.ratio", "throughput"), ("latency.p99.ratio", "tp99")):
        lacking = option.tp99_ms.reason if option.tp99_ms.value is None else ""
        if field == "tp99" and lacking:
            yield Proposal("", f"no limit of {metric}{where}: {lacking}")
            continue
        today, noise = (paired_ratio(field, base, each) for each in (option, twin))
        assert today.low is not None and today.high is not None  # noqa: PT018 - of twelve rounds
        assert noise.low is not None and noise.high is not None  # noqa: PT018
        apart = max(abs(noise.low - 1), abs(noise.high - 1))
        if field == "throughput":
            limit = rounded_down(today.low * max(0.0, 1 - SLACK * apart))
        else:
            limit = rounded_up(today.high * (1 + SLACK * apart))
        because = (
            f"today {significant(today.value)} × [{significant(today.low)}, "
            f"{significant(today.high)}]; the reference against itself "
            f"[{significant(noise.low)}, {significant(noise.high)}]"
        )
        if limit > 0:
            yield Proposal(f"{{metric: {metric}{where}, fail: {limit:g}}}", because)
        else:
            yield Proposal("", f"no limit of {metric}{where}: {because}")


def _where(path: str, backend: str, precision: str) -> str:
    return f", path: {path}, backend: {backend}, precision: {precision}"


def propose_headroom(record: RunRecord, run: Path, context: Context) -> list[Proposal]:
    """Propose limits for every path from the curve along its difference, if the task has one."""
    (facts,) = headroom_facts(record, run, [USUAL_BUDGET], context)
    if facts.reason:
        return [Proposal("", f"no limit of headroom: {facts.reason}")]
    worst: dict[str, list[PixelTolerance]] = {}
    for each in facts.pixels:
        worst.setdefault(each.candidate, []).append(each)
    return [each for path, some in worst.items() for each in _of_path(path, some)]


def _of_path(path: str, found: Sequence[PixelTolerance]) -> Iterator[Proposal]:
    """Propose the least headroom of all rows, and the churn of a somewhat greater difference."""
    curves = [curve for each in found for curve in each.seeds]
    if not curves:
        yield Proposal("", f"no limit of headroom for {path}: {found[0].reason}")
        return
    bounds = [headroom_bounds(each.seeds, USUAL_BUDGET)[0] for each in found if each.seeds]
    known = [each for each in bounds if each is not None]
    budget = percent(USUAL_BUDGET)
    if len(known) == len(bounds) and (limit := rounded_down(min(known) / SLACK)) > 0:
        yield Proposal(
            f"{{metric: headroom, path: {path}, budget: {USUAL_BUDGET:g}, fail: {limit:g}}}",
            f"{significant(min(known))} × of its difference is within {budget}",
        )
    else:
        reason = next((e.limit.reason for e in curves if e.limit.reason), "none is shown")
        yield Proposal("", f"no limit of headroom for {path}: {reason}")
    points = [
        min((p for p in each.points if p.factor > 1), key=lambda p: p.factor, default=None)
        for each in curves
        if each.source != "line, not checked"
    ]
    beyond = [each for each in points if each is not None]
    if not beyond:
        return
    most = max(beyond, key=lambda each: each.changed / each.images)
    share = rounded_up(most.changed / most.images)
    if 0 < share < 1:
        yield Proposal(
            f"{{metric: churn, path: {path}, fail: {share:g}}}",
            f"as many change at {most.factor:g} × of its difference",
        )


def rounded_down(value: float) -> float:
    """Round down to two significant digits.

    >>> rounded_down(0.4187), rounded_down(0.0)
    (0.41, 0.0)
    """
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(round(value / unit, 6)) * unit:.2g}")
