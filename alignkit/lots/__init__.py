"""Lots of 512 consecutive images: the unit that is stored, tried again and handed to an engine.

A `LotWork` reduces each lot to a part, which is small and additive. Parts are added up in the order
of the lots, so that the sum does not depend on the engine, on the workers, or on what was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

from alignkit.errors import ConfigError, EngineMissing, NothingCompared
from alignkit.isolation import IMAGES_A_TASK, Limits
from alignkit.isolation.worker import Encoded, Work
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images
from alignkit.samples import Samples

IMAGES_A_LOT = 64 * IMAGES_A_TASK
"""A multiple of a task, so that tasks are the same in every lot, however lots are handed out."""

LotPart = TypeVar("LotPart")
ImagesDone = Callable[[int], None]
"""Function called with the number of images done since the last call, see `LotWork.groups`."""


@dataclass(frozen=True, slots=True)
class Lot:
    """Consecutive images of a data set; can be pickled if their reader can."""

    number: int
    """From 0."""
    begin: int
    """Place of its first image among all."""
    samples: Samples
    """Its images alone."""
    changed: Literal["raise", "fail"]
    """See `encoded_images`."""

    def __str__(self) -> str:
        """Name the lot and its images, counted from 1."""
        first, last = self.begin + 1, self.begin + len(self.samples)
        return f"lot {self.number + 1} (images {first} to {last})"

    def images(self) -> Iterator[Encoded]:
        """Read its images one by one, in the process that calls."""
        return encoded_images(self.samples, changed=self.changed)

    def groups_of(self, size: int) -> list[int]:
        """Cut its images into groups of a size; the last may be smaller."""
        images = len(self.samples)
        return [min(size, images - start) for start in range(0, images, size)]


class LotWork(Protocol[LotPart]):
    """Work on lots, a pure function of a lot; can be pickled."""

    @property
    def work(self) -> Work[Any]:
        """The work on the images of a task, in worker processes that an image may kill."""
        ...

    @property
    def paths(self) -> Sequence[Preprocess]:
        """The paths that run, whose libraries are loaded."""
        ...

    @property
    def limits(self) -> Limits | None:
        """Time and memory that one image may take on one path."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """Return everything but the images that a part depends on, as JSON.

        It is asked for of the work with what it needs for one lot, see `only`.
        """
        ...

    def only(self, lot: Lot) -> Self:
        """Return the work with what it needs for this lot alone, to be sent to a worker."""
        ...

    @property
    def images_a_task(self) -> int:
        """The images that a worker process is given at a time."""
        ...

    def encoded(self, lot: Lot) -> Iterator[Encoded]:
        """Read the images of a lot, in the process that calls; each may come more than once."""
        ...

    def groups(self, lot: Lot) -> Sequence[int]:
        """Count the images whose results are added together, group by group of `encoded`.

        They decide the order of sums, and do not depend on the engine.
        """
        ...

    def images(self, result: Any) -> int:
        """Count the images of a result of ``work``."""
        ...

    def empty(self, lot: Lot) -> LotPart:
        """Return the part of no image of a lot."""
        ...

    def add(self, part: LotPart, results: Sequence[Any]) -> LotPart:
        """Add the results of one group to a part, in the engine's process; return it."""
        ...

    def text(self, part: LotPart) -> str:
        """Return the stored form of a part."""
        ...

    def parsed(self, text: str) -> LotPart:
        """Return the part of a stored form; raises `ValueError` if it is none."""
        ...


class EachImageOnce:
    """Members of a `LotWork` that takes each image once, in tasks whose results it adds up."""

    __slots__ = ()
    images_a_task = IMAGES_A_TASK

    def only(self, lot: Lot) -> Self:  # noqa: ARG002 - it needs the same for every lot
        """See `LotWork.only`."""
        return self

    def encoded(self, lot: Lot) -> Iterator[Encoded]:
        """See `LotWork.encoded`."""
        return lot.images()

    def groups(self, lot: Lot) -> Sequence[int]:
        """See `LotWork.groups`."""
        return lot.groups_of(IMAGES_A_TASK)


@dataclass(frozen=True, slots=True)
class DoneLot:
    """A lot that an engine has worked on."""

    lot: Lot
    part: Any
    text: str | None = None
    """The stored form, if it came from another process."""


