"""Timed options with their drift → the facts of a bench, each option's place on the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.record.bench_facts import ServingOption
from alignkit.serve.served_facts import served_facts, throughput
from alignkit.studies.bench.frontier import Contender, frontier

if TYPE_CHECKING:
    from alignkit.record.bench_facts import FrontierPlace
    from alignkit.serve.rounds import Load, TimedOption, TimedRound
    from alignkit.serve.serving_options import ReadyOption
    from alignkit.studies.bench.bench_drift import KnownDrift


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
    for each in served_facts(options, timed, load, cpus):
        known, reason = (None, "") if each.reference else drift.of(each.place)
        facts.append(each.model_copy(update={"drift": known, "drift_reason": reason}))
    return _with_frontiers(facts, by_name, load)


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
        return Contender(str(option.place), throughput(rounds))
    return Contender(str(option.place), throughput(rounds), option.drift.churn)
