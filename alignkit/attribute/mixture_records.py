"""Records of mixtures: each distinct tensor is predicted once; one with stored outputs is not.

The pure reference and the pure candidate are cells that a run has predicted already. If their
answers keep the model's raw outputs, the other mixtures are predicted in batches of the same size
as those of the cells, and in every batch some images whose outputs are stored are predicted again:
an eighth of it, and in a runtime whose bits depend on the size of a batch as many as fill the last
one. If a bit of these differs, the composition of a batch decides bits in this runtime: then
nothing more is reused, and each mixture is predicted in full, as for answers without raw outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.preprocess.stage_mixtures import FromCandidate, MixedImage

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers
    from alignkit.predict.decoder import AnswerDecoder
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import Outputs, Record, Records

_CHECKED = 8
"""Most images of a batch whose stored outputs verify that its composition changes no bit."""

_Row: TypeAlias = "npt.NDArray[np.float32]"


class _Input(NamedTuple):
    """A tensor with its place in the image."""

    tensor: Batch
    place: Geometry


def checked_in(size: int) -> int:
    """Return the number of a batch's images that verify the others: an eighth, at most 8.

    A batch of one image has none.
    """
    return min(_CHECKED, -(-size // 8), size - 1)


@dataclass(frozen=True, slots=True, eq=False)
class TaskSession:
    """One model in one runtime, whose outputs are decoded for its task."""

    session: Session
    decoder: AnswerDecoder

    def effective(self) -> Mapping[str, str]:
        """Return the session's report of what ran."""
        return self.session.effective()

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32."""
        return self.session.predict(batch)


@dataclass(slots=True, eq=False)
class CellSession:
    """One model in one runtime: the answers of its cells, and a session for everything else.

    The session is opened when it first predicts.
    """

    open: Callable[[], Session]
    decoder: AnswerDecoder
    facts: Mapping[str, str]
    """The session's report of what ran."""
    reference: Answers
    candidate: Answers | None
    """``None`` if that cell was not measured, or the mixtures are of another candidate."""
    batch_size: int
    """Images of a batch of the cells."""
    any_size: bool = False
    """Whether images alone were seen to give the same bits as in batches."""
    exact: bool = True
    """Whether the composition of a batch has changed no bit so far."""
    predicted: int = 0
    """Images that were predicted."""
    checks: list[tuple[_Input, _Row]] = field(default_factory=list)
    """A few tensors whose outputs are stored, for groups of images that have none."""
    _session: Session | None = None
    _rows: list[dict[str, int]] = field(default_factory=list)

    def effective(self) -> Mapping[str, str]:
        """Return the stored report of what ran; opens nothing."""
        return self.facts

    def without_candidate(self) -> CellSession:
        """Return it for mixtures with another candidate; both open the same session."""
        return replace(
            self,
            open=self._opened,
            candidate=None,
            batch_size=self.size,
            predicted=0,
            checks=[],
            _session=None,
            _rows=[],
        )

    @property
    def reuses(self) -> bool:
        """Whether stored outputs replace predictions."""
        return self.exact and self.reference.raw_rows() is not None

    @property
    def size(self) -> int:
        """Images of a full batch of the reference's cell."""
        return min(self.batch_size, len(self.reference))

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32."""
        self.predicted += len(batch)
        return self._opened().predict(batch)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self.open()
        return self._session

    def stored(self, sample: str) -> tuple[_Row | None, _Row | None]:
        """Return a sample's outputs (…) of both cells, those from a batch of full size."""
        if not self._rows:
            self._rows = [self._full(each) for each in (self.reference, self.candidate)]
        before, after = (
            _row(cell, rows.get(sample))
            for cell, rows in zip((self.reference, self.candidate), self._rows, strict=True)
        )
        return before, after

    def _full(self, cell: Answers | None) -> dict[str, int]:
        """Map each id to its row; not those of a smaller last batch if its size may change bits."""
        if cell is None:
            return {}
        full = len(cell) if self.any_size else len(cell) // self.size * self.size
        return {sample: row for row, sample in enumerate(cell.ids[:full])}


