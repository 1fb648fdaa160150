"""Decoders that end, block or fill their process on images marked for it, and work on all others."""

import os
import signal
import time
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

from alignkit.decoders import Decoded
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.studies.diff.diff_images import DiffImages

MARK = b"fatal"
"""Stands behind the end of a marked JPEG, where no decoder looks."""


@dataclass(frozen=True)
class FatalDecoder:
    """OpenCV's, but for what it does to marked images."""

    how: Literal["segfault", "abort", "exit", "hang", "eat", "raise", "none"] = "none"
    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        if encoded.endswith(MARK):
            getattr(self, f"_{self.how}")()
        return OpenCVDecoder().decode(encoded)

    def version(self) -> str:
        return "fatal 1.0"

    def _none(self) -> None:
        pass

    def _segfault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _abort(self) -> None:
        os.write(2, b"double free or corruption\n")
        os.abort()

    def _exit(self) -> None:
        os._exit(7)

    def _hang(self) -> None:
        time.sleep(3600)

    def _eat(self) -> None:
        eaten = []
        while True:
            eaten.append(b"full" * (16 << 20))

    def _raise(self) -> None:
        raise MemoryError


@dataclass(frozen=True)
class BrokenDecoder:
    """Ends its process whatever it is given."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        os.abort()

    def version(self) -> str:
        return "broken 1.0"


@dataclass(frozen=True)
class WornDecoder:
    """Ends its process on the third image, whichever that is."""

    orients: ClassVar[bool] = False
    decoded: ClassVar[int] = 0

    def decode(self, encoded: bytes) -> Decoded:
        WornDecoder.decoded += 1
        if WornDecoder.decoded > 3:  # one of them is that of the warm-up
            os.abort()
        return OpenCVDecoder().decode(encoded)

    def version(self) -> str:
        return "worn 1.0"


@dataclass(frozen=True)
class Raising:
    error: Exception

    def warm_up(self, begin):
        pass

    def __call__(self, images, begin):
        raise self.error


@dataclass(frozen=True)
class Pids:
    def warm_up(self, begin):
        pass

    def __call__(self, images, begin):
        return os.getpid(), os.getppid(), signal.getsignal(signal.SIGINT)


@dataclass(frozen=True)
class LostPaths:
    """Takes a moment for each image, and tells what is not to be tried on it."""

    def warm_up(self, begin):
        pass

    def __call__(self, images, begin):
        for position in range(len(images)):
            begin(position, 0)
            time.sleep(0.02)
        return [image.lost for image in images]


@dataclass(frozen=True)
class Spans:
    """Takes a moment for each task, and tells when: (begin, end) of the monotonic clock."""

    def warm_up(self, begin):
        pass

    def __call__(self, images, begin):
        begin(0, 0)
        started = time.monotonic()
        time.sleep(0.1)
        return started, time.monotonic()


class ImageFacts(NamedTuple):
    """What a diff of one image found."""

    id: str
    outcomes: list[tuple[str, str]]
    """How each path's decode ended, and why."""
    identical: list[int | None]
    """Of each candidate, 1 if it decodes to equal pixels; ``None`` if nothing was compared."""


class EachAlone(DiffImages):
    """A diff that tells of each image of a task alone what it found."""

    __slots__ = ()

    def __call__(self, images, begin):
        return [self._alone(image, partial(begin, place)) for place, image in enumerate(images)]

    def _alone(self, image, begin):
        tally = DiffImages.__call__(self, [image], lambda _place, path: begin(path))
        ends = [next(iter(each.examples), None) for each in tally.of_path]
        pairs = [next(iter(each.kinds.values()), None) for each in tally.of_pair]
        return ImageFacts(
            image.id,
            [(each.outcome, each.reason) if each else ("ok", "") for each in ends],
            [each and each[0].identical for each in pairs],
        )
