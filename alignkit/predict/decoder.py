"""`AnswerDecoder`: a session's outputs of a batch → a record of each image → a cell's answers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError
from alignkit.tasks import ClassMap

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import Outputs, Records, Task

_ROWS = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class AnswerDecoder:
    """A task, and the classes of the data among those of a model."""

    task: Task
    classes: ClassMap

    @classmethod
    def of(cls, task: Task, checkpoint: Checkpoint, classes: Sequence[str]) -> AnswerDecoder:
        """Return the decoder of a model for data of these classes, none without labels."""
        own = ClassMap(tuple(classes), checkpoint.outside, checkpoint.order, checkpoint.scale)
        return cls(task, own)

    def records(self, outputs: Outputs, places: Sequence[Geometry]) -> Records:
        """Decode a batch of images; raise `BackendError` for outputs that are not theirs."""
        count = len(places)
        for each in outputs:
            if each.dtype.name != "float32" or each.shape[:1] != (count,):
                raise BackendError(
                    f"it gives {each.dtype} {each.shape} for {count} images, not float32 "
                    f"{(count, *each.shape[1:])}; export the model with float32 outputs, a row "
                    "for each image"
                )
        found = self.task.decode(outputs, places, self.classes)
        # a task of another package may keep less of its contract
        if len(found) != count:
            raise BackendError(f"the task decoded {len(found)} of {count} images")
        return found

    def kept(self, records: Records, samples: Samples) -> Records:
        """Return what is kept of a batch's records; ``samples`` are its images."""
        found = self.task.keep(records, samples)
        if len(found) != len(samples):
            raise BackendError(f"the task keeps {len(found)} records of {len(samples)} images")
        return found

    def answers(self, ids: Sequence[str], records: Records, samples: Samples) -> Answers:
        """Join the records of images, by id, with what ``samples`` know about them."""
        return self.task.answers(ids, records, samples, self.classes)

    def unlabelled(self, ids: Sequence[str], records: Records, samples: Samples) -> Answers:
        """Join the records of images whose answers are compared among themselves alone.

        Labels are left out, unless the task is one whose metrics need none: a function of the
        user's own may read them.
        """
        if self.task.facts().needs_labels:
            samples = replace(samples, labels=(), classes=(), annotations=())
        return self.answers(ids, records, samples)

    def packed(self, samples: Samples, records: Records) -> bytes:
        """Return the kept records of ``samples``, in their order, as bytes that are joined later.

        Rows of an array stay raw, as what a task makes of them may depend on the other images; all
        other records are the task's own Parquet file.
        """
        import numpy as np

        if isinstance(records, np.ndarray):
            out = io.BytesIO()
            np.save(out, records, allow_pickle=False)
            return out.getvalue()
        with TemporaryDirectory(prefix="alignkit-") as folder:
            file = Path(folder) / "answers.parquet"
            self.unlabelled(samples.ids, records, samples).to_parquet(file)
            return file.read_bytes()

    def unpacked(self, ids: Sequence[str], samples: Samples, content: bytes) -> Answers:
        """Return the answers that `packed` made to the images ``ids`` of ``samples``."""
        if content.startswith(_ROWS):
            return self.unlabelled(ids, _rows(content), samples)
        with TemporaryDirectory(prefix="alignkit-") as folder:
            file = Path(folder) / "answers.parquet"
            file.write_bytes(content)
            return self.task.adopt(self.task.read(file))


def joined(parts: Sequence[bytes]) -> bytes:
    """Join the bytes of `AnswerDecoder.packed` of different images, in the order given."""
    if len(parts) == 1:
        return parts[0]
    out = io.BytesIO()
    if parts[0].startswith(_ROWS):
        import numpy as np

        np.save(out, np.concatenate([_rows(each) for each in parts]), allow_pickle=False)
        return out.getvalue()
    import pyarrow as pa
    from pyarrow import parquet

    tables = []
    for each in parts:
        with parquet.ParquetFile(io.BytesIO(each)) as file:
            tables.append(file.read())
    parquet.write_table(pa.concat_tables(tables).combine_chunks(), out)
    return out.getvalue()


def _rows(content: bytes) -> Any:
    import numpy as np

    return np.load(io.BytesIO(content), allow_pickle=False)


class KeptRecords:
    """The records of a cell's images, in order, as a task keeps them; rows lie in one array."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: Any = None

    def put(self, start: int, found: Records) -> None:
        """Keep the records of a batch whose first image has this index.

        Raise `BackendError` for records that are unlike those before, or of no image.
        """
        import numpy as np

        if self._kept is None:
            # one array from the start: joining rows would need the memory twice
            if isinstance(found, np.ndarray):
                self._kept = np.empty((self._count, *found.shape[1:]), found.dtype)
            else:
                self._kept = [None] * self._count
        if start < 0 or start + len(found) > self._count:
            last = start + len(found) - 1
            raise BackendError(f"records of the images {start} to {last} of {self._count}")
        # numpy would repeat a row of one value, and round values to another type
        if (before := _kind(self._kept)) != (now := _kind(found)):
            raise BackendError(f"records of images are {before}, and from image {start} on {now}")
        self._kept[start : start + len(found)] = found

    @property
    def all(self) -> Records:
        """The records of all images; an array if each of them is a row of one."""
        kept: Records = [] if self._kept is None else self._kept
        return kept


def _kind(records: Any) -> str:
    """Describe the record of an image, of its type alone unless it is a row of an array."""
    import numpy as np

    if not isinstance(records, np.ndarray):
        return "values of a list"
    return f"rows of {records.dtype} {records.shape[1:]}"
