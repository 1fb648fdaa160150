"""`MixedLoader`: batches for your own training loop, each image prepared by one of two paths.

It wraps any iterable of batches of encoded images, a `torch.utils.data.DataLoader` or a list. Which
path an image takes follows from (seed, epoch, image number) alone, never from threads or timing;
batches come in the order of the wrapped loader, a bounded number ahead. An image that a path does
not decode is left out of its batch and named in ``Batch.failed``; its batch is not lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from alignkit.errors import ConfigError, DataError
from alignkit.numerics import usable_cpus
from alignkit.prepare import prepare_one
from alignkit.samples import Samples
from alignkit.train.augment import words

if TYPE_CHECKING:
    import torch

    from alignkit.arrays import Pixels
    from alignkit.preprocess import Preprocess

Encoded = tuple[Sequence[bytes], Sequence[int]]
Transform = Callable[["torch.Tensor", int], "torch.Tensor"]
"""(3, h, w), 0..255 as the path gives it, before it is normalised; and a seed for its draws. →
(3, h', w')."""


class FailedImage(NamedTuple):
    """An image that is not in its batch."""

    position: int
    """In the batch of the wrapped loader."""
    path: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What a `MixedLoader` gives; iterating gives ``images, labels``."""

    images: torch.Tensor
    """(n, 3, h, w) float32, normalised."""
    labels: torch.Tensor
    """(n,) int64."""
    paths: tuple[str, ...]
    """(n,) which path each image took."""
    failed: tuple[FailedImage, ...] = ()

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (self.images, self.labels)


@dataclass(slots=True)
class MixedLoader:
    """A drop-in for the loop ``for images, labels in loader``."""

    batches: Iterable[Encoded]
    """Each a sequence of encoded images and one of labels; see `collate_encoded`."""
    first: Preprocess
    second: Preprocess
    share: float = 0.5
    """Of the images, or batches, that ``first`` prepares: torchpipe's ``cpu_percentage``."""
    per: Literal["sample", "batch"] = "sample"
    seed: int = 0
    transform: Transform | None = None
    """Of the images of both paths, so that the two stay matched."""
    second_transform: Transform | None = None
    """Of the second path's alone, where it is to differ."""
    device: str = "cpu"
    ahead: int = 4
    """Batches that are prepared before they are asked for."""
    threads: int = 0
    """That prepare images; 0 is one for each CPU this process may use."""
    epoch: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"share: {self.share}; between 0 (all second) and 1 (all first)")
        if self.ahead < 1:
            raise ConfigError(f"ahead: {self.ahead}; 1 batch or more")
        if self.first.size != self.second.size:
            raise ConfigError(
                f"{self.first.name} gives {self.first.size}, {self.second.name} "
                f"{self.second.size}: one batch takes one size"
            )
        for path in (self.first, self.second):
            if reason := path.missing():
                raise ConfigError(f"{path.name}: {reason}")

    def __len__(self) -> int:
        if not isinstance(self.batches, Sized):
            raise TypeError("the wrapped loader has no length")
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next; each iteration to the end counts one up by itself."""
        self.epoch = epoch
        sampler = getattr(self.batches, "sampler", None)
        if sampler is not None and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)

    def reset(self) -> None:
        """Nothing is left over between epochs; here for loops written for torchpipe's wrapper."""

    def prep_for_val(self, batches: Iterable[Encoded], path: Preprocess) -> MixedLoader:
        """The same for validation: every image along ``path``, nothing random."""
        return replace(
            self, batches=batches, first=path, second=path, share=1.0,
            transform=None, second_transform=None,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Batch]:
        pending: deque[tuple[_Drawn, list[Future[Any]]]] = deque()
        source, number, seen = iter(self.batches), 0, 0
        pool = ThreadPoolExecutor(self.threads or usable_cpus(), "mixed-loader")
        try:
            for encoded, labels in source:
                drawn = self._draw(number, seen, encoded, labels)
                pending.append((drawn, [pool.submit(self._one, *each) for each in drawn.jobs()]))
                number, seen = number + 1, seen + len(encoded)
                if len(pending) > self.ahead:
                    yield self._collected(*pending.popleft())
            while pending:
                yield self._collected(*pending.popleft())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.epoch += 1

    def _draw(
        self, number: int, seen: int, encoded: Sequence[bytes], labels: Sequence[int]
    ) -> _Drawn:
        if len(encoded) != len(labels):
            raise DataError(f"batch {number + 1} has {len(encoded)} images, {len(labels)} labels")
        names = [f"image-{seen + position}" for position in range(len(encoded))]
        drawn = words(f"loader:{self.seed}:{self.epoch}", [*names, f"batch-{number}"], 2)
        chosen = drawn[:-1, 0] if self.per == "sample" else drawn[-1:, 0].repeat(len(encoded))
        firsts = (chosen >> 11) * 2.0**-53 < self.share
        return _Drawn(encoded, labels, firsts.tolist(), (drawn[:-1, 1] >> 1).tolist())

    def _one(self, encoded: bytes, is_first: bool, seed: int) -> Any:
        """(path, outcome, (3, h, w) float32 or ``None``) of one image."""
        import torch

        path = self.first if is_first else self.second
        outcome, pixels = prepare_one("", encoded, path)
        transform = self.transform if is_first else self.second_transform or self.transform
        if pixels is None:
            return path.name, outcome, None
        if transform is None:
            return path.name, outcome, torch.from_numpy(path.normalise(pixels))
        changed = transform(_tensor(pixels), seed).permute(1, 2, 0).contiguous().numpy()
        return path.name, outcome, torch.from_numpy(path.normalise(changed))

    def _collected(self, drawn: _Drawn, jobs: Sequence[Future[Any]]) -> Batch:
        import torch

        done = [job.result() for job in jobs]
        kept = [place for place, (_, _, image) in enumerate(done) if image is not None]
        height, width = self.first.size
        images = torch.stack([done[place][2] for place in kept]) if kept else torch.zeros(
            0, 3, height, width
        )  # fmt: skip
        return Batch(
            images.to(self.device, non_blocking=True),
            torch.tensor([drawn.labels[place] for place in kept], dtype=torch.int64).to(
                self.device
            ),
            tuple(done[place][0] for place in kept),
            tuple(
                FailedImage(place, name, outcome.outcome, outcome.reason)
                for place, (name, outcome, image) in enumerate(done)
                if image is None
            ),
        )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One batch, and what was drawn for it."""

    encoded: Sequence[bytes]
    labels: Sequence[int]
    firsts: Sequence[bool]
    seeds: Sequence[int]

    def jobs(self) -> Iterator[tuple[bytes, bool, int]]:
        return zip(self.encoded, self.firsts, self.seeds, strict=True)


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """`Samples` as a map-style data set of (encoded bytes, label) for a ``DataLoader``."""

    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        return self.samples.read(index), self.samples.labels[index]


def collate_encoded(items: Sequence[tuple[bytes, int]]) -> Encoded:
    """``collate_fn`` of a ``DataLoader`` over (encoded bytes, label)."""
    return [encoded for encoded, _ in items], [int(label) for _, label in items]


def _tensor(pixels: Pixels) -> torch.Tensor:
    """(h, w, 3) → (3, h, w), the same values; a float path is never cut to ``uint8``."""
    import numpy as np
    import torch

    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
