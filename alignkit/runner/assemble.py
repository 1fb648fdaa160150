"""`RunResults` → `RunRecord`."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.compare.predictions import class_name
from alignkit.findings.changes import mix_facts, row_pairs, size_curves
from alignkit.findings.environment import environment
from alignkit.findings.matrix import cell_facts, floor_facts, matrix_facts, predictions_of
from alignkit.findings.provenance import coverage_facts, data_facts, paths_facts, training_facts
from alignkit.findings.published import published_facts
from alignkit.judge import judge
from alignkit.judge.evidence import Evidence
from alignkit.outcome import Measured
from alignkit.record import (
    AdviceFacts,
    Artifact,
    AttributionFacts,
    Control,
    FlippedFacts,
    ImageTableFacts,
    RunRecord,
    WorstImage,
)
from alignkit.runner.comparison_stage import worst_images
from alignkit.runner.mitigation import Outcomes, check_advice
from alignkit.stored_file import write_atomically
from alignkit.text.names import Names
from alignkit.version import __version__
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.plan import Plan
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.runner.comparison_stage import Comparison
    from alignkit.train import Trained


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
    results: RunResults, workspace: Workspace, *, started: datetime, seconds: float
) -> RunRecord:
    """Compare the predictions, judge them, and record everything that a report needs.

    Parquet files and pictures are written into the run's folder.
    """
    plan, resamples = results.plan, results.plan.resamples
    folder = workspace.run_folder(plan.experiment.name, plan.key)
    evidence = _evidence(results, folder)
    matrix = tuple(evidence.matrix)
    trainings = tuple(training_facts(each, folder) for each in results.trained)
    floors = floor_facts(results.predicted)
    curves = size_curves(results.predicted, matrix, trainings, resamples=resamples)
    # advice is shown with its result; the file's rules are about its own paths
    judged = evidence.without(each.advised for each in results.advice)
    names = Names(evidence.paths)
    outcomes = Outcomes(plan, results.predicted, matrix, results.attributed, names)
    return RunRecord(
        **_circumstances(results, workspace, started, seconds),
        data=data_facts(plan, results.sets),
        paths=tuple(evidence.paths),
        coverage=coverage_facts(plan.preprocesses, results.sets),
        trainings=trainings,
        cells=tuple(evidence.cells),
        matrix=matrix,
        noise_floor=floors,
        controls=results.controls,
        pixels=tuple(evidence.pixels),
        worst=_worst(results, folder),
        verdict=judge(plan.gate, judged, controls=results.controls),
        attributions=results.attributed,
        flipped=results.flipped,
        advice=tuple(check_advice(e, outcomes, resamples=resamples) for e in results.advice),
        coverage_diffs=tuple(evidence.coverage_diffs),
        images=tuple(_image_table(comparison, folder) for comparison in results.compared),
        training_sizes=curves,
        mixes=mix_facts(results.predicted, matrix, resamples=resamples),
        published=published_facts(
            plan.published, matrix=matrix, floors=floors, curves=curves, names=names
        ),
        row_pairs=row_pairs(results.predicted, resamples=resamples),
    )


def _evidence(results: RunResults, folder: Path) -> Evidence:
    entries, resamples = results.plan.experiment.entries, results.plan.resamples
    return Evidence(
        matrix=matrix_facts(results.predicted, resamples=resamples),
        cells=cell_facts(results.predicted, folder, resamples=resamples),
        pixels=[stage for comparison in results.compared for stage in comparison.stages],
        coverage_diffs=[comparison.coverage for comparison in results.compared],
        paths=paths_facts(results.plan.preprocesses, entries),
        attributions=results.attributed,
        overrides=results.plan.experiment.overrides,
        labelled=results.plan.experiment.labelled,
        quick=results.plan.experiment.quick,
    )


def _circumstances(
    results: RunResults, workspace: Workspace, started: datetime, seconds: float
) -> dict[str, Any]:
    experiment = results.plan.experiment
    return {
        "alignkit": __version__,
        "name": experiment.name,
        "question": experiment.question,
        "key": results.plan.key,
        "command": command(experiment, workspace, results.plan.cells),
        "yaml": experiment.text,
        "overrides": experiment.overrides,
        "quick": experiment.quick,
        "started": started.isoformat(timespec="milliseconds"),
        "seconds": round(seconds, 1),
        "partial": False,
        "environment": environment(),
    }


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


def _worst(results: RunResults, folder: Path) -> tuple[WorstImage, ...]:
    shown: list[WorstImage] = []
    for each in results.compared:
        flipped = _flips(results.predicted, each.reference, each.candidate)
        count = results.plan.worst
        shown += worst_images(each, results.sets, folder, count=count, flipped=flipped)
    return tuple(shown)


def _flips(predicted: Sequence[Predicted], reference: str, candidate: str) -> Callable[[str], str]:
    """Return a function of a sample id that says how serving with ``candidate`` changed its class.

    The models are those trained with ``reference``, each in the runtime of its aligned cell.
    """
    row = [each for each in predicted if each.evaluation.training.row.is_only(reference)]
    aligned = {each.evaluation.training.key: each for each in row if each.evaluation.aligned}
    # a class changes against the same model served as it was trained
    homes = [(aligned[each.evaluation.training.key], each) for each in row]
    pairs = [
        (_classes(home), _classes(each))
        for home, each in homes
        if each.evaluation.place.column.preprocess == candidate
        and each.evaluation.runtime == home.evaluation.runtime
        and isinstance(home.ended, Measured)
        and isinstance(each.ended, Measured)
    ]
    models = "models" if any(each.evaluation.training.given for each in row) else "seeds"

    def flipped(sample: str) -> str:
        both = [(was[sample], now[sample]) for was, now in pairs if sample in was and sample in now]
        changes = [f"{was} → {now}" for was, now in both if was != now]
        if not changes:
            return ""
        return f"{', '.join(dict.fromkeys(changes))} ({len(changes)} of {len(pairs)} {models})"

    return flipped


def _classes(predicted: Predicted) -> dict[str, str]:
    predictions = predictions_of(predicted)
    assert predictions is not None
    names = (class_name(predictions.outputs, index) for index in predictions.predicted)
    return dict(zip(predictions.ids, names, strict=True))
