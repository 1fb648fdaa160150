"""A run's folder as the baseline of another: `alignkit gate FILE --against RUN`."""

from __future__ import annotations

from pathlib import Path

from alignkit.baseline import Baseline, Head, MetricLine, differing, read_baseline
from alignkit.baseline.answers import pack
from alignkit.errors import BaselineError, RecordError
from alignkit.place import Place
from alignkit.record import MatrixEntry, RunRecord
from alignkit.record.document import read_record

STAGES_FILE = "stages.jsonl"
"""Beside the record: what the run's stages made of every image, as a baseline holds it."""


def baseline_of_run(folder: Path, environment: dict[str, str]) -> Baseline:
    """What a run left: its stages where it kept them, and its metrics and predictions.

    Raises `BaselineError` if the folder holds no run or its stages are of another environment.
    """
    try:
        record = read_record(folder)
    except RecordError as error:
        raise BaselineError(f"--against: {error}") from error
    metrics = metric_lines(record, folder)
    if not (folder / STAGES_FILE).exists():
        head = Head(
            alignkit=record.alignkit, name=record.name, environment=environment, versions={},
            paths={}, data=record.data.fingerprint, lines=0,
        )  # fmt: skip
        return Baseline(head, {}, metrics)
    kept = read_baseline(folder / STAGES_FILE)
    there = kept.head.environment
    if names := differing(there, environment):
        fields = "; ".join(
            f"{name}: {there.get(name, 'none')} there, {environment.get(name, 'none')} here"
            for name in names
        )
        raise BaselineError(f"{folder} was made in another environment: {fields}")
    return Baseline(kept.head, kept.lines, metrics)


def metric_lines(record: RunRecord, folder: Path) -> dict[Place, MetricLine]:
    """Metrics and packed predictions of every entry of a matrix that was measured."""
    lines = (_line(entry, record, folder) for entry in record.matrix if entry.state == "measured")
    return {line.place: line for line in lines}


def _line(entry: MatrixEntry, record: RunRecord, folder: Path) -> MetricLine:
    from alignkit.compare.predictions import Predictions

    packed = {
        str(cell.seed): pack(Predictions.from_parquet(folder / cell.predictions.path))
        for cell in record.cells
        if cell.predictions is not None and cell.place == entry.place
    }
    return MetricLine(**entry.place.fields, metrics=entry.metrics, predictions=packed)
