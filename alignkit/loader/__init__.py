"""`MixedLoader`: batches for your own training loop, each image prepared by one of two paths.

It wraps any iterable of batches of encoded images, a `torch.utils.data.DataLoader` or a list. The
path of an image follows from (seed, epoch, image) alone, never from threads, workers or ranks;
batches come in the order of the wrapped loader, a bounded number ahead. An image that cannot be
read or decoded is left out of its batch, logged, and named in ``MixedBatch.failed``; the batch is
kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch

from alignkit.errors import ConfigError
from alignkit.experiment.yaml_argument import Stack, named_paths
from alignkit.loader.loader_batch import (
    BatchMemory,
    EncodedBatch,
    EncodedImages,
    ReusedMemory,
    Unread,
    Upload,
    Uploaded,
    checked,
    collate_encoded,
    explained_deaths,
)
from alignkit.loader.loader_transform import Transform, seeded, try_transform
from alignkit.prepare import prepare_one
from alignkit.torch_settings import usable_cpus
from alignkit.train.training_draws import words

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.arrays import Pixels
    from alignkit.preprocess import Preprocess

__all__ = [
    "EncodedBatch",
    "EncodedImages",
    "FailedImage",
    "MixedBatch",
    "MixedLoader",
    "collate_encoded",
    "seeded",
]

logger = logging.getLogger(__name__)


class FailedImage(NamedTuple):
    """Image that is missing from its batch."""

    position: int
    """Index in the batch of the wrapped loader."""
    path: str
    outcome: str
    reason: str
    id: str


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """Batch of a `MixedLoader`; iterating over it yields ``images, labels``."""

    images: torch.Tensor
    """(n, 3, h, w) float32, normalised."""
    labels: torch.Tensor
    """(n,) int64."""
    paths: tuple[str, ...]
    """(n,), name of each image's path."""
    ids: tuple[str, ...] = ()
    """(n,), id of each image."""
    failed: tuple[FailedImage, ...] = ()

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> MixedBatch:
        """Return the batch with its tensors on a device; Lightning calls it."""
        images, labels = (each.to(device, non_blocking=non_blocking) for each in self)
        return replace(self, images=images, labels=labels)

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (self.images, self.labels)


