"""Serving options of an experiment under a closed loop of clients: speed, memory, drift.

Each option runs in a process of its own on the same CPUs. Options and numbers of clients take
turns, round by round, so that a slowdown of the machine slows all of them; gains are computed
within rounds. Drift is that of the run of the same file.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.findings.environment import environment
from alignkit.findings.provenance import paths_facts
from alignkit.plan.plan_keys import keyed_plan, narrow_to_cells
from alignkit.record import Artifact
from alignkit.record.bench_facts import BenchRecord
from alignkit.record.document import document_text
from alignkit.serve.cpu_use import chosen_cpus, cpu_quota, load_average
from alignkit.serve.rounds import Load, TimedOption, time_options
from alignkit.serve.serving import COLUMNS
from alignkit.serve.serving_options import ReadyOption, ready_options
from alignkit.stored_file import write_atomically
from alignkit.studies.bench.bench_drift import KnownDrift, known_drift
from alignkit.studies.bench.measured_options import option_facts
from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.plan import Plan
    from alignkit.workspace import Context


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A bench and the folder that it is stored in."""

    record: BenchRecord
    folder: Path


def bench(
    experiment: Experiment,
    context: Context,
    load: Load,
    *,
    cpus: int | None,
    words: Sequence[str],
    cells: Sequence[str] = (),
) -> BenchResult:
    """Time every serving option of an experiment, or those of some cells; store the record.

    ``words`` are the command as it was called. Models are prepared, trained and exported as in a
    run; stored work is not repeated. Raises `ConfigError` for a file without a model or more CPUs
    than there are, `NothingCompared` without an image that every path decodes.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    held, before = chosen_cpus(cpus), load_average()
    whole = keyed_plan(experiment, context.workspace)
    narrowed = narrow_to_cells(whole, cells)
    drift = known_drift(experiment, [whole.key, narrowed.key], context.workspace, cells)
    options, images = ready_options(narrowed, context, load.batch)
    timed = time_options([each.serving for each in options], load, held, context.progress)
    stamp = started.strftime("%Y%m%dT%H%M%SZ")
    folder = context.workspace.run_folder(experiment.name, whole.key) / f"bench-{stamp}"
    record = BenchRecord(
        **study_facts(experiment, whole, drift, started, clock, words),
        cpus=held,
        load_before=before,
        images=len(images),
        batch=load.batch,
        options=option_facts(options, timed, drift, load, held),
        requests=_stored(options, timed, folder),
    )
    write_atomically(folder / "bench.json", document_text(record))
    return BenchResult(record, folder)


def study_facts(
    experiment: Experiment,
    plan: Plan,
    drift: KnownDrift,
    started: datetime,
    clock: float,
    words: Sequence[str],
) -> dict[str, Any]:
    """Return the fields that the documents of all benches share, of a bench that ends now.

    ``started`` and ``clock``, of `time.monotonic`, are its begin.
    """
    return {
        "alignkit": __version__,
        "command": shlex.join(words),
        "name": experiment.name,
        "key": plan.key,
        "quick": experiment.quick,
        "started": started.isoformat(timespec="milliseconds"),
        "seconds": round(time.monotonic() - clock, 1),
        "environment": environment(),
        "task": experiment.task.facts(),
        "paths": paths_facts(plan.preprocesses, experiment.entries),
        "cpu_quota": cpu_quota(),
        "drift_from": drift.folder,
    }


def _stored(options: Sequence[ReadyOption], timed: Sequence[TimedOption], folder: Path) -> Artifact:
    """Write a row for every counted request."""
    import numpy as np
    import pyarrow as pa

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
    return stored_table(columns, folder)


def stored_table(columns: Mapping[str, Any], folder: Path) -> Artifact:
    """Write ``requests.parquet`` into a folder."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return stored_artifact(sink.getvalue().to_pybytes(), folder, "requests.parquet")


def stored_artifact(data: bytes, folder: Path, path: str) -> Artifact:
    """Write a file below a folder; return it with its hash."""
    write_atomically(folder / path, data)
    return Artifact(path=path, sha256=hashlib.sha256(data).hexdigest())
