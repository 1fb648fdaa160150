"""Serving options of an experiment under a closed loop of clients: speed, memory, drift.

Each option runs in a process of its own on the same CPUs. Options and numbers of clients take
turns, round by round, so that a slowdown of the machine slows all of them; gains are computed
within rounds. Drift is that of the run of the same file.

An option is *dominated* if another one is no worse in either value, throughput and churn, and is
shown to be better in one of them. It is *not separable* if the other one is better by its values
and nothing shows it. All others are the *frontier*. "Shown" means for speed that the sign test's
interval of the ratio, round by round, excludes 1; for drift that the intervals of the two churns do
not touch, which is stricter than a paired test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alignkit.compare.order_statistics import percentile
from alignkit.plan.plan_keys import narrow_to_cells
from alignkit.record import Artifact, Estimate
from alignkit.record.bench_facts import BenchRecord, FrontierPlace, ServingOption
from alignkit.record.document import document_text
from alignkit.serve.rounds import Load, TimedOption, time_options
from alignkit.serve.served_facts import gain_over, served_facts, throughput
from alignkit.serve.serving import COLUMNS
from alignkit.serve.serving_options import ReadyOption, ready_options
from alignkit.stored_file import write_atomically
from alignkit.studies.bench.begun_bench import BegunBench, BenchResult, KnownDrift, known_drift

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.serve.rounds import TimedRound
    from alignkit.workspace import Context

_REFERENCE_CHURN = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Contender:
    """An option whose speed and drift are known."""

    name: str
    throughput: tuple[float, ...]
    """Requests a second, of each round; options take turns in a round."""
    churn: Estimate = _REFERENCE_CHURN
    """With a value; that of the reference is 0 by definition."""

    @property
    def speed(self) -> float:
        """The median over rounds."""
        return percentile(self.throughput, 50).value


def frontier(options: Sequence[Contender]) -> dict[str, FrontierPlace]:
    """Place each of the options, which have different names, among them."""
    places = {each.name: _place(each, options) for each in options}
    kept = [each for each in options if places[each.name].standing == "frontier"]
    kept.sort(key=lambda each: (_value(each), each.speed))
    for before, after in pairwise(kept):
        update = {"since": before.name, "price": price(before, after)}
        places[after.name] = places[after.name].model_copy(update=update)
    return places


def _value(option: Contender) -> float:
    assert option.churn.value is not None
    return option.churn.value


def _place(option: Contender, options: Sequence[Contender]) -> FrontierPlace:
    better = [
        each
        for each in options
        if (each.speed >= option.speed and _value(each) <= _value(option))
        and (each.speed, _value(each)) != (option.speed, _value(option))
    ]
    # the fastest first: it is the one to take instead
    better.sort(key=lambda each: (-each.speed, _value(each)))
    for each in better:
        if shown := _shown(each, option):
            return FrontierPlace(standing="dominated", by=each.name, shown=shown)
    if better:
        return FrontierPlace(standing="not separable", by=better[0].name)
    return FrontierPlace(standing="frontier")


def _shown(better: Contender, option: Contender) -> tuple[Literal["speed", "drift"], ...]:
    low = gain_over(better.throughput, option.throughput).low
    high, least = better.churn.high, option.churn.low
    shown: tuple[Literal["speed", "drift"], ...] = ()
    if low is not None and low > 0:
        shown += ("speed",)
    if high is not None and least is not None and high < least:
        shown += ("drift",)
    return shown


def price(before: Contender, after: Contender) -> Estimate:
    """Compute the share of throughput that a point of churn buys, from an option to a faster one.

    Without an end where the sample does not show that the churns differ; without a value where they
    are equal.
    """
    gain = gain_over(after.throughput, before.throughput)
    points = 100 * (_value(after) - _value(before))
    if points <= 0 or gain.value is None:
        return Estimate(None, None, None, "the churns are equal")
    value = gain.value / points
    a, b = before.churn, after.churn
    if None in (a.low, a.high, b.low, b.high, gain.low, gain.high):
        return Estimate(value, None, None, "the interval of a churn or of the gain is not known")
    assert a.low is not None and a.high is not None  # noqa: PT018 - for the type checker
    assert b.low is not None and b.high is not None  # noqa: PT018
    assert gain.low is not None and gain.high is not None  # noqa: PT018
    least, most = 100 * (b.low - a.high), 100 * (b.high - a.low)
    if least <= 0:
        return Estimate(value, None, None, "the sample does not show that the churns differ")
    # a loss is greatest per point where the points are fewest
    ends = [end / some for end in (gain.low, gain.high) for some in (least, most)]
    return Estimate(value, min(ends), max(ends))


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


def bench(
    experiment: Experiment,
    context: Context,
    load: Load,
    *,
    cpus: int | None,
    words: Sequence[str],
    cells: Sequence[str] = (),
) -> BenchResult[BenchRecord]:
    """Time every serving option of an experiment, or those of some cells; store the record.

    ``words`` are the command as it was called. Models are prepared, trained and exported as in a
    run; stored work is not repeated. Raises `ConfigError` for a file without a model or more CPUs
    than there are, `NothingCompared` without an image that every path decodes.
    """
    begun = BegunBench.of(experiment, context, cpus=cpus, words=words)
    narrowed, folder = narrow_to_cells(begun.plan, cells), begun.folder()
    keys = [begun.plan.key, narrowed.key]
    drift = known_drift(begun.experiment, keys, context.workspace, cells)
    options, images = ready_options(narrowed, context, load.batch)
    timed = time_options([e.serving for e in options], load, begun.cpus, context.progress)
    record = BenchRecord(
        **begun.facts(),
        task=experiment.task.facts(),
        images=len(images),
        batch=load.batch,
        drift_from=drift.folder,
        options=option_facts(options, timed, drift, load, begun.cpus),
        requests=_stored(options, timed, folder),
    )
    write_atomically(folder / "bench.json", document_text(record))
    return BenchResult(record, folder)


def _stored(options: Sequence[ReadyOption], timed: Sequence[TimedOption], folder: Path) -> Artifact:
    """Write a row for every counted request."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    names, rows = [], [np.zeros((0, 3 + len(COLUMNS)), np.int64)]
    for option, own in zip(options, timed, strict=True):
        for clients, rounds in own.rounds.items():
            for number, each in enumerate(rounds):
                count = len(each.times.requests)
                place = np.column_stack([np.full(count, clients), np.full(count, number)])
                rows.append(np.hstack([place, np.arange(count)[:, None], each.times.requests]))
                names += [option.name] * count
    table = np.concatenate(rows)
    heads = ("clients", "round", "request", *COLUMNS)
    columns = {"option": pa.array(names, pa.string())}
    columns |= {head: table[:, place] for place, head in enumerate(heads)}
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    data, path = sink.getvalue().to_pybytes(), "requests.parquet"
    write_atomically(folder / path, data)
    return Artifact(path=path, sha256=hashlib.sha256(data).hexdigest())