@dataclass(slots=True)
class MixedLoader:
    """Drop-in replacement for the loader of ``for images, labels in loader``.

    ::

        inner = DataLoader(data, 64, shuffle=True, collate_fn=collate_encoded)
        loader = MixedLoader(inner, "pillow-train", "torchpipe-gpu-surrogate", size=224)

    Raises `ConfigError` for invalid options, for paths that cannot run here and for a transform
    that does not take an image and a seed, `DataError` for batches without encoded images,
    `WorkerError` when a worker process of a ``DataLoader`` is killed, and any error of a transform,
    with the image's name as a note.
    """

    batches: Iterable[Any]
    """Batches, each an `EncodedBatch`, or a pair or triple like it; see `collate_encoded`."""
    first: Stack
    """A preset's name, a mapping as under ``preprocess:`` of an experiment file, or a
    `Preprocess`."""
    second: Stack
    share: float = 0.5
    """Share of the images, or batches, that ``first`` prepares: torchpipe's ``cpu_percentage``."""
    per: Literal["sample", "batch"] = "sample"
    seed: int = 0
    transform: Transform | None = None
    """Transform of the images of both paths, so that the two stay matched; see `seeded`."""
    second_transform: Transform | None = None
    """Transform of the second path's images, instead of ``transform``."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the batches. On ``cuda`` bytes are sent and normalised there, on a separate
    stream."""
    ahead: int = 4
    """Number of batches prepared before the loop asks for them."""
    threads: int = 0
    """Threads that prepare images; 0 is one for each CPU this process may use."""
    size: int | None = None
    """Side of the model's input in pixels, for presets; by default 224."""
    epoch: int = field(default=0, init=False)
    paths: tuple[Preprocess, Preprocess] = field(init=False, repr=False)
    """``first`` and ``second``, built."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"share: {self.share}; between 0 (all second) and 1 (all first)")
        if self.per not in ("sample", "batch"):
            raise ConfigError(f"per: {self.per!r}; 'sample' or 'batch'")
        if self.ahead < 1:
            raise ConfigError(f"ahead: {self.ahead}; 1 batch or more")
        first, second = named_paths((self.first, self.second), size=self.size, called="path")
        self.paths = first.preprocess, second.preprocess
        for path in self.paths:
            if reason := path.missing():
                raise ConfigError(f"{path.name}: {reason}")
            if path.varies:
                raise ConfigError(
                    f"{path.name}: gives images of varying sizes, and a batch holds one; leave "
                    "'auto' out"
                )
        transforms = self.transform, self.second_transform or self.transform
        for path, transform in zip(self.paths, transforms, strict=True):
            if transform is not None:
                try_transform(transform, path)

    def __len__(self) -> int:
        if not isinstance(self.batches, Sized):
            raise TypeError("the wrapped loader has no length")
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch; each complete iteration adds one by itself."""
        self.epoch = epoch

    def reset(self) -> None:
        """Do nothing; exists for loops written for torchpipe's wrapper."""

    @property
    def sampler(self) -> MixedLoader:
        """The loader itself: Lightning calls ``sampler.set_epoch`` before each epoch."""
        return self

    @property
    def batch_sampler(self) -> None:
        """``None``: Lightning asks every loader that has a ``sampler``."""

    def prep_for_val(self, batches: Iterable[Any], path: Stack) -> MixedLoader:
        """Return a loader for validation: every image along ``path``, nothing random."""
        return replace(
            self, batches=batches, first=path, second=path, share=1.0,
            transform=None, second_transform=None,
        )  # fmt: skip

    def __iter__(self) -> Iterator[MixedBatch]:
        sampler: Any = getattr(self.batches, "sampler", None)
        if hasattr(sampler, "set_epoch"):  # without this, a DistributedSampler repeats one order
            sampler.set_epoch(self.epoch)
        upload = Upload(self.device, self.paths)
        pending: deque[tuple[int, Future[tuple[list[_Prepared], Uploaded]]]] = deque()
        seen, reused = 0, ReusedMemory()
        with explained_deaths(), _pools(self.threads or usable_cpus()) as (pool, sender):
            for number, batch in enumerate(self.batches):
                encoded = checked(batch, number + 1)
                jobs = self._draw(number, seen, encoded)
                memory = BatchMemory(len(jobs), reused)
                images = [
                    pool.submit(self._one, upload, job, memory, position)
                    for position, job in enumerate(jobs)
                ]
                sent = sender.submit(_sent, images, encoded.labels, upload, memory)
                pending.append((number, sent))
                seen += len(jobs)
                if len(pending) > self.ahead:
                    yield self._batch(*pending.popleft())
            while pending:
                yield self._batch(*pending.popleft())
        self.epoch += 1

    def _draw(self, number: int, seen: int, encoded: EncodedBatch) -> list[_Job]:
        count = len(encoded.images)
        ids = encoded.ids or [f"image-{seen + position}" for position in range(count)]
        drawn = words(f"loader:{self.seed}:{self.epoch}", ids, 2)
        chosen = drawn[:, 0]
        if self.per == "batch":
            whole = words(f"loader-batch:{self.seed}:{self.epoch}", [str(number)], 1)
            chosen = whole[0].repeat(count)
        # 53 bits, which a float64 holds exactly
        seconds = (chosen >> 11) * 2.0**-53 >= self.share
        paths = seconds.astype(int).tolist()
        seeds = (drawn[:, 1] >> 1).tolist()  # 63 bits, which fit torch's signed seeds
        columns = zip(encoded.images, paths, seeds, ids, strict=True)
        return [_Job(*each) for each in columns]

    def _one(self, upload: Upload, job: _Job, memory: BatchMemory, position: int) -> _Prepared:
        if isinstance(job.encoded, Unread):
            return _Prepared(job, "failed", job.encoded, None)
        outcome, pixels = prepare_one(job.id, job.encoded, self.paths[job.path])
        transform = self.second_transform or self.transform if job.path else self.transform
        if pixels is None:
            return _Prepared(job, outcome.outcome, outcome.reason, None)
        if transform is not None:
            try:
                pixels = _changed(transform, pixels, job.seed)
            except Exception as error:
                error.add_note(f"raised by the transform on {job.id}, seed {job.seed}")
                raise
        image = upload.ready(pixels, job.path, memory, position)
        return _Prepared(job, outcome.outcome, outcome.reason, image)

    def _batch(self, number: int, sent: Future[tuple[list[_Prepared], Uploaded]]) -> MixedBatch:
        names = [each.name for each in self.paths]
        images, tensors = sent.result()
        failed = tuple(
            FailedImage(place, names[each.job.path], each.outcome, each.reason, each.job.id)
            for place, each in enumerate(images)
            if each.image is None
        )
        for each in failed:
            logger.warning(
                "batch %d is without %s: %s, %s: %s", number + 1, each.id, each.path,
                each.outcome, each.reason,
            )  # fmt: skip
        kept = [each.job for each in images if each.image is not None]
        paths = tuple(names[job.path] for job in kept)
        return MixedBatch(*tensors.arrived(), paths, tuple(job.id for job in kept), failed)


class _Job(NamedTuple):
    """Image with the path and the seed drawn for it."""

    encoded: bytes | Unread
    path: int
    """0: first, 1: second."""
    seed: int
    id: str


class _Prepared(NamedTuple):
    job: _Job
    outcome: str
    reason: str
    image: npt.NDArray[Any] | None


def _sent(
    images: Sequence[Future[_Prepared]], labels: Sequence[int], upload: Upload, memory: BatchMemory
) -> tuple[list[_Prepared], Uploaded]:
    prepared = [each.result() for each in images]
    kept = [
        (each.image, each.job.path, label)
        for each, label in zip(prepared, labels, strict=True)
        if each.image is not None
    ]
    arrays, paths, numbers = zip(*kept, strict=True) if kept else ((), (), ())
    sent = upload.send(arrays, paths, numbers, memory)
    return prepared, sent


@contextmanager
def _pools(threads: int) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    """Start threads that prepare images, and one that sends batches in order; end both after."""
    pool = ThreadPoolExecutor(threads, "mixed-loader")
    sender = ThreadPoolExecutor(1, "mixed-loader-sender")
    try:
        yield pool, sender
    finally:
        # the sender waits for images, so it is stopped first and awaited last
        sender.shutdown(wait=False, cancel_futures=True)
        pool.shutdown(wait=True, cancel_futures=True)
        sender.shutdown(wait=True)


def _changed(transform: Transform, pixels: Pixels, seed: int) -> Pixels:
    """Transform (h, w, 3), of any size; a float path is never converted to ``uint8``."""
    planes = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
    return transform(planes, seed).permute(1, 2, 0).contiguous().numpy()
