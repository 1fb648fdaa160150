"""Batches of a `MixedLoader`: encoded images that go in, and tensors on their way to the device."""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from alignkit.errors import DataError, WorkerError
from alignkit.samples import Samples
from alignkit.torch_settings import require_device
from alignkit.train.training_images import tensor_normaliser

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Pixels
    from alignkit.preprocess import Preprocess

_WORKER_DIED = "DataLoader worker (pid"
"""Beginning of torch's ``RuntimeError`` for a worker that ended; it has no type of its own."""
_REPORT_SECONDS = 5.0
"""Longest wait for that error where the connection to the worker broke first."""


class Unread(str):
    """Reason why an image was not read, in place of its bytes; any ``collate_fn`` keeps text."""

    __slots__ = ()


class EncodedBatch(NamedTuple):
    """Batch of the wrapped loader."""

    images: Sequence[bytes | Unread]
    labels: Sequence[int]
    """Numbers, or values that ``int`` takes, such as the tensor that a ``DataLoader`` makes."""
    ids: Sequence[str] | None = None
    """Seeds of each image's draws; without ids, its number in the epoch is used."""


def checked(batch: Any, number: int) -> EncodedBatch:
    """Return a batch of encoded images, or raise `DataError`; ``number`` counts from 1."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise DataError(f"batch {number} is not (images, labels) or (images, labels, ids)")
    encoded = EncodedBatch(*batch)
    if len({len(each) for each in batch}) > 1:
        raise DataError(f"batch {number} has {' and '.join(str(len(each)) for each in batch)} of "
                        "images, labels and ids")  # fmt: skip
    for position, image in enumerate(encoded.images):
        if not isinstance(image, bytes | Unread):
            raise DataError(
                f"batch {number}, image {position + 1} is {type(image).__name__}, not the bytes "
                "of an encoded image: let the data set read files, not decode them"
            )
    return encoded


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """`Samples` as a map-style data set of (encoded bytes, label, id) for a ``DataLoader``.

    A file that can no longer be read is one failed image and does not end the loop.
    """

    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[bytes | Unread, int, str]:
        try:
            encoded: bytes | Unread = self.samples.read(index)
        except DataError as error:
            encoded = Unread(error)
        return encoded, self.samples.labels[index], self.samples.ids[index]


def collate_encoded(items: Sequence[tuple[Any, ...]]) -> EncodedBatch:
    """Collate (encoded bytes, label) or (…, label, id), as ``collate_fn`` of a ``DataLoader``."""
    return EncodedBatch(*(list(column) for column in zip(*items, strict=True)))


@dataclass(frozen=True, slots=True)
class Uploaded:
    """Tensors on their way to the device."""

    images: torch.Tensor
    labels: torch.Tensor
    ready: torch.cuda.Event | None

    def arrived(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images and labels; later work on the caller's stream waits for their arrival."""
        if self.ready is not None:
            stream = torch.cuda.current_stream(self.images.device)
            stream.wait_event(self.ready)
            for tensor in (self.images, self.labels):
                tensor.record_stream(stream)  # their memory was allocated on the loader's stream
        return self.images, self.labels


class ReusedMemory:
    """Memory of batches that the loop has dropped, for those to come.

    To page in fresh memory takes as long as to normalise the images that are written into it.
    """

    def __init__(self) -> None:
        self._free: list[Batch] = []

    def empty(self, shape: tuple[int, ...]) -> Batch:
        """Return an array of any content, whose memory returns when nothing refers to it."""
        with suppress(IndexError):  # none is free
            if (memory := self._free.pop()).shape == shape:
                return self._lent(memory)
        return self._lent(np.empty(shape, np.float32))

    def _lent(self, memory: Batch) -> Batch:
        lent = memory[:]  # a tensor made of it refers to this view, and so does all that shares it
        weakref.finalize(lent, self._free.append, memory).atexit = False
        return lent


