"""A run's folder as a baseline, for `alignkit gate FILE --against RUN`; predictions as strings.

A string holds ids, labels and predicted classes, about 5 bytes an image. It holds no logits, so
that churn, flips and every ratio can be paired with a later run, and distances of logits cannot.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.baseline import Baseline, BaselineHead, MetricLine, differences, read_baseline
from alignkit.errors import BaselineError, RecordError
from alignkit.place import Place
from alignkit.record import Drift, LogitDistance, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.record.document import read_record

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions

_NO_LOGITS = "a baseline keeps classes, not logits"
_TEXT = 1 << 28
"""Bytes that a packed string may unpack to: ids, labels and classes of millions of images."""
_LOGITS = 1 << 31
"""Images times classes that it may have."""
STAGES_FILE = "stages.jsonl"
"""File beside the record: the run's stages as lines of a baseline."""


def baseline_of_run(folder: Path, environment: dict[str, str]) -> Baseline:
    """Read a run's folder: its stages if it kept them, its metrics and its predictions.

    Raises `BaselineError` if the folder holds no run, a file of it is damaged or its stages are of
    another environment.
    """
    try:
        record = read_record(folder)
        metrics = metric_lines(record, folder)
        stages = artifact_file(folder, record.stages) if record.stages else None
    except RecordError as error:
        raise BaselineError(f"--against: {error}") from error
    if stages is None:
        head = BaselineHead(
            alignkit=record.alignkit, name=record.name, environment=environment, versions={},
            paths={}, data=record.data.fingerprint, lines=0,
        )  # fmt: skip
        return Baseline(head, {}, metrics)
    kept = read_baseline(stages)
    if fields := differences(kept.head.environment, environment):
        raise BaselineError(f"{folder} was made in another environment: {'; '.join(fields)}")
    return Baseline(kept.head, kept.lines, metrics)


def metric_lines(record: RunRecord, folder: Path) -> dict[Place, MetricLine]:
    """Return metrics and packed predictions of every entry of the matrix that ran."""
    from alignkit.compare.predictions import Predictions

    lines = {}
    for entry in record.matrix:
        if not entry.ran:
            continue
        packed = {
            str(cell.seed): pack(Predictions.from_parquet(artifact_file(folder, cell.predictions)))
            for cell in record.cells
            if cell.predictions is not None and cell.place == entry.place
        }
        line = MetricLine(**entry.place.fields, metrics=entry.metrics, predictions=packed)
        lines[entry.place] = line
    return lines


def pack(predictions: Predictions) -> str:
    """Pack names, ids, labels and predicted classes (-1: none), with zlib and base 85."""
    content = [
        predictions.classes,
        predictions.ids,
        predictions.labels.tolist(),
        predictions.predicted.tolist(),
        # only where there are some, so that other baselines stay as they are
        *([predictions.outside] if predictions.outside else []),
    ]
    # the smallest: it is kept in git
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    return base64.b85encode(packed).decode()


def unpack(packed: str) -> Predictions:
    """Return predictions whose logits are one-hot, NaN where nothing was predicted.

    Raises `BaselineError` for a string that `pack` did not make.
    """
    import numpy as np

    from alignkit.compare.predictions import Predictions

    with _explained():
        classes, ids, labels, predicted, outside = _content(packed)
        logits = np.zeros((len(ids), len(classes) + len(outside)), np.float32)
        for row, chosen in enumerate(predicted):
            logits[row, slice(None) if chosen < 0 else chosen] = np.nan if chosen < 0 else 1
        truth = np.asarray(labels, np.int64)
        return Predictions(tuple(ids), truth, logits, tuple(classes), tuple(outside))


def predicted_ids(packed: str) -> list[str]:
    """Return the ids of the images alone; raises as `unpack`."""
    with _explained():
        return _content(packed)[1]


@contextmanager
def _explained() -> Iterator[None]:
    from alignkit.errors import DataError

    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, zlib.error,
            DataError) as error:  # fmt: skip
        raise BaselineError(
            f"the predictions of a baseline are damaged ({error}); restore it from version control"
        ) from error


def _content(packed: str) -> tuple[list[str], list[str], list[int], list[int], list[str]]:
    """Return classes, ids, labels, predicted outputs, names of outputs that are no class.

    Raises as its parts do.
    """
    # bounded, as a baseline may be a stranger's
    stream = zlib.decompressobj()
    text = stream.decompress(base64.b85decode(packed), _TEXT)
    if not stream.eof:
        raise ValueError("they are cut short, or too long")
    classes, ids, labels, predicted, *rest = json.loads(text)
    outside: list[str] = rest[0] if rest else []
    if not all(isinstance(name, str) for name in (*classes, *outside, *ids)):
        raise TypeError("its ids and classes are no text")
    if len(ids) * (len(classes) + len(outside)) > _LOGITS:
        raise ValueError(f"{len(ids)} images of {len(classes) + len(outside)} outputs are too many")
    return classes, ids, labels, predicted, outside


def drift_since(before: Sequence[str], after: Sequence[str]) -> Drift:
    """Compute the drift of packed predictions, a pair per seed; raise as `compare.drift` does."""
    from alignkit.compare import drift

    sides = [[unpack(each) for each in side] for side in (before, after)]
    # the distances of one-hot rows would be numbers of no meaning
    unknown = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason=_NO_LOGITS)
    return replace(drift(*sides), logits=unknown)
