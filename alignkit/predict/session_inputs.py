"""Inputs of sessions: the same bytes for the same images in every runtime, with their hash.

The hash is XXH3 of 128 bits (https://xxhash.com), eight times as fast as SHA-256. It shows that
runtimes received equal tensors; nobody has a reason to forge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import xxhash

from alignkit.backends import EncodedFiles
from alignkit.errors import DataError
from alignkit.predict.decoder import AnswerDecoder, KeptRecords
from alignkit.predict.places import PathPlaces, UnknownPlaces

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.backends import Session
    from alignkit.prepare import Prepared
    from alignkit.preprocess import Preprocess
    from alignkit.preprocess.geometry import Geometry
    from alignkit.preprocess.normalise import Normalise
    from alignkit.samples import Samples
    from alignkit.tasks import Outputs, Records

KEPT = 16
"""Images of a cell whose outputs are kept, to compare with those of other batches."""
FILES = "files:"
"""Prefix of the digest of encoded images."""


class Inputs(Protocol):
    """Images that are made batch by batch, so that memory does not grow with their number."""

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """The images' indices among the samples, (images,)."""
        ...

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int, *, count: bool) -> Batch | EncodedFiles:
        """Return a session's input for some images; ``count`` adds them to the digest."""
        ...

    def places(self, start: int, stop: int) -> Sequence[Geometry]:
        """Return where the pixels of some images lie in the model's input."""
        ...

    def spans(self, size: int) -> list[tuple[int, int]]:
        """Cut the images into batches (start, stop) of one size of input, ``size`` at most."""
        ...

    def digest(self) -> str:
        """Return the hash of all counted images, in order; the batch size does not change it."""
        ...


@dataclass(slots=True, eq=False)
class Tensors:
    """Normalised images, as every backend receives them."""

    prepared: Prepared
    indices: npt.NDArray[np.int64]
    preprocess: Preprocess
    shape: tuple[int, int, int]
    """Input shape of the model: (3, height, width), the greatest where the path's size varies."""
    _counted: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def __len__(self) -> int:
        return len(self.indices)

    def part(self, start: int, stop: int, *, count: bool) -> Batch:
        """Make a batch; raise `DataError` if the images are not of the model's size."""
        import numpy as np

        normalise = self.preprocess.normalise
        batch: Batch = self.prepared.batch(self.indices[start:stop], normalise)
        if batch.shape[1:] != self.shape and self.prepared.sizes is None:
            raise DataError(
                f"the path gives inputs of {batch.shape[1:]}, the model takes {self.shape}"
            )
        # its bytes are hashed as they lie, and runtimes read them so
        batch = np.ascontiguousarray(batch)
        if count:
            self._counted.update(batch.data)
        return batch

    def places(self, start: int, stop: int) -> Sequence[Geometry]:
        return PathPlaces(self.prepared, self.preprocess, self.indices[start:stop])

    def spans(self, size: int) -> list[tuple[int, int]]:
        return self.prepared.spans(self.indices, size)

    def digest(self) -> str:
        """Return XXH3-128 hex."""
        return self._counted.hexdigest()


@dataclass(slots=True, eq=False)
class FileInputs:
    """Encoded images, for a runtime that does its own preprocessing."""

    read: Callable[[int], bytes]
    indices: npt.NDArray[np.int64]
    normalise: Normalise
    _counted: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def __len__(self) -> int:
        return len(self.indices)

    def part(self, start: int, stop: int, *, count: bool) -> EncodedFiles:
        """Read the files unchanged."""
        files = [self.read(index) for index in self.indices[start:stop].tolist()]
        if count:
            for each in files:
                self._counted.update(each)
        return EncodedFiles(files, self.normalise)

    def places(self, start: int, stop: int) -> Sequence[Geometry]:
        return UnknownPlaces(stop - start)

    def spans(self, size: int) -> list[tuple[int, int]]:
        count = len(self)
        return [(start, min(start + size, count)) for start in range(0, count, size)]

    def digest(self) -> str:
        """Return ``files:`` and XXH3-128 hex."""
        return FILES + self._counted.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """The records of a cell's images, and what the session gave for the first of them."""

    records: Records
    first: Outputs
    """The outputs of the first images, up to `KEPT`."""


def records_of(
    session: Session, inputs: Inputs, decoder: AnswerDecoder, samples: Samples, batch_size: int
) -> Raw:
    """Predict, decode and keep batch by batch; raise as `AnswerDecoder` does."""
    records, start, first = KeptRecords(len(inputs)), 0, None
    for batch in _made_ahead(inputs, batch_size):
        outputs = session.predict(batch)
        first = first_of(outputs) if first is None else first
        stop = start + len(batch)
        decoded = decoder.records(outputs, inputs.places(start, stop))
        records.put(start, decoder.kept(decoded, samples.take(inputs.indices[start:stop].tolist())))
        start = stop
    return Raw(records.all, first or ())


def first_of(outputs: Outputs) -> Outputs:
    """Copy the outputs of the first images of a batch."""
    # a view would hold the whole batch
    return tuple(each[:KEPT].copy() for each in outputs)


def _made_ahead(inputs: Inputs, size: int) -> Iterator[Batch | EncodedFiles]:
    """Make each batch in a thread while the caller uses the one before, and count it.

    Reading, normalising and hashing hold Python's lock for moments only.
    """
    with ThreadPoolExecutor(1, "alignkit-batch") as thread:
        upcoming = None
        for start, stop in inputs.spans(size):
            ready, upcoming = upcoming, thread.submit(inputs.part, start, stop, count=True)
            if ready is not None:
                yield ready.result()
        if upcoming is not None:
            yield upcoming.result()


def batch_outputs(
    session: Session, inputs: Inputs, start: int, stop: int, *, count: bool = False
) -> Outputs:
    """Make one batch and predict it."""
    return session.predict(inputs.part(start, stop, count=count))
