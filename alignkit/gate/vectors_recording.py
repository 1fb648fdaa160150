"""`alignkit baseline vectors`: golden vectors from a run of an experiment."""

from __future__ import annotations

from pathlib import Path

from alignkit.baseline.golden_vectors import (
    GoldenVectors,
    recorded_vectors,
    refuse_existing,
    write_vectors,
)
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.plugins import did_you_mean
from alignkit.record import Cell, RunRecord
from alignkit.runner import run_experiment
from alignkit.workspace import Context


def record_vectors(
    experiment: Experiment,
    context: Context,
    out: Path,
    *,
    images: int,
    column: tuple[str, str, str] = ("", "", ""),
) -> GoldenVectors:
    """Run an experiment, or read its stored work, and keep the vectors of one cell.

    ``column`` names path, backend and precision, each empty for the first of the first row's
    aligned cells. Raise `ConfigError` if the experiment has no model or no such cell,
    `NothingCompared` if that cell was not measured, `BaselineError` if ``out`` exists, and whatever
    a run raises.
    """
    refuse_existing(out)
    if not experiment.predicts:
        raise ConfigError(
            f"{experiment.file} has no model, and vectors are a model's; give 'models'"
        )
    record, run = run_experiment(experiment, context)
    cell = _chosen(record, column)
    if not cell.ran:
        raise NothingCompared(f"{cell.place} was not measured: {cell.reason}")
    vectors = recorded_vectors(record, run, cell, experiment.data.evaluation(), images=images)
    write_vectors(vectors, out)
    return vectors


def _chosen(record: RunRecord, column: tuple[str, str, str]) -> Cell:
    names = ("path", "backend", "precision")
    cells = list(record.cells) if column[0] else [each for each in record.cells if each.aligned]
    for name, wanted, place in zip(names, column, range(3), strict=True):
        known = {each.column.names[place] for each in cells}
        if wanted and wanted not in known:
            raise ConfigError(
                f"--{name} {wanted}: no such cell{did_you_mean(wanted, sorted(known))}"
            )
        cells = [each for each in cells if wanted in ("", each.column.names[place])]
    if not cells:
        raise NothingCompared("the run has no cell of a model on the path it was trained with")
    return cells[0]
