"""`RunResults` → `RunRecord`."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.class_answers import ClassAnswers
from alignkit.findings.changes import mix_facts, size_curves
from alignkit.findings.environment import environment
from alignkit.findings.matrix import cell_facts, floor_facts, matrix_facts, predictions_of
from alignkit.findings.provenance import coverage_facts, data_facts, paths_facts, training_facts
from alignkit.judge import judge
from alignkit.prepare.prepared_sets import Sets
from alignkit.record import (
    AdviceFacts,
    Artifact,
    AttributionFacts,
    Control,
    FlippedFacts,
    ImageTableFacts,
    MatrixEntry,
    Measurements,
    Neighbours,
    RunRecord,
    Thumbnail,
)
from alignkit.record.picture_facts import PICTURE, thumbnail_png, write_file
from alignkit.runner.mitigation import Outcomes, check_advice
from alignkit.runner.shown_images import shown_images
from alignkit.stored_file import write_atomically
from alignkit.task_facts import TaskFacts
from alignkit.text.names import Names
from alignkit.version import __version__
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.plan import Plan
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.progress import ProgressStage
    from alignkit.runner.comparison_stage import Comparison
    from alignkit.train import Trained


def neighbour_pictures(
    matrix: Sequence[MatrixEntry], sets: Sets, folder: Path, *, limit: int
) -> tuple[Thumbnail, ...]:
    """Write pictures of queries and their neighbours, as the path of each row's baseline has them.

    For each such path until the next query does not fit into ``limit`` bytes; every comparison's
    first query comes before the second of any.
    """
    paths = {each.row: each.evaluated_with for each in matrix if each.aligned}
    wanted: dict[str, list[tuple[Neighbours, ...]]] = {}
    for each in matrix:
        if each.drift and each.drift.neighbours:
            wanted.setdefault(paths[each.row], []).append(each.drift.neighbours)
    return tuple(
        picture
        for path, lists in wanted.items()
        for picture in _of_path(path, lists, sets, folder, limit)
    )


def _of_path(
    path: str, lists: Sequence[tuple[Neighbours, ...]], sets: Sets, folder: Path, limit: int
) -> Iterator[Thumbnail]:
    samples, prepared = sets.evaluation, sets.evaluated(path)
    places = {name: place for place, name in enumerate(samples.ids)}
    done: set[str] = set()
    for query in filter(None, (each for turn in zip_longest(*lists) for each in turn)):
        new = [name for name in _names(query) if name not in done]
        pictures = [thumbnail_png(prepared.image(places[name])) for name in new]
        limit -= sum(map(len, pictures))
        if limit < 0:
            return
        done.update(new)
        for name, data in zip(new, pictures, strict=True):
            label = samples.classes[samples.labels[places[name]]] if samples.labels else ""
            picture = write_file(folder, PICTURE, data)
            yield Thumbnail(path=path, id=name, label=label, picture=picture)


def _names(query: Neighbours) -> list[str]:
    found = (query.query, *(each.id for each in (*query.before, *query.after)))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class RunResults:
    """Results of the stages of a run, in their order."""

    plan: Plan
    """With the advised paths."""
    advice: tuple[AdviceFacts, ...]
    sets: Sets
    trained: Sequence[Trained]
    predicted: Sequence[Predicted]
    compared: Sequence[Comparison]
    attributed: tuple[AttributionFacts, ...]
    flipped: tuple[FlippedFacts, ...]
    controls: tuple[Control, ...]


def assemble_record(
    results: RunResults,
    workspace: Workspace,
    stage: ProgressStage,
    *,
    started: datetime,
    seconds: float,
) -> RunRecord:
    """Compare the predictions, judge them, and record everything that a report needs.

    Parquet files and pictures are written into the run's folder. ``stage`` has a step for each
    cell and one for the matrix.
    """
    plan = results.plan
    folder = workspace.run_folder(plan.experiment.name, plan.key)
    measured, draws = _measured(results, workspace, folder, stage)
    trainings = tuple(training_facts(each, folder) for each in results.trained)
    curves = size_curves(results.predicted, measured.matrix, trainings, draws=draws)
    shown, shown_pairs = shown_images(
        plan, results.predicted, results.compared, results.sets, folder
    )
    return RunRecord(
        **dict(measured),
        **_circumstances(results, started, seconds),
        trainings=trainings,
        controls=results.controls,
        shown=shown,
        shown_pairs=shown_pairs,
        thumbnails=neighbour_pictures(
            measured.matrix, results.sets, folder, limit=plan.experiment.report.changed
        ),
        verdict=judge(plan.experiment.gate, measured, controls=results.controls),
        flipped=results.flipped,
        images=tuple(_image_table(comparison, folder) for comparison in results.compared),
        training_sizes=curves,
        mixes=mix_facts(results.predicted, measured.matrix, draws=draws),
    )


def _measured(
    results: RunResults, workspace: Workspace, folder: Path, stage: ProgressStage
) -> tuple[Measurements, SharedDraws]:
    """Return what rules read, with the draws of its intervals."""
    plan, experiment = results.plan, results.plan.experiment
    data = data_facts(plan, results.sets)
    draws = SharedDraws(plan.experiment.resamples, copies=data.copies)
    stage.note("drift of each cell")
    cells = []
    for cell in cell_facts(results.predicted, folder, draws):
        cells.append(cell)
        stage.advance()
    stage.note("matrix")
    matrix = tuple(matrix_facts(results.predicted, cells, draws))
    stage.advance()
    paths = paths_facts(plan.experiment.paths, experiment.entries)
    outcomes = Outcomes(plan, results.predicted, matrix, results.attributed, Names(paths))
    measured = Measurements(
        overrides=experiment.overrides,
        quick=experiment.quick,
        command=command(experiment, workspace, plan.cells),
        data=data,
        task=_task(results),
        paths=paths,
        coverage=tuple(coverage_facts(plan.experiment.paths, results.sets)),
        cells=tuple(cells),
        matrix=matrix,
        noise_floor=floor_facts(results.predicted),
        pixels=tuple(stage for each in results.compared for stage in each.stages),
        attributions=results.attributed,
        spatial=tuple(found for each in results.compared for found in each.spatial),
        # advice is shown with its result; the file's rules are about its own paths
        advice=tuple(check_advice(each, outcomes, draws=draws) for each in results.advice),
        coverage_diffs=tuple(each.coverage for each in results.compared),
    )
    return measured, draws


def _circumstances(results: RunResults, started: datetime, seconds: float) -> dict[str, Any]:
    experiment = results.plan.experiment
    return {
        "alignkit": __version__,
        "name": experiment.name,
        "question": experiment.question,
        "key": results.plan.key,
        "yaml": experiment.text,
        "started": started.isoformat(timespec="milliseconds"),
        "seconds": round(seconds, 1),
        "environment": environment(),
    }


def _task(results: RunResults) -> TaskFacts:
    """Describe the task, with what the outputs of its classifiers are by their aligned cells."""
    answers = (predictions_of(each) for each in results.predicted if each.evaluation.aligned)
    scales = (each.scale for each in answers if isinstance(each, ClassAnswers) and each.scale)
    return results.plan.experiment.task.facts().giving(scales)


def command(experiment: Experiment, workspace: Workspace, cells: Sequence[str] = ()) -> str:
    """Return the shell command that runs the experiment again, or these cells of it."""
    overrides = [word for each in experiment.overrides for word in ("--set", each)]
    narrowed = [word for each in cells for word in ("--cell", each)]
    narrowed += ["--quick"] * bool(experiment.quick)
    return shlex.join(
        ["alignkit", "run", str(experiment.file), *overrides, *narrowed, *workspace.option]
    )


def _image_table(comparison: Comparison, folder: Path) -> ImageTableFacts:
    """Copy the comparison's table of images beside the record."""
    data = comparison.images.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    path = f"data/images-{sha256[:16]}.parquet"
    write_atomically(folder / path, data)
    return ImageTableFacts(
        reference=comparison.reference,
        candidate=comparison.candidate,
        table=Artifact(path=path, sha256=sha256),
    )