def _row(cell: Answers | None, index: int | None) -> _Row | None:
    rows = None if cell is None or index is None else cell.raw_rows()
    return None if rows is None else rows[index]


ModelSession: TypeAlias = TaskSession | CellSession


def mixture_records(
    session: ModelSession,
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
) -> list[Sequence[Record]]:
    """Predict images in each wanted mixture: a kept record of each, in the order of ``wanted``.

    ``images`` are those of ``samples``, in their order.
    A session alone predicts each mixture in one batch of the images that are of one size.
    """
    sizes = {each.shape for image in images for each in image.tensors.values()}
    if isinstance(session, CellSession) and session.reuses and len(sizes) == 1:
        found = _reused(session, samples.ids, images, wanted)
        if found is not None:
            return found
        session.exact = False
    return _in_full(session, samples, images, wanted)


def _in_full(
    session: ModelSession,
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
) -> list[Sequence[Record]]:
    """Predict a batch for each mixture; batches of the same arrays and places only once."""
    known: dict[tuple[tuple[int, ...], tuple[Geometry, ...]], Records] = {}
    found = []
    for taken in wanted:
        records: Any = [None] * len(images)
        for group in _of_one_size([image.tensors[taken] for image in images]):
            arrays = [images[index].tensors[taken] for index in group]
            places = tuple(images[index].places[taken] for index in group)
            same = tuple(id(array) for array in arrays), places
            if same not in known:
                decoded = session.decoder.records(session.predict(np.stack(arrays)), places)
                known[same] = session.decoder.kept(decoded, samples.take(group))
            for index, record in zip(group, known[same], strict=True):
                records[index] = record
        found.append(records)
    return found


def _of_one_size(arrays: Sequence[Batch]) -> list[list[int]]:
    """Group the indices of tensors by their shape: a batch holds one."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, each in enumerate(arrays):
        groups.setdefault(each.shape, []).append(index)
    return list(groups.values())


def _reused(
    session: CellSession,
    ids: Sequence[str],
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
) -> list[Sequence[Record]] | None:
    """Predict the arrays without stored outputs; ``None`` if a bit of the stored ones differs."""
    whole = max(images[0].tensors, key=len)
    stored: dict[int, tuple[_Input, _Row]] = {}
    for sample, image in zip(ids, images, strict=True):
        before, after = session.stored(sample)
        # the reference last: it decides where the pixels of both are equal
        for taken, row in ((whole, after), (frozenset[str](), before)):
            if row is not None:
                stored[id(image.tensors[taken])] = _input(image, taken), row
    new = {
        id(each.tensor): each
        for image in images
        for each in (_input(image, taken) for taken in wanted)
        if id(each.tensor) not in stored
    }
    checks = list(stored.values())
    session.checks += checks[: _CHECKED - len(session.checks)]
    predicted = _predicted(session, list(new.values()), checks or session.checks)
    if predicted is None:
        return None
    known = {key: row for key, (_, row) in stored.items()}
    known |= dict(zip(new, predicted, strict=True))
    return [[known[id(image.tensors[taken])] for image in images] for taken in wanted]


def _input(image: MixedImage, taken: FromCandidate) -> _Input:
    return _Input(image.tensors[taken], image.places[taken])


def _predicted(
    session: CellSession, new: Sequence[_Input], stored: Sequence[tuple[_Input, _Row]]
) -> list[_Row] | None:
    """Predict tensors in batches that stored ones fill up; ``None`` if one of these differs."""
    size = session.size
    checked = checked_in(size)
    if not stored and new and size > 1:  # no stored outputs can verify the batch
        return None
    fill = cycle(stored)
    found: list[_Row] = []
    for start in range(0, len(new), size - checked):
        part = new[start : start + size - checked]
        more = checked if session.any_size else size - len(part)
        again = list(islice(fill, more)) if size > 1 else []
        batch = [*part, *(each for each, _ in again)]
        outputs = session.predict(np.stack([each.tensor for each in batch]))
        rows = session.decoder.records(outputs, [each.place for each in batch])
        expected = [known for _, known in again]
        if expected and not np.array_equal(rows[len(part) :], expected, equal_nan=True):
            return None
        found += list(rows[: len(part)])
    return found
