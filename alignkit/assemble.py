"""What a run found → `RunRecord`."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit import __version__
from alignkit.advise.mitigation import Outcomes, check_advice
from alignkit.cell import Measured
from alignkit.compare.comparison import worst_images
from alignkit.environment import environment
from alignkit.facts import coverage_facts, data_facts, path_facts, training_facts
from alignkit.gate.evidence import Evidence
from alignkit.gate.judge import judge
from alignkit.matrix import cell_facts, floor_facts, matrix_facts, predictions_of
from alignkit.mix import mix_facts
from alignkit.predictions import class_name
from alignkit.published import published_facts
from alignkit.record import (
    AdviceFacts,
    Artifact,
    AttributionFacts,
    Control,
    FlippedFacts,
    ImageTableFacts,
    PathFacts,
    RunRecord,
    WorstImage,
)
from alignkit.row import is_row_of
from alignkit.row_pair import row_pairs
from alignkit.training_size import size_curves
from alignkit.workspace import write_atomically

if TYPE_CHECKING:
    from alignkit.compare.comparison import Comparison
    from alignkit.execute import Sets, Trained
    from alignkit.load.experiment import Experiment
    from alignkit.plan import Plan
    from alignkit.predict_cells import Predicted


def assemble_record(
    plan: Plan,
    folder: Path,
    *,
    sets: Sets,
    trained: Sequence[Trained],
    predicted: Sequence[Predicted],
    compared: Sequence[Comparison],
    attributed: tuple[AttributionFacts, ...],
    flipped: tuple[FlippedFacts, ...],
    advice: tuple[AdviceFacts, ...],
    key: str,
    controls: tuple[Control, ...],
    started: datetime,
    seconds: float,
) -> RunRecord:
    """Compare what was predicted, judge it, and write down all a report needs.

    ``plan`` holds the advised paths too; ``key`` is that of the plan without them.
    Parquet files and pictures are written into ``folder``.
    """
    experiment = plan.experiment
    resamples = experiment.content.evaluate.resamples
    cells = cell_facts(predicted, folder, resamples=resamples)
    matrix = matrix_facts(predicted, resamples=resamples)
    trainings = tuple(training_facts(each, folder) for each in trained)
    pixels = tuple(stage for comparison in compared for stage in comparison.stages)
    coverage = tuple(comparison.coverage for comparison in compared)
    paths = _paths(experiment)
    floors = floor_facts(predicted)
    curves = size_curves(predicted, matrix, trainings, resamples=resamples)
    evidence = Evidence(
        matrix=matrix,
        cells=cells,
        pixels=pixels,
        coverage=coverage,
        paths=paths,
        attributions=attributed,
    ).without(each.advised for each in advice)
    outcomes = Outcomes(plan, predicted, matrix, attributed)
    return RunRecord(
        alignkit=__version__,
        name=experiment.name,
        question=experiment.question,
        key=key,
        command=command(experiment, plan.cells),
        yaml=experiment.text,
        overrides=experiment.overrides,
        started=started.isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        partial=False,
        environment=environment(),
        data=data_facts(plan, sets),
        paths=paths,
        coverage=coverage_facts(plan, sets),
        trainings=trainings,
        cells=cells,
        matrix=matrix,
        noise_floor=floors,
        controls=controls,
        pixels=pixels,
        worst=_worst(plan, folder, sets, predicted, compared),
        verdict=judge(experiment.content.gate, evidence, controls=controls),
        attributions=attributed,
        flipped=flipped,
        advice=check_advice(advice, outcomes, resamples=resamples),
        coverage_diffs=coverage,
        images=tuple(_image_table(comparison, folder) for comparison in compared),
        training_sizes=curves,
        mixes=mix_facts(predicted, matrix, resamples=resamples),
        published=published_facts(
            experiment.content.published, matrix=matrix, floors=floors, curves=curves
        ),
        row_pairs=row_pairs(predicted, resamples=resamples),
    )


def command(experiment: Experiment, cells: Sequence[str] = ()) -> str:
    """The shell line that runs the experiment again, or these cells of it."""
    overrides = [word for each in experiment.overrides for word in ("--set", each)]
    narrowed = [word for each in cells for word in ("--cell", each)]
    return shlex.join(["alignkit", "run", str(experiment.file), *overrides, *narrowed])


def _paths(experiment: Experiment) -> tuple[PathFacts, ...]:
    options = experiment.content.preprocess
    return tuple(path_facts(path, options[path.name].preset) for path in experiment.paths)


def _image_table(comparison: Comparison, folder: Path) -> ImageTableFacts:
    """Copies the comparison's table of images beside the record."""
    data = comparison.images.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    path = f"data/images-{sha256[:16]}.parquet"
    write_atomically(folder / path, data)
    return ImageTableFacts(
        reference=comparison.reference,
        candidate=comparison.candidate,
        table=Artifact(path=path, sha256=sha256),
    )


def _worst(
    plan: Plan,
    folder: Path,
    sets: Sets,
    predicted: Sequence[Predicted],
    compared: Sequence[Comparison],
) -> tuple[WorstImage, ...]:
    shown: list[WorstImage] = []
    for comparison in compared:
        reference = sets.usable(comparison.reference, "eval")
        candidate = sets.usable(comparison.candidate, "eval")
        assert reference is not None
        assert candidate is not None
        shown += worst_images(
            comparison,
            reference,
            candidate,
            sets.evaluation,
            folder,
            count=plan.experiment.content.report.worst,
            flipped=_flips(predicted, comparison.reference, comparison.candidate),
        )
    return tuple(shown)


def _flips(predicted: Sequence[Predicted], reference: str, candidate: str) -> Callable[[str], str]:
    """Sample id → what serving with ``candidate`` did to models trained with ``reference``.

    Each in the runtime of its aligned cell.
    """
    row = [each for each in predicted if is_row_of(each.evaluation.training.row, reference)]
    aligned = {each.evaluation.training.key: each for each in row if each.evaluation.aligned}
    homes = [(aligned[each.evaluation.training.key], each) for each in row]
    pairs = [
        (_classes(home), _classes(each))
        for home, each in homes
        if each.evaluation.evaluated_with == candidate
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
    names = (class_name(predictions.classes, index) for index in predictions.predicted)
    return dict(zip(predictions.ids, names, strict=True))
