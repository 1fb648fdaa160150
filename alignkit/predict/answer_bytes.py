"""Answers to some images as bytes that travel and are stored, and are joined with those to others.

Rows of an array stay raw, as what a task makes of them may depend on the other images; all other
records are the task's own Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.samples import Samples
    from alignkit.tasks import Records, Task

    AnswersOf: TypeAlias = Callable[[Sequence[str], Records, Samples], Answers]
    """`AnswerDecoder.answers`, or `AnswerDecoder.unlabelled`."""

_ROWS = b"\x93NUMPY"


def packed(answers_of: AnswersOf, samples: Samples, records: Records) -> bytes:
    """Return the kept records of ``samples``, in their order, as bytes."""
    if isinstance(records, np.ndarray):
        out = io.BytesIO()
        np.save(out, records, allow_pickle=False)
        return out.getvalue()
    with TemporaryDirectory(prefix="alignkit-") as folder:
        file = Path(folder) / "answers.parquet"
        answers_of(samples.ids, records, samples).to_parquet(file)
        return file.read_bytes()


def joined(parts: Iterable[bytes]) -> bytes:
    """Join those of different images, of which there must be some, in the order given."""
    several = list(parts)
    if len(several) == 1:
        return several[0]
    out = io.BytesIO()
    if several[0].startswith(_ROWS):
        np.save(out, np.concatenate([_rows(each) for each in several]), allow_pickle=False)
        return out.getvalue()
    import pyarrow as pa
    from pyarrow import parquet

    tables = []
    for each in several:
        with parquet.ParquetFile(io.BytesIO(each)) as file:
            tables.append(file.read())
    parquet.write_table(pa.concat_tables(tables).combine_chunks(), out)
    return out.getvalue()


def unpacked(
    answers_of: AnswersOf, task: Task, ids: Sequence[str], samples: Samples, content: bytes
) -> Answers:
    """Return the answers that `packed` made to the images ``ids`` of ``samples``."""
    if content.startswith(_ROWS):
        return answers_of(ids, _rows(content), samples)
    with TemporaryDirectory(prefix="alignkit-") as folder:
        file = Path(folder) / "answers.parquet"
        file.write_bytes(content)
        return task.adopt(task.read(file))


def _rows(content: bytes) -> Any:
    return np.load(io.BytesIO(content), allow_pickle=False)
