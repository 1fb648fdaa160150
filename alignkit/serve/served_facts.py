"""Rounds of requests → the facts of each serving option: percentiles, gains, contention.

Speed is compared with that of the reference within each round, since options take turns there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.order_statistics import Percentile, paired_change, percentile
from alignkit.record import Estimate
from alignkit.record.bench_facts import ServedLoad, ServedRound, ServingOption
from alignkit.serve.cpu_use import contention
from alignkit.serve.serving import STAGES_SERVED

if TYPE_CHECKING:
    from alignkit.serve.rounds import Load, TimedOption, TimedRound
    from alignkit.serve.serving_options import ReadyOption

ENOUGH_FOR_TP99 = 1000
"""Requests from which on ten are expected beyond the 99th percentile."""
_Rounds: TypeAlias = "Sequence[TimedRound]"


def served_facts(
    options: Sequence[ReadyOption], timed: Sequence[TimedOption], load: Load, cpus: Sequence[int]
) -> tuple[ServingOption, ...]:
    """Describe the speed of every option that was timed on ``cpus``, without its drift."""
    by_name = {each.name: rounds for each, rounds in zip(options, timed, strict=True)}
    facts = []
    for option in options:
        own = by_name[option.name]
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
                traceback=own.traceback,
                live=option.live,
                loads=tuple(loads),
                peak_bytes=None if option.live else own.peak,
                effective=own.effective,
            )
        )
    return tuple(facts)


def gain_over(candidate: Sequence[float], reference: Sequence[float]) -> Estimate:
    """Compute candidate / reference − 1 of paired rounds, (rounds,): the median, as a share."""
    return over_rounds(paired_change(candidate, reference, relative=True), len(candidate))


def over_rounds(found: Percentile, rounds: int) -> Estimate:
    """Return a median over so many rounds as it is stored."""
    reason = "" if found.low is not None else f"{rounds} rounds are too few for an interval"
    return Estimate(*found, reason)


def throughput(rounds: _Rounds) -> tuple[float, ...]:
    """Return the requests a second of each round while all clients were busy."""
    return tuple(each.times.throughput() for each in rounds)


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
        throughput=over_rounds(percentile(throughput(rounds), 50), len(rounds)),
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
    return gain_over(throughput(rounds), throughput(reference))


def _delay(rounds: _Rounds, reference: _Rounds) -> Estimate:
    sides = [[_tp50_ms(each) for each in some] for some in (rounds, reference)]
    return over_rounds(paired_change(*sides, relative=False), len(rounds))


def _tp50_ms(timed: TimedRound) -> float:
    return percentile((timed.times.requests[:, 2:].sum(axis=1) / 1e6).tolist(), 50).value


def _round(timed: TimedRound) -> ServedRound:
    return ServedRound(
        requests=len(timed.times.requests),
        seconds=timed.times.seconds,
        tp50_ms=_tp50_ms(timed),
        cpu_seconds=timed.times.cpu_seconds,
    )
