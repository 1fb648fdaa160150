"""Logits of mixtures: each distinct tensor is predicted once; one with stored logits is not.

The pure reference and the pure candidate are cells that a run has predicted already. The other
mixtures are predicted in batches of the same size as those of the cells, and in every batch some
images whose logits are stored are predicted again: an eighth of it, and in a runtime whose bits
depend on the size of a batch as many as fill the last one. If a bit of these differs, the
composition of a batch decides bits in this runtime: then nothing more is reused, and each mixture
is predicted in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alignkit.arrays import Batch, Logits
from alignkit.preprocess.stage_mixtures import FromCandidate

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.compare.predictions import Predictions

_CHECKED = 8
"""Most images of a batch whose stored logits verify that its composition changes no bit."""

MixedTensors: TypeAlias = Mapping[FromCandidate, Batch]
"""One image's tensor of each mixture; mixtures of equal pixels share one array."""


def checked_in(size: int) -> int:
    """Return the number of a batch's images that verify the others: an eighth, at most 8.

    A batch of one image has none.
    """
    return min(_CHECKED, -(-size // 8), size - 1)


@dataclass(slots=True, eq=False)
class CellSession:
    """One model in one runtime: the answers of its cells, and a session for everything else.

    The session is opened when it first predicts.
    """

    open: Callable[[], Session]
    facts: Mapping[str, str]
    """The session's report of what ran."""
    reference: Predictions
    candidate: Predictions | None
    """``None`` if that cell was not measured, or the mixtures are of another candidate."""
    batch_size: int
    """Images of a batch of the cells."""
    any_size: bool = False
    """Whether images alone were seen to give the same bits as in batches."""
    exact: bool = True
    """Whether the composition of a batch has changed no bit so far."""
    predicted: int = 0
    """Images that were predicted."""
    checks: list[tuple[Batch, Logits]] = field(default_factory=list)
    """A few tensors whose logits are stored, for groups of images that have none."""
    _session: Session | None = None
    _rows: list[dict[str, int]] = field(default_factory=list)

    def effective(self) -> Mapping[str, str]:
        """Return the stored report of what ran; opens nothing."""
        return self.facts

    def without_candidate(self) -> CellSession:
        """Return it for mixtures with another candidate; both open the same session."""
        facts, size, same = self.facts, self.size, self.any_size
        return CellSession(self._opened, facts, self.reference, None, size, same, self.exact)

    @property
    def size(self) -> int:
        """Images of a full batch of the reference's cell."""
        return min(self.batch_size, len(self.reference))

    def predict(self, batch: Batch) -> Logits:
        """Return (samples, classes) float32 for (samples, 3, height, width) float32."""
        self.predicted += len(batch)
        return self._opened().predict(batch)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self.open()
        return self._session

    def stored(self, sample: str) -> tuple[Logits | None, Logits | None]:
        """Return a sample's logits (classes,) of both cells, those from a batch of full size."""
        if not self._rows:
            self._rows = [self._full(each) for each in (self.reference, self.candidate)]
        first, second = (rows.get(sample) for rows in self._rows)
        after = None if self.candidate is None or second is None else self.candidate.logits[second]
        return (None if first is None else self.reference.logits[first]), after

    def _full(self, cell: Predictions | None) -> dict[str, int]:
        """Map each id to its row; not those of a smaller last batch if its size may change bits."""
        if cell is None:
            return {}
        full = len(cell) if self.any_size else len(cell) // self.size * self.size
        return {sample: row for row, sample in enumerate(cell.ids[:full])}


def mixture_logits(
    session: Session | CellSession,
    ids: Sequence[str],
    images: Sequence[MixedTensors],
    wanted: Sequence[FromCandidate],
) -> list[Logits]:
    """Predict images in each wanted mixture: (images, classes), in the order of ``wanted``.

    A session alone predicts each mixture in one batch of these images.
    """
    if isinstance(session, CellSession) and session.exact:
        found = _reused(session, ids, images, wanted)
        if found is not None:
            return found
        session.exact = False
    return _in_full(session, images, wanted)


def _in_full(
    session: Session | CellSession, images: Sequence[MixedTensors], wanted: Sequence[FromCandidate]
) -> list[Logits]:
    """Predict a batch for each mixture; batches of the same arrays only once."""
    known: dict[tuple[int, ...], Logits] = {}
    found = []
    for taken in wanted:
        arrays = [image[taken] for image in images]
        same = tuple(id(array) for array in arrays)
        if same not in known:
            known[same] = session.predict(np.stack(arrays))
        found.append(known[same])
    return found


def _reused(
    session: CellSession,
    ids: Sequence[str],
    images: Sequence[MixedTensors],
    wanted: Sequence[FromCandidate],
) -> list[Logits] | None:
    """Predict the arrays without stored logits; ``None`` if a bit of the stored ones differs."""
    whole = max(images[0], key=len)
    stored: dict[int, tuple[Batch, Logits]] = {}
    for sample, image in zip(ids, images, strict=True):
        before, after = session.stored(sample)
        # the reference last: it decides where the pixels of both are equal
        for taken, logits in ((whole, after), (frozenset[str](), before)):
            if logits is not None:
                stored[id(image[taken])] = image[taken], logits
    new = {
        id(array): array
        for image in images
        for array in (image[taken] for taken in wanted)
        if id(array) not in stored
    }
    checks = list(stored.values())
    session.checks += checks[: _CHECKED - len(session.checks)]
    predicted = _predicted(session, list(new.values()), checks or session.checks)
    if predicted is None:
        return None
    known = {key: logits for key, (_, logits) in stored.items()}
    known |= dict(zip(new, predicted, strict=True))
    return [np.stack([known[id(image[taken])] for image in images]) for taken in wanted]


def _predicted(
    session: CellSession, new: Sequence[Batch], stored: Sequence[tuple[Batch, Logits]]
) -> list[Logits] | None:
    """Predict arrays in batches that stored ones fill up; ``None`` if one of these differs."""
    size = session.size
    checked = checked_in(size)
    if not stored and new and size > 1:  # no stored logits can verify the batch
        return None
    fill = cycle(stored)
    found: list[Logits] = []
    for start in range(0, len(new), size - checked):
        part = new[start : start + size - checked]
        more = checked if session.any_size else size - len(part)
        again = list(islice(fill, more)) if size > 1 else []
        logits = session.predict(np.stack([*part, *(array for array, _ in again)]))
        expected = [known for _, known in again]
        if expected and not np.array_equal(logits[len(part) :], expected, equal_nan=True):
            return None
        found += list(logits[: len(part)])
    return found
