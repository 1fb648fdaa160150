"""Answers that are no classes along two paths and their mixtures: boxes, masks, labels, scores.

No labels are needed: the task says which answers changed, and measures by how much. A lot's answers
travel and are stored as the task's own Parquet files.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.compare import drift
from alignkit.compare.answers import Answers
from alignkit.compare.margins import MOST_MOVED
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.given_model import Opened
from alignkit.record import Stored
from alignkit.record.diff_document import PredictionDrift, StageFlips
from alignkit.record.numeric_facts import MovedImage
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import MixedPair, churn

if TYPE_CHECKING:
    from alignkit.tasks import Records, Task


@dataclass(slots=True, eq=False)
class AnswersTally:
    """Answers to images, in their order."""

    files: list[list[bytes]]
    """Of each mixture, Parquet files of some images each."""

    @classmethod
    def of(
        cls, samples: Samples, found: Sequence[Records], pair: MixedPair, opened: Opened
    ) -> AnswersTally:
        """Keep the records of some images, one list for each mixture."""
        assert len(found) == len(pair.wanted)
        return cls([[_written(opened.decoder, samples, records)] for records in found])

    @classmethod
    def joined(cls, tallies: Sequence[AnswersTally]) -> AnswersTally:
        """Join those of different images, in the order given."""
        own = zip(*(each.files for each in tallies), strict=True)
        return cls([[_in_one(file for files in each for file in files)] for each in own])

    def drift(
        self, pair: MixedPair, left_out: Mapping[str, Any], opened: Opened
    ) -> PredictionDrift:
        """Reduce them to the answers that change, the task's measures and the images moved most."""
        task = opened.decoder.task
        before, *others = (_read(task, _in_one(each)) for each in self.files)
        after = others[-1] if others else before
        judged, other = _judged(before, after)
        changed = judged.changed(other)
        return PredictionDrift(
            n=len(judged),
            non_finite=len(before) - len(judged),
            **left_out,
            flips=int(changed.sum()),
            churn=churn(changed),
            logits=type(judged).distance([(judged, other)]),
            margins=None,
            measures=drift([judged], [other]).measures if len(judged) else {},
            stages=tuple(
                _alone(factor, before, others[index - 1])
                for factor, index in zip(pair.factors_alone, pair.alone, strict=True)
            ),
            classes=(),
            moved=_moved(judged, other),
        )


class StoredFiles(Stored):
    """The stored form of an `AnswersTally`."""

    files: tuple[str, ...]
    """Of each mixture, Base64."""

    @classmethod
    def of(cls, tally: AnswersTally) -> StoredFiles:
        """Return the stored form."""
        files = (_in_one(each) for each in tally.files)
        return cls(files=tuple(base64.b64encode(each).decode() for each in files))

    def tally_again(self) -> AnswersTally:
        """Return the tally that was stored."""
        return AnswersTally([[base64.b64decode(each, validate=True)] for each in self.files])


def _written(decoder: AnswerDecoder, samples: Samples, records: Records) -> bytes:
    with TemporaryDirectory(prefix="alignkit-") as folder:
        file = Path(folder) / "answers.parquet"
        decoder.unlabelled(samples.ids, records, samples).to_parquet(file)
        return file.read_bytes()


def _in_one(files: Any) -> bytes:
    """Join the rows of Parquet files of one form."""
    import pyarrow as pa
    from pyarrow import parquet

    several = list(files)
    if len(several) == 1:
        return bytes(several[0])
    tables = []
    for each in several:
        with parquet.ParquetFile(io.BytesIO(each)) as file:
            tables.append(file.read())
    out = io.BytesIO()
    parquet.write_table(pa.concat_tables(tables).combine_chunks(), out)
    return out.getvalue()


def _read(task: Task, content: bytes) -> Answers:
    with TemporaryDirectory(prefix="alignkit-") as folder:
        file = Path(folder) / "answers.parquet"
        file.write_bytes(content)
        return task.adopt(task.read(file))


def _judged(before: Answers, after: Answers) -> tuple[Answers, Answers]:
    """Restrict both to the images whose outputs are finite on either side."""
    kept = np.flatnonzero(before.finite() & after.finite())
    return before.rows(kept), after.rows(kept)


def _alone(part: str, before: Answers, after: Answers) -> StageFlips:
    judged, other = _judged(before, after)
    changed = judged.changed(other)
    return StageFlips(factor=part, flips=int(changed.sum()), churn=churn(changed), mean_abs=None)


def _moved(before: Answers, after: Answers) -> tuple[MovedImage, ...]:
    """Name the images that changed, then those that moved most, and what both sides said."""
    changed, apart = before.changed(after), before.apart(after)
    apart = np.nan_to_num(apart, nan=np.inf)
    order = np.lexsort((-apart, ~changed))
    return tuple(
        MovedImage(before.ids[at], before.said(at), after.said(at), None, None, None)
        for at in order[:MOST_MOVED].tolist()
        if changed[at] or apart[at] > 0
    )
