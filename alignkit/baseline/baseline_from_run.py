"""A run's folder as a baseline, for `alignkit gate FILE --against RUN`; predictions as strings.

A string of classifiers holds ids, labels and predicted classes, about 5 bytes an image. It holds no
logits, so that churn, flips and every ratio can be paired with a later run, and distances of logits
cannot. A string of any other task is its name, a colon, and all columns of the answers' file.
"""

from __future__ import annotations

import base64
import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.baseline import Baseline, BaselineHead, MetricLine, differences, read_baseline
from alignkit.errors import BaselineError, ConfigError, DataError, RecordError
from alignkit.place import Place
from alignkit.record import Drift, LogitDistance, RunRecord
from alignkit.record.document import artifact_file, read_record
from alignkit.task_facts import CLASSIFICATION, TaskFacts
from alignkit.tasks import answers_of, stored_answers

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.compare.class_answers import ClassAnswers
    from alignkit.compare.predictions import Predictions

_NO_LOGITS = "a baseline keeps classes, not logits"
_TEXT = 1 << 28
"""Bytes that a packed string may unpack to: ids, labels and classes of millions of images."""
_NAMED = ":"
"""Between a task's name and its answers; base 85 has no such letter."""
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
    lines = {}
    for entry in record.matrix:
        if not entry.ran:
            continue
        packed = {
            str(cell.seed): pack(
                stored_answers(record, artifact_file(folder, cell.predictions)), record.task
            )
            for cell in record.cells
            if cell.predictions is not None and cell.place == entry.place
        }
        line = MetricLine(**entry.place.fields, metrics=entry.metrics, predictions=packed)
        lines[entry.place] = line
    return lines


def pack(answers: Any, task: TaskFacts = CLASSIFICATION) -> str:
    """Pack a task's answers with zlib and base 85.

    Of class scores, keep names, ids, labels and predicted classes (-1: none). Raise `BaselineError`
    for more than `unpack` reads.
    """
    if task.class_scores:
        return _packed_classes(answers)
    import pyarrow as pa
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.parquet"
        answers.to_parquet(file)
        table = parquet.read_table(file).combine_chunks()
    # Arrow's stream, whose bytes do not depend on the version of the library as Parquet's do
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    columns = content.getvalue()
    if columns.size > _TEXT:
        raise BaselineError(
            f"the answers to {len(answers)} images take {columns.size >> 20} MiB, and a baseline "
            f"keeps {_TEXT >> 20} MiB of a model and seed; evaluate it on fewer images"
        )
    return task.name + _NAMED + base64.b85encode(zlib.compress(columns)).decode()


def _packed_classes(predictions: ClassAnswers) -> str:
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


def unpack(packed: str) -> Answers:
    """Return the answers; those of classes have one-hot logits, NaN where nothing was predicted.

    Raises `BaselineError` for a string that `pack` did not make, or of a task that is not here.
    """
    name, named, columns = packed.rpartition(_NAMED)
    return _unpacked_answers(name, columns) if named else _unpacked_classes(packed)


def _unpacked_answers(name: str, columns: str) -> Answers:
    import pyarrow as pa
    from pyarrow import parquet

    with _explained(), tempfile.TemporaryDirectory() as folder:
        table = pa.ipc.open_stream(_decompressed(columns)).read_all()
        table.validate(full=True)
        file = Path(folder) / "answers.parquet"
        parquet.write_table(table, file)
        try:
            return answers_of(name, file)
        except ConfigError as error:
            raise BaselineError(f"the baseline's task cannot be read here: {error}") from error


def _unpacked_classes(packed: str) -> Predictions:
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
    if _NAMED in packed:
        return list(unpack(packed).ids)
    with _explained():
        return _content(packed)[1]


@contextmanager
def _explained() -> Iterator[None]:
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
    classes, ids, labels, predicted, *rest = json.loads(_decompressed(packed))
    outside: list[str] = rest[0] if rest else []
    if not all(isinstance(name, str) for name in (*classes, *outside, *ids)):
        raise TypeError("its ids and classes are no text")
    if len(ids) * (len(classes) + len(outside)) > _LOGITS:
        raise ValueError(f"{len(ids)} images of {len(classes) + len(outside)} outputs are too many")
    return classes, ids, labels, predicted, outside


def _decompressed(packed: str) -> bytes:
    # bounded, as a baseline may be a stranger's
    stream = zlib.decompressobj()
    content = stream.decompress(base64.b85decode(packed), _TEXT)
    if not stream.eof:
        raise ValueError("they are cut short, or too long")
    return content


def drift_since(
    before: Sequence[str], after: Sequence[str], copies: Mapping[str, str] | None = None
) -> Drift:
    """Compute the drift of packed predictions, a pair per seed; raise as `compare.drift` does.

    ``copies`` are those of the images, see `alignkit.samples.copies_among`.

    Raise `BaselineError` if they are answers of two tasks.
    """
    from alignkit.compare import drift
    from alignkit.compare.bootstrap import SharedDraws

    tasks = [{_task_of(each) for each in side} for side in (before, after)]
    if tasks[0] != tasks[1]:
        old, new = (", ".join(sorted(each)) for each in tasks)
        raise BaselineError(
            f"the baseline keeps answers of {old}, and the models now solve {new}; approve theirs: "
            "alignkit baseline approve FILE --models --reason …"
        )
    sides = [[unpack(each) for each in side] for side in (before, after)]
    draws = SharedDraws(copies=copies or {})
    if all(_NAMED in each for each in before):
        return drift(*sides, draws=draws)
    # the distances of one-hot rows would be numbers of no meaning
    unknown = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason=_NO_LOGITS)
    return replace(drift(*sides, draws=draws), logits=unknown)


def _task_of(packed: str) -> str:
    return packed.rpartition(_NAMED)[0] or CLASSIFICATION.name
