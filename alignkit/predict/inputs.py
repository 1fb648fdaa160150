"""What sessions are handed: the same bytes for the same images, whatever the runtime; hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

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
"""What the digest of encoded images begins with."""


class Inputs(Protocol):
    """Some images, made batch by batch as a session asks: memory does not grow with them."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int, *, count: bool) -> Batch | EncodedFiles:
        """Return what a session is handed of some images; ``count`` adds them to the digest."""
        ...

    def digest(self) -> str:
        """Of everything counted, in order; independent of the size of batches."""
        ...


@dataclass(slots=True, eq=False)
class Tensors:
    """Normalised images, as every backend receives them."""

    prepared: Prepared
    indices: npt.NDArray[np.int64]
    normalise: Normalise
    shape: tuple[int, int, int]
    """What the model takes."""
    _counted: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __len__(self) -> int:
        return len(self.indices)

    def part(self, start: int, stop: int, *, count: bool) -> Batch:
        """Raise `DataError` if the images are not of the model's size."""
        import numpy as np

        batch: Batch = self.prepared.batch(self.indices[start:stop], self.normalise)
        if batch.shape[1:] != self.shape:
            raise DataError(
                f"the path gives inputs of {batch.shape[1:]}, the model takes {self.shape}"
            )
        batch = np.ascontiguousarray(batch)
        if count:
            self._counted.update(batch.data)
        return batch

    def digest(self) -> str:
        """SHA-256 hex."""
        return self._counted.hexdigest()


@dataclass(slots=True, eq=False)
class Files:
    """Encoded images, for a runtime that preprocesses by itself."""

    read: Callable[[int], bytes]
    indices: npt.NDArray[np.int64]
    normalise: Normalise
    _counted: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __len__(self) -> int:
        return len(self.indices)

    def part(self, start: int, stop: int, *, count: bool) -> EncodedFiles:
        """Read the files, as they are."""
        files = [self.read(index) for index in self.indices[start:stop].tolist()]
        if count:
            for each in files:
                self._counted.update(each)
        return EncodedFiles(files, self.normalise)

    def digest(self) -> str:
        """``files:`` and SHA-256 hex."""
        return FILES + self._counted.hexdigest()


def logits_of(
    session: Session,
    inputs: Inputs,
    classes: int,
    batch_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> Logits:
    """(images, classes) float32, batch by batch."""
    import numpy as np

    logits = np.empty((len(inputs), classes), np.float32)
    for start in range(0, len(inputs), batch_size):
        stop = min(start + batch_size, len(inputs))
        logits[start:stop] = asked(session, inputs, start, stop, classes, count=True)
        if progress:
            progress(stop, len(inputs))
    return logits


def asked(
    session: Session,
    inputs: Inputs,
    start: int,
    stop: int,
    classes: int,
    *,
    count: bool = False,
) -> Logits:
    """One batch's logits; raises `BackendError` if they are not float32 (images, classes)."""
    given = session.predict(inputs.part(start, stop, count=count))
    if given.shape != (stop - start, classes) or str(given.dtype) != "float32":
        raise BackendError(
            f"the backend returned {given.dtype} {given.shape} for {stop - start} images of "
            f"{classes} classes, not float32 logits"
        )
    return given
