"""The stages of a run, in order: cells, comparison, advice, its mitigation, assembly of the record.

Every finished preparation, training, cell and comparison is stored at once under its content hash;
a killed run continues with the same command. Each model's cells are predicted as soon as it is
trained; the comparison that is recorded comes after all of them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from alignkit.errors import DamagedRecord
from alignkit.experiment.experiment import Experiment
from alignkit.outcome import Measured, PlannedWork
from alignkit.plan import Plan
from alignkit.plan.made_models import with_made_models
from alignkit.plan.outlooks import planned_work
from alignkit.plan.plan_keys import keyed_plan, rekey_for_images
from alignkit.plan.required_models import assumed, require_own_models
from alignkit.plan.work import emulations
from alignkit.record import Artifact, RunRecord
from alignkit.record.document import read_record, verify_artifacts, write_record
from alignkit.stored_file import write_atomically
from alignkit.text.run_columns import cell_table
from alignkit.workspace import Context, Workspace

logger = logging.getLogger(__name__)
CELLS_FILE = "cells.parquet"


def run_experiment(
    experiment: Experiment, context: Context, *, fresh: bool = False, cells: Sequence[str] = ()
) -> tuple[RunRecord, Path]:
    """Carry out the plan of an experiment; write and return its record, with the run's folder.

    A run whose record is complete is not repeated, unless ``fresh``. ``cells`` narrows the plan.
    Rank 0 of a group calls it, and the others `Rank.serve_calls`. Raises `WorkspaceError` if
    another process holds the folder or it cannot be written, `DataError` for unusable data, and
    `ConfigError` for a cell that is none of the plan's.
    `alignkit.gate.run_or_check` also takes images without labels.
    """
    workspace = context.workspace
    experiment = with_made_models(experiment, context)
    plan = keyed_plan(experiment, workspace, cells=cells, ranks=context.rank.world)
    folder = workspace.run_folder(experiment.name, plan.key)
    with workspace.lock(folder):
        if fresh:
            # under the lock: no other run of this plan reads it meanwhile
            forget(plan, workspace)
        elif finished := finished_record(plan, folder):
            context.progress.note(f"everything is cached: {folder}")
            return finished, folder
        if found := stored_work(plan, workspace):
            context.progress.note(found)
        # before the first minute of work: an emulated precision may take most of the run
        for slow in emulations(each for each in plan.evaluations if not _stored(each, workspace)):
            context.progress.note(slow)
        record = carry_out(plan, folder, context)
        write_record(record, folder)
    return record, folder


def carry_out(plan: Plan, folder: Path, context: Context) -> RunRecord:
    """Carry out the stages: values in, values out."""
    # late: a run that is cached needs none of them, nor NumPy, SciPy and OpenCV
    from alignkit.attribute.attribute_paths import attribute_paths
    from alignkit.attribute.flipped_kinds import flipped_kinds
    from alignkit.controls import verify
    from alignkit.prepare.prepared_sets import prepare_sets
    from alignkit.runner.advise import advise, advised_plan
    from alignkit.runner.assemble import RunResults, assemble_record
    from alignkit.runner.comparison_stage import compare_paths
    from alignkit.runner.matrix_stage import measure_matrix

    started, clock = datetime.now(UTC), time.monotonic()
    _fetch_weights(plan, context.workspace)
    require_own_models(plan)
    for name, text in assumed(plan).items():
        logger.warning("%s: %s", name, text)
    # a narrowed run repeats some cells; advice would add others
    advice = () if plan.cells else advise(plan, context)
    whole = advised_plan(plan, advice)
    train, evaluation = plan.samples("train"), plan.samples("eval")
    sets = prepare_sets(whole.experiment.paths, train, evaluation, context, trains=whole.trains)
    used = [sets.train.ids[index] for index in sets.trained_on]
    whole = rekey_for_images(whole, used, len(sets.train))
    trained, predicted = measure_matrix(whole, sets, context, folder)
    # the paths of the file: an advised path is judged by its drift alone
    compared = compare_paths(plan.experiment.paths, sets, context)
    checkpoints = {
        each.training.key: each.ended.value for each in trained if isinstance(each.ended, Measured)
    }
    attributed = attribute_paths(plan, checkpoints, predicted, sets, context)
    flipped = flipped_kinds(plan, predicted, sets, context.progress)
    controls = verify(plan, trained, predicted, sets, context)
    results = RunResults(
        whole, advice, sets, trained, predicted, compared, attributed, flipped, controls
    )
    seconds = time.monotonic() - clock
    # the drift of each cell, and the matrix of all
    with context.progress.stage("record", len(predicted) + 1) as stage:
        record = assemble_record(
            results, context.workspace, stage, started=started, seconds=seconds
        )
    return with_cell_table(record, folder)


def with_cell_table(record: RunRecord, folder: Path) -> RunRecord:
    """Write ``cells.parquet`` into a run's folder; return the record that names it.

    `alignkit.load_run` makes its table of the record's cells and never reads this file, so that a
    damaged one cannot give other numbers than the record.
    """
    from pyarrow import parquet

    written = io.BytesIO()
    parquet.write_table(cell_table(record.cells, record.task), written)
    data = written.getvalue()
    write_atomically(folder / CELLS_FILE, data)
    named = Artifact(path=CELLS_FILE, sha256=hashlib.sha256(data).hexdigest())
    return record.model_copy(update={"cell_table": named})


def _fetch_weights(plan: Plan, workspace: Workspace) -> None:
    """Fetch pretrained weights before any other work; raises if they are not here."""
    for training in plan.trainings:
        if training.given is not None:
            training.given.fetched(workspace)
    recipe = plan.experiment.recipe
    if recipe.pretrained and any(
        not workspace.stored("trainings", each.key) for each in plan.trainings
    ):
        from alignkit.models.pretrained import read_pretrained

        read_pretrained(recipe.pretrained, recipe.model)


def finished_record(plan: Plan, folder: Path) -> RunRecord | None:
    """Read the record of an earlier run of this plan, if every cell that can run did.

    Returns ``None`` if a live endpoint serves a cell, since it may answer differently today, and,
    with a warning, if the record or a file that it names is not what was written.
    """
    live = any(each.live for each in plan.evaluations)
    if live or not (folder / "record.json").exists():
        return None
    try:
        record = _verified_record(plan, folder)
    except DamagedRecord as error:
        logger.warning(
            "%s: %s; the record is made again from stored work", plan.experiment.name, error.damage
        )
        return None
    failed = any(cell.state == "failed" for cell in record.cells)
    # a model that failed to learn would fail again
    broken = any(each.passed is False and each.failing == "error" for each in record.controls)
    return None if failed or broken else record


def _verified_record(plan: Plan, folder: Path) -> RunRecord:
    record = read_record(folder)
    verify_artifacts(folder, record)
    if record.key != plan.key:
        raise DamagedRecord(f"{folder / 'record.json'} is the record of another run")
    return record


def stored_work(plan: Plan, workspace: Workspace) -> str:
    """Say how much of a plan's work is stored; empty if nothing is."""
    counts = {
        name: (sum(_stored(each, workspace) for each in works), len(works))
        for name, works in planned_work(plan).items()
        if works
    }
    if not any(stored for stored, _ in counts.values()):
        return ""
    words = {"prepared": "preparations", "comparisons": "pixel comparisons"}
    listed = [f"{n} of {total} {words.get(name, name)}" for name, (n, total) in counts.items()]
    return f"continues: {', '.join(listed[:-1])} and {listed[-1]} are stored"


def _stored(work: PlannedWork, workspace: Workspace) -> bool:
    return workspace.stored(work.kind, work.key) is not None


def forget(plan: Plan, workspace: Workspace) -> None:
    """Discard what is stored of all that `alignkit plan` lists, so that it is done again.

    The plan is one of `keyed_plan`'s.
    """
    for works in planned_work(plan).values():
        for each in works:
            workspace.discard(each.kind, each.key)
            workspace.discard_unfinished(each.kind, each.key)
    for lot in workspace.finished("lots"):
        of_pixels = lot.parts["work"] in ("comparison", "snapshot")
        if of_pixels and lot.parts["data"] == plan.images["eval"]:
            workspace.discard("lots", lot.folder.name)
