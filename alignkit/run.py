"""The stages of a run, in order, one line each.

Every finished preparation, training, cell and comparison is stored at once under its content hash;
a killed run continues with the same command. All predictions are made first; all comparison comes
after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from alignkit.cell import Ended
from alignkit.checkpoint import Checkpoint
from alignkit.errors import NothingCompared, RecordError
from alignkit.experiment import Experiment
from alignkit.facts import assemble_record
from alignkit.plan import Plan, make_plan
from alignkit.predictions import Predictions
from alignkit.progress import Progress
from alignkit.record import RunRecord, read_record, write_record
from alignkit.stages import compare_paths, predict_cells, prepare_sets, train_models
from alignkit.verify import verify
from alignkit.workspace import Workspace


def run_experiment(
    experiment: Experiment, workspace: Workspace, *, progress: Progress, fresh: bool = False
) -> tuple[RunRecord, Path]:
    """Do everything a plan holds and write its record; returns it and the run's folder.

    A run whose record is whole is not done again, unless ``fresh``. Raises `WorkspaceError` if
    another process holds the folder or it cannot be written, `DataError` for unusable data and
    `NothingCompared` if no image was left.
    """
    plan = make_plan(experiment)
    folder = workspace.run_folder(experiment.name, plan.key)
    with workspace.lock(folder):
        if fresh:
            forget(plan, workspace)
        elif finished := finished_record(folder, plan):
            progress.note(f"everything is cached in {folder}")
            return finished, folder
        record = carry_out(plan, workspace, folder, progress)
        write_record(record, folder)
    return record, folder


def carry_out(plan: Plan, workspace: Workspace, folder: Path, progress: Progress) -> RunRecord:
    """The stages: values in, values out."""
    started, clock = datetime.now(UTC), time.monotonic()
    sets = prepare_sets(plan, workspace, progress)
    trained = train_models(plan, sets, workspace, progress)
    predicted = predict_cells(plan, trained, sets, workspace, progress)
    compared = compare_paths(plan, sets, workspace, folder, progress)
    controls = verify(plan, trained, predicted, sets, progress)
    return assemble_record(
        plan,
        folder,
        sets=sets,
        trained=trained,
        predicted=predicted,
        compared=compared,
        controls=controls,
        started=started,
        seconds=time.monotonic() - clock,
    )