class LotEngine(Protocol):
    """A way to call a `LotWork` on lots; see `alignkit.lots.engines`."""

    def parts(
        self, work: LotWork[Any], lots: Iterator[Lot], advance: ImagesDone
    ) -> Iterator[DoneLot]:
        """Work on the lots, a bounded number of them at a time; yield them as they are done.

        A lot is taken only if those between it and the oldest that is not done are few. Raises
        `BackendError` if a lot ends its workers again and again, or if no worker is left, and any
        `AlignkitError` that the work raises.
        """
        ...


class LotStore(Protocol):
    """Stored parts."""

    def holds(self, work: LotWork[Any], lot: Lot, data: str) -> bool:
        """Tell whether a lot's part is stored; `find` may still find it damaged."""
        ...

    def find(self, work: LotWork[LotPart], lot: Lot, data: str) -> LotPart | None:
        """Return a lot's part; ``None`` if there is none, or a damaged one."""
        ...

    def keep(self, work: LotWork[Any], lot: Lot, data: str, text: str) -> None:
        """Store the text of a lot's part. ``data`` is the fingerprint of all images."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """Every ``count``-th lot, beginning with the ``index``-th."""

    index: int
    """From 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``2/5``; raises `ConfigError` for anything else."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal()):
            raise ConfigError(f"--shard {text}: write it as i/n, for example 2/5")
        shard = cls(int(index), int(count))
        if not 1 <= shard.index <= shard.count:
            raise ConfigError(f"--shard {text}: i counts from 1 to n")
        return shard

    def lots(self, images: int) -> range:
        """Return the numbers of its lots of so many images."""
        return range(self.index - 1, lot_count(images), self.count)

    def own_lots(self, images: int) -> int:
        """Count its lots of so many images; raises `NothingCompared` if there is none."""
        if not (own := len(self.lots(images))):
            none = f"shard {self.index} of {self.count} has none of the {lot_count(images)} lots"
            raise NothingCompared(f"{none} of {IMAGES_A_LOT} images; take fewer shards")
        return own


ALL_LOTS = Shard(1, 1)


def unseen_folder(folder: Path, option: str, worker: str = "a worker") -> EngineMissing:
    """Return the error of a worker that has not the folder in which it should write or read."""
    return EngineMissing(
        f"{worker} does not see {folder}; give {option} a folder that all machines share at one "
        "path"
    )


def lot_count(images: int) -> int:
    """Count the lots of so many images."""
    return -(-images // IMAGES_A_LOT)


def lot_of(
    samples: Samples,
    number: int,
    changed: Literal["raise", "fail"] = "raise",
) -> Lot:
    """Return a lot of some images by its number."""
    begin = number * IMAGES_A_LOT
    own = samples.take(range(begin, min(begin + IMAGES_A_LOT, len(samples))))
    return Lot(number, begin, own, changed)


def lot_parts(
    work: LotWork[LotPart],
    samples: Samples,
    engine: LotEngine,
    *,
    store: LotStore | None = None,
    shard: Shard = ALL_LOTS,
    changed: Literal["raise", "fail"] = "raise",
    advance: ImagesDone = lambda _: None,
) -> Iterator[LotPart]:
    """Yield the part of every lot in their order, or of every lot of a ``shard``.

    Parts found in the ``store`` are not made again; others are stored as they are done. Few parts
    are held at a time. Raises as `LotEngine.parts` does.
    """
    numbers = shard.lots(len(samples))
    stored = set()
    for lot in (lot_of(samples, number, changed) for number in numbers) if store else ():
        if store and store.holds(work, lot, samples.fingerprint):
            stored.add(lot.number)
            advance(sum(work.groups(lot)))

    def made(numbers: Iterable[int], advance: ImagesDone) -> Iterator[DoneLot]:
        for done in engine.parts(work, (lot_of(samples, n, changed) for n in numbers), advance):
            if store:
                store.keep(work, done.lot, samples.fingerprint, done.text or work.text(done.part))
            yield done

    making = made([number for number in numbers if number not in stored], advance)
    ahead: dict[int, LotPart] = {}
    for number in numbers:
        if number in stored and store:
            known = store.find(work, lot_of(samples, number, changed), samples.fingerprint)
            if known is not None:
                yield known
                continue
            # damaged: an engine does one thing at a time, so the others come first, and are read
            # again
            stored.update(done.lot.number for done in making)
            making = made([number], lambda _: None)
        while number not in ahead:
            done = next(making)
            ahead[done.lot.number] = done.part
        yield ahead.pop(number)