class BatchMemory:
    """Memory of one batch, into which the threads normalise its images: none is copied again."""

    def __init__(self, count: int, reused: ReusedMemory) -> None:
        self._count, self._reused = count, reused
        self._lock = threading.Lock()
        self._images: Batch | None = None

    def slot(self, position: int, pixels: Pixels) -> Batch | None:
        """Return (3, h, w) for an image; ``None`` if its size is not that of the first one."""
        with self._lock:  # a transform decides the size, so that it is known only now
            if self._images is None:
                self._images = self._reused.empty((self._count, 3, *pixels.shape[:2]))
            images = self._images
        return images[position] if images.shape[2:] == pixels.shape[:2] else None

    def joined(self, images: Sequence[Batch]) -> Batch:
        """Return the batch of its images, with a copy only if some are missing."""
        if self._images is not None and len(images) == self._count:
            places = zip(images, self._images, strict=True)
            if all(image.ctypes.data == place.ctypes.data for image, place in places):
                return self._images
        return np.stack(images)


class Upload:
    """Normalisation and transfer: on a CPU by image, with tables; on a GPU by batch, of bytes."""

    def __init__(self, device: Literal["cpu", "cuda"], paths: Sequence[Preprocess]) -> None:
        self.device = require_device(device)
        self._paths = paths
        self._cuda = self.device.type == "cuda"
        self._stream = torch.cuda.Stream(self.device) if self._cuda else None  # type: ignore[no-untyped-call]
        self._normalise = [tensor_normaliser(each.normalise, self.device) for each in paths]

    def ready(
        self, pixels: Pixels, path: int, memory: BatchMemory, position: int
    ) -> npt.NDArray[Any]:
        """Convert one image for `send`; runs in the threads that prepare images."""
        if self._cuda:
            return np.ascontiguousarray(pixels)
        return self._paths[path].normalise(pixels, memory.slot(position, pixels))

    def send(
        self,
        images: Sequence[npt.NDArray[Any]],
        paths: Sequence[int],
        labels: Sequence[int],
        memory: BatchMemory,
    ) -> Uploaded:
        """Send (n, 3, h, w) float32, normalised, and (n,) int64, on the loader's own stream."""
        numbers = torch.tensor([int(label) for label in labels], dtype=torch.int64)
        if not images:
            height, width = self._paths[0].size
            blank = torch.zeros(0, 3, height, width, device=self.device)
            return Uploaded(blank, numbers.to(self.device), None)
        if not self._cuda:
            return Uploaded(torch.from_numpy(memory.joined(images)), numbers, None)
        with torch.cuda.stream(self._stream):
            batch = self._normalised(images, np.asarray(paths))
            target = self._moved(numbers)
            return Uploaded(batch, target, torch.cuda.current_stream(self.device).record_event())

    def _normalised(
        self, images: Sequence[npt.NDArray[Any]], paths: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Normalise each path's images together, then restore the order."""
        places = [np.flatnonzero(paths == path) for path in range(len(self._paths))]
        parts = [
            normalise(
                self._moved(torch.from_numpy(np.stack([images[each] for each in own.tolist()])))
                .permute(0, 3, 1, 2)
                .contiguous()
            )
            for own, normalise in zip(places, self._normalise, strict=True)
            if len(own)
        ]
        if len(parts) == 1:
            return parts[0]
        back = self._moved(torch.from_numpy(np.concatenate(places).argsort()))
        return torch.cat(parts)[back]

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory().to(self.device, non_blocking=True)


@contextmanager
def explained_deaths() -> Iterator[None]:
    """Turn the errors by which torch shows that a worker process ended into a `WorkerError`."""
    try:
        yield
    except (RuntimeError, EOFError, OSError) as error:
        death = _death(error)
        if not death:
            raise
        raise WorkerError(
            f"{death}. Most often memory ran out: give the DataLoader a smaller num_workers, "
            "prefetch_factor or batch_size, then begin this epoch again from your last "
            "checkpoint; set_epoch draws it as before"
        ) from error


def _death(error: Exception) -> str:
    """Return torch's words for the end of a worker; empty for every other error."""
    if isinstance(error, RuntimeError):
        words = str(error).partition("\n")[0].rstrip(". ")
        return words if words.startswith(_WORKER_DIED) else ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    # a data set's own EOFError or OSError comes from its code, not from a broken connection
    if not frame.f_globals.get("__name__", "").startswith("multiprocessing."):
        return ""
    # The connection breaks a moment before the kernel reports the death, which torch's handler of
    # that signal raises wherever the main thread is: wait for it here.
    try:
        time.sleep(_REPORT_SECONDS)
    except RuntimeError as reported:
        return _death(reported)
    return f"{_WORKER_DIED} unknown) ended before its batch was received"
