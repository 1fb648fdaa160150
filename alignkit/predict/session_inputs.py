"""Inputs of sessions: the same bytes for the same images in every runtime, with their hash.

The hash is XXH3 of 128 bits (https://xxhash.com), eight times as fast as SHA-256. It shows that
runtimes received equal tensors; nobody has a reason to forge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import xxhash

from alignkit.backends import EncodedFiles
from alignkit.errors import BackendError, DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Session
    from alignkit.prepare import Prepared
    from alignkit.preprocess import Normalise

FILES = "files:"
"""Prefix of the digest of encoded images."""


class Inputs(Protocol):
    """Images that are made batch by batch, so that memory does not grow with their number."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int, *, count: bool) -> Batch | EncodedFiles:
        """Return a session's input for some images; ``count`` adds them to the digest."""
        ...

    def digest(self) -> str:
        """Return the hash of all counted images, in order; the batch size does not change it."""
        ...


@dataclass(slots=True, eq=False)
class Tensors:
    """Normalised images, as every backend receives them."""

    prepared: Prepared
    indices: npt.NDArray[np.int64]
    normalise: Normalise
    shape: tuple[int, int, int]
    """Input shape of the model: (3, height, width)."""
    _counted: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def __len__(self) -> int:
        return len(self.indices)

    def part(self, start: int, stop: int, *, count: bool) -> Batch:
        """Make a batch; raise `DataError` if the images are not of the model's size."""
        import numpy as np

        batch: Batch = self.prepared.batch(self.indices[start:stop], self.normalise)
        if batch.shape[1:] != self.shape:
            raise DataError(
                f"the path gives inputs of {batch.shape[1:]}, the model takes {self.shape}"
            )
        # its bytes are hashed as they lie, and runtimes read them so
        batch = np.ascontiguousarray(batch)
        if count:
            self._counted.update(batch.data)
        return batch

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

    def digest(self) -> str:
        """Return ``files:`` and XXH3-128 hex."""
        return FILES + self._counted.hexdigest()


def logits_of(session: Session, inputs: Inputs, classes: int, batch_size: int) -> Logits:
    """Predict batch by batch; return (images, classes) float32."""
    import numpy as np

    # one array from the start: joining batches would need the memory twice
    logits = np.empty((len(inputs), classes), np.float32)
    start = 0
    for batch in _made_ahead(inputs, batch_size):
        stop = start + len(batch)
        logits[start:stop] = _predicted(session, batch, classes)
        start = stop
    return logits


def _made_ahead(inputs: Inputs, size: int) -> Iterator[Batch | EncodedFiles]:
    """Make each batch in a thread while the caller uses the one before, and count it.

    Reading, normalising and hashing hold Python's lock for moments only.
    """
    with ThreadPoolExecutor(1, "alignkit-batch") as thread:
        upcoming = None
        for start in range(0, len(inputs), size):
            stop = min(start + size, len(inputs))
            ready, upcoming = upcoming, thread.submit(inputs.part, start, stop, count=True)
            if ready is not None:
                yield ready.result()
        if upcoming is not None:
            yield upcoming.result()


def batch_logits(
    session: Session, inputs: Inputs, start: int, stop: int, classes: int, *, count: bool = False
) -> Logits:
    """Make one batch and predict it; raise `BackendError` as `logits_of` does."""
    return _predicted(session, inputs.part(start, stop, count=count), classes)


def _predicted(session: Session, batch: Batch | EncodedFiles, classes: int) -> Logits:
    """Predict; raise `BackendError` if the logits are not float32 (images, classes)."""
    logits = session.predict(batch)
    # numpy would broadcast a wrong shape into the array without a word
    if logits.shape != (len(batch), classes) or str(logits.dtype) != "float32":
        raise BackendError(
            f"it gives {logits.dtype} {logits.shape} for {len(batch)} images of {classes} "
            f"classes, not float32 {(len(batch), classes)}; export the model with one row of "
            "float32 logits an image"
        )
    return logits
