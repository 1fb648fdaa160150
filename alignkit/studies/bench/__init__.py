"""Serving options of an experiment under a closed loop of clients: speed, memory, drift.

Each option runs in a process of its own on the same CPUs. Options and numbers of clients take
turns, round by round, so that a slowdown of the machine slows all of them; gains are computed
within rounds. Drift is that of the run of the same file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.record import Artifact
from alignkit.record.bench_facts import BenchRecord
from alignkit.record.document import document_text
from alignkit.serve.rounds import Load, TimedOption, time_options
from alignkit.serve.serving import COLUMNS
from alignkit.serve.serving_options import ReadyOption
from alignkit.stored_file import write_atomically
from alignkit.studies.bench.begun_bench import BegunBench, BenchResult
from alignkit.studies.bench.measured_options import option_facts

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.workspace import Context


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
    ready, folder = begun.ready(cells, load.batch), begun.folder()
    servings = [each.serving for each in ready.options]
    timed = time_options(servings, load, begun.cpus, context.progress)
    record = BenchRecord(
        **begun.facts(),
        **ready.facts,
        options=option_facts(ready.options, timed, ready.drift, load, begun.cpus),
        requests=_stored(ready.options, timed, folder),
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
