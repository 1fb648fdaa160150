"""Rounds of requests → the facts of each option: percentiles, gains, contention, frontier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.order_statistics import paired_change, percentile
from alignkit.compare.statistics import with_unseen
from alignkit.record import Estimate
from alignkit.record.bench_facts import ServedLoad, ServedRound, ServingOption
from alignkit.serve.cpu_use import contention
from alignkit.serve.serving import STAGES_SERVED
from alignkit.studies.bench.frontier import Contender, frontier, gain_over, over_rounds

if TYPE_CHECKING:
    from alignkit.record.bench_facts import FrontierPlace
    from alignkit.serve.rounds import Load, TimedOption, TimedRound
    from alignkit.serve.serving_options import ReadyOption
    from alignkit.studies.bench.bench_drift import KnownDrift

_Rounds: TypeAlias = "Sequence[TimedRound]"
ENOUGH_FOR_TP99 = 1000
"""Requests from which on ten are expected beyond the 99th percentile."""


def option_facts(
    options: Sequence[ReadyOption],
    timed: Sequence[TimedOption],
    drift: KnownDrift,
    load: Load,
    cpus: Sequence[int],
) -> tuple[ServingOption, ...]:
    """Describe every option, with its place on the frontier of its model."""
    by_name = {each.name: rounds for each, rounds in zip(options, timed, strict=True)}
    facts = []
    for option in options:
        own = by_name[option.name]
        known, reason = (None, "") if option.reference else drift.of(option.evaluation.place)
        base = _reference(option, options)
        loads = [
            _load(clients, option, own, by_name[base.name] if base else None, load, len(cpus))
            for clients in load.clients
            if len(own.rounds.get(clients, ())) == load.rounds
        ]
        facts.append(
            ServingOption(
                **option.evaluation.place.fields,
                reference=option.reference,
                state=own.state,
                reason=own.reason,
                live=option.live,
                drift=known,
                drift_reason=reason,
                loads=tuple(loads),
                peak_bytes=None if option.live else own.peak,
                effective=own.effective,
            )
        )
    return _with_frontiers(facts, by_name, load)


def _reference(option: ReadyOption, options: Sequence[ReadyOption]) -> ReadyOption | None:
    """Return the reference of an option's model, ``None`` for itself."""
    if option.reference:
        return None
    row = option.evaluation.place.row
    return next(each for each in options if each.reference and each.evaluation.place.row == row)


def _load(
    clients: int,
    option: ReadyOption,
    own: TimedOption,
    reference: TimedOption | None,
    load: Load,
    cpus: int,
) -> ServedLoad:
    rounds = own.rounds[clients]
    lengths = np.concatenate([each.times.requests[:, 2:] for each in rounds])
    taken = lengths.sum(axis=1) / 1e6
    used = sum(each.times.cpu_seconds for each in rounds)
    contended, unwatched = contention(
        [(each.seconds, each.used) for each in rounds],
        own=None if option.live else used,
        cpus=cpus,
    )
    means = dict(zip(STAGES_SERVED, (lengths.mean(axis=0) / 1e6).tolist(), strict=True))
    return ServedLoad(
        clients=clients,
        requests=len(taken),
        throughput=over_rounds(percentile(_throughput(rounds), 50), len(rounds)),
        mean_ms=float(taken.mean()),
        tp50_ms=_percentile(taken, 50),
        tp90_ms=_percentile(taken, 90),
        tp99_ms=_percentile(taken, 99),
        stages_ms={each: means[each] for each in option.stages},
        cpu_ms=None if option.live else 1000 * used / (len(taken) * load.batch),
        gain=_against(reference, clients, load, lambda other: _gain(rounds, other)),
        delay_ms=_against(reference, clients, load, lambda other: _delay(rounds, other)),
        contended=contended,
        unwatched=unwatched,
        rounds=tuple(map(_round, rounds)),
    )


def _throughput(rounds: Sequence[TimedRound]) -> tuple[float, ...]:
    return tuple(len(each.times.requests) / each.times.seconds for each in rounds)


def _percentile(taken: npt.NDArray[np.float64], percent: int) -> Estimate:
    if percent == 99 and len(taken) < ENOUGH_FOR_TP99:
        reason = f"TP99 needs {ENOUGH_FOR_TP99:,} requests; these are {len(taken):,}"
        return Estimate(None, None, None, reason)
    found = percentile(taken.tolist(), percent)
    whole = found.low is not None and found.high is not None
    reason = "" if whole else f"{len(taken):,} requests are too few for an interval"
    return Estimate(*found, reason)


def _against(
    reference: TimedOption | None, clients: int, load: Load, compute: Callable[[_Rounds], Estimate]
) -> Estimate | None:
    """Compare with the reference's rounds; ``None`` for the reference itself."""
    if reference is None:
        return None
    other = reference.rounds.get(clients, [])
    if len(other) < load.rounds:
        return Estimate(None, None, None, f"the reference was not timed: {reference.reason}")
    return compute(other)


def _gain(rounds: _Rounds, reference: _Rounds) -> Estimate:
    return gain_over(_throughput(rounds), _throughput(reference))


def _delay(rounds: _Rounds, reference: _Rounds) -> Estimate:
    sides = [[_tp50_ms(each) for each in some] for some in (rounds, reference)]
    return over_rounds(paired_change(*sides, relative=False), len(rounds))


def _tp50_ms(timed: TimedRound) -> float:
    taken: list[int] = timed.times.requests[:, 2:].sum(axis=1).tolist()
    return percentile(taken, 50).value / 1e6


def _round(timed: TimedRound) -> ServedRound:
    used = timed.used
    return ServedRound(
        requests=len(timed.times.requests),
        seconds=timed.times.seconds,
        tp50_ms=_tp50_ms(timed),
        cpu_seconds=timed.times.cpu_seconds,
        busy_seconds=used and used.busy,
        stolen_seconds=used and used.stolen,
        throttled_seconds=used and used.throttled,
    )


def _with_frontiers(
    facts: Sequence[ServingOption], by_name: dict[str, TimedOption], load: Load
) -> tuple[ServingOption, ...]:
    """Add each option's place among those of its model, for every number of clients."""
    places: dict[tuple[str, int], FrontierPlace] = {}
    for row in dict.fromkeys(each.trained_with for each in facts):
        for clients in load.clients:
            contenders = [
                _contender(each, by_name[str(each.place)].rounds[clients])
                for each in facts
                if each.trained_with == row
                and (each.reference or each.drift)
                and any(some.clients == clients for some in each.loads)
            ]
            # alone there is nothing to be compared with
            if len(contenders) > 1:
                found = frontier(contenders)
                places |= {(name, clients): place for name, place in found.items()}
    return tuple(
        each.model_copy(
            update={
                "loads": tuple(
                    some.model_copy(
                        update={"frontier": places.get((str(each.place), some.clients))}
                    )
                    for some in each.loads
                )
            }
        )
        for each in facts
    )


def _contender(option: ServingOption, rounds: Sequence[TimedRound]) -> Contender:
    if option.drift is None:
        return Contender(str(option.place), _throughput(rounds))
    # a bootstrap of images without a flip has no width, and more images would show some
    churn = with_unseen(option.drift.churn, option.drift.images)
    return Contender(str(option.place), _throughput(rounds), churn)
