"""Taps of images in worker processes: one that crashes or hangs a library is one failed image.

Every command decodes through here, except that `alignkit data` and the surrogates of
`alignkit calibrate` decode in the caller's process, and `alignkit.loader` in its user's workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, cast

from alignkit.decoders import Decoded, DecodeOutcome
from alignkit.decoders.decoder_check import small_jpeg
from alignkit.errors import (
    AlignkitError,
    BackendError,
    ChangedImage,
    ConfigError,
    UnreadableImage,
)
from alignkit.isolation import IMAGES_A_TASK, Limits, process_wide
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded, WarmUpDied, Work
from alignkit.machine import available_bytes
from alignkit.plugins import gpu_present
from alignkit.preprocess import Preprocess, StageName, Taps
from alignkit.preprocess.image_header import declared_size, image_format
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.samples import Samples

Result = TypeVar("Result")
Started: TypeAlias = Callable[[int], None]
"""Function called with the number of the path that begins."""

LIMITS = Limits()
BYTES_A_PIXEL = 30
"""Most memory that two paths were measured to take on one image, per pixel: docs/evidence.md."""
_HEADER = 1 << 18
"""Bytes in which the size is looked for; a hostile file could keep the search busy for minutes."""
ALWAYS = ("numpy", "cv2", "PIL.Image", "alignkit.preprocess.image_taps")
"""Modules that every worker needs, whatever the paths are."""
_AHEAD_BYTES = 256 << 20
"""Bytes of encoded images that are asked for ahead, by the largest image so far."""
_ASK_THE_DRIVER = ("torchpipe", "nvidia.dali", "nvidia.nvimgcodec")
"""Libraries that may call CUDA when they are imported, those of decoders on the CPU too."""
GPU_WORKERS = 2
"""Most workers for a path on a GPU: each holds a CUDA context of half a gigabyte."""


def run_isolated(
    work: Work[Result],
    paths: Sequence[Preprocess],
    images: Iterable[Encoded],
    *,
    processes: int | None = None,
    limits: Limits | None = None,
    images_a_task: int = IMAGES_A_TASK,
    keep: bool = False,
) -> Generator[Result, None, None]:
    """Yield the results of ``work`` on a few images at a time, in the order of the images.

    ``processes`` are by default the CPUs this process may use; results do not depend on them.
    ``keep``: see `Isolation.run`. Raise `BackendError` if a path crashes or hangs on a harmless
    image, or, unless the limits are ``lossy``, if an image needs more memory than is available.
    """
    plugins = [plugin for path in paths for plugin in path.plugins()]
    gpu = any(plugin.gpu for plugin in plugins)
    processes = processes or usable_cpus()
    # a driver does not survive forking: what asks it when it is imported is left to the workers
    asking = _ASK_THE_DRIVER if gpu_present() else ()
    libraries = [e.module for e in plugins if e.module and not (e.gpu or e.module in asking)]
    stages = [stage for path in paths for stage in (path.decode, path.resize.resizer)]
    classes = [type(each).__module__ for each in (work, *stages)]  # else every worker imports them
    if "__main__" in classes:
        raise ConfigError(
            "a decoder or resizer is defined in the script or notebook that runs; move its class "
            "into a module, which worker processes can import"
        )
    limits = limits or LIMITS
    available = available_bytes()
    most = max((path.max_pixels for path in paths), default=0)
    try:
        yield from process_wide().run(
            work,
            (weighed(each, most, limits, available) for each in images),
            processes=min(processes, GPU_WORKERS) if gpu else processes,
            limits=limits,
            modules=tuple(dict.fromkeys((*ALWAYS, *libraries, *classes))),
            images_a_task=images_a_task,
            keep=keep,
        )
    except WarmUpDied as death:
        raise BackendError(
            f"{paths[death.path].name} cannot run here: on a small valid JPEG it {death.reason}"
        ) from None


def weighed(image: Encoded, max_pixels: int, limits: Limits, available: int | None) -> Encoded:
    """Note how many bytes an image may need; it is lost on every path if that is not available.

    No more than its worker may take. A path does not decode more than ``max_pixels``. Raises
    `BackendError` for a lost image unless the limits are ``lossy``.
    """
    header = image.data[:_HEADER]
    # the directories of a TIFF may lie anywhere, and may be without end
    size = None if image_format(header) == "TIFF" else declared_size(header)
    pixels = size[0] * size[1] if size else len(image.data)
    if image.lost or (size and pixels > max_pixels):
        return image
    need = min(pixels * BYTES_A_PIXEL, limits.memory)
    if size and available is not None and need > available:
        reason = (
            f"out of memory: {size[1]}x{size[0]} pixels may take {need / 2**30:.1f} GiB, and "
            f"{available / 2**30:.1f} GiB are available"
        )
        if not limits.lossy:
            raise BackendError(
                f"{image.id}: {reason}; free some, or set 'max_pixels' below its size"
            )
        return replace(image, lost=((EVERYTHING, reason),))
    return replace(image, need=need)


def encoded_images(
    samples: Samples,
    indices: Iterable[int] | None = None,
    *,
    changed: Literal["raise", "fail"] = "raise",
) -> Iterator[Encoded]:
    """Yield the samples at ``indices``, by default all, read one by one.

    One that cannot be read is lost on every path. So is one whose file changed since it was listed,
    where that is to ``fail``; else `ChangedImage` is raised, as a result that is stored under the
    fingerprint of the data must be one of that data.
    """
    for index, read in _read(samples, range(len(samples)) if indices is None else indices):
        try:
            yield Encoded(samples.ids[index], read())
        except UnreadableImage as error:
            if isinstance(error, ChangedImage) and changed == "raise":
                raise
            yield Encoded(samples.ids[index], b"", lost=((EVERYTHING, error.reason),))


def _read(samples: Samples, indices: Iterable[int]) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Yield the samples in their order; those of a store are asked for some at a time.

    A store takes long for an image, and answers many at once. Few large ones are held.
    """
    ahead: int = getattr(samples.read, "ahead", 0)
    if not ahead:
        yield from ((index, partial(samples.read, index)) for index in indices)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    asked: deque[tuple[int, Future[bytes]]] = deque()
    largest = 1
    pool = ThreadPoolExecutor(ahead)
    try:
        for index in indices:
            while len(asked) >= max(1, min(ahead, _AHEAD_BYTES // largest)):
                place, future = asked.popleft()
                yield place, future.result
                if not future.exception():
                    largest = max(largest, len(future.result()))
            asked.append((index, pool.submit(samples.read, index)))
        while asked:
            place, future = asked.popleft()
            yield place, future.result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def warm_up(paths: Sequence[Preprocess], begin: Begin) -> None:
    """Run every decoder and every resizer of the paths on a small JPEG of the package."""
    encoded = small_jpeg("420")
    # trying equal stages twice would only cost time
    known: set[object] = set()
    for number, path in enumerate(paths):
        stages = {path.decode, path.resize.resizer}
        if not stages <= known:
            begin(0, number)
            result_or_reason(partial(path.taps, encoded))
            known |= stages


def result_or_reason(call: Callable[[], Result]) -> Result | str:
    """Return the result of a library's work on one image, or the reason of its failure."""
    try:
        return call()
    except (AlignkitError, ImportError):  # of the set-up, not of the image
        raise
    except MemoryError as error:
        return f"out of memory: {error or 'the library says so'}"
    except Exception as error:  # noqa: BLE001 - what a library raises on one image is its outcome
        return f"{type(error).__name__}: {error}"


def taps_of(
    path: Preprocess, image: Encoded, number: int, begin: Started, begun: Taps | None = None
) -> Taps:
    """Run path ``number``; ``failed`` where it raises, or a worker died on the image.

    ``begun``: taps of its first stages, if another path has run them.
    """
    lost = dict(image.lost)
    taps: Taps | str = lost.get(EVERYTHING, "") or lost.get(number, "")
    if not taps:
        begin(number)
        taps = result_or_reason(partial(path.taps, image.data, begun))
    return failed_taps(taps) if isinstance(taps, str) else taps


def each_taps(paths: Sequence[Preprocess], image: Encoded, begin: Started) -> Iterator[Taps]:
    """Yield the taps of each path; those that begin as the first one share its decode."""
    first: Taps | None = None
    for number, path in enumerate(paths):
        begun = paths[0].shared_taps(first, path) if first else None
        taps = taps_of(path, image, number, begin, begun)
        first = first or taps
        yield taps
        del taps  # not held while the next are made


def failed_taps(reason: str) -> Taps:
    """Return the taps of an image without pixels."""
    return Taps(Decoded("failed", reason=reason))


class FinalPixels(NamedTuple):
    """Pixels of one image at the end of a path, before normalisation."""

    outcome: DecodeOutcome
    reason: str
    pixels: Pixels | None
    """(height, width, 3), C-contiguous; ``None`` if the image was not decoded."""
    source: tuple[int, int, int] | None = None
    """Width and height of the image turned upright, and its EXIF orientation; ``None`` if it was
    not decoded."""
    digest: str = ""
    """See `Decoded.digest`."""
    idle: tuple[StageName, ...] = ()
    """Stages up to ``colour`` that gave back the values of their input."""


@dataclass(frozen=True, slots=True)
class TakePixels:
    """`Work` of `alignkit.isolation` that returns the pixels of each image on each path."""

    paths: tuple[Preprocess, ...]

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[tuple[FinalPixels, ...]]:
        """Return, for each image, a `FinalPixels` for each path."""
        return [
            tuple(self._of(image, partial(begin, position)))
            for position, image in enumerate(images)
        ]

    def _of(self, image: Encoded, begin: Started) -> Iterator[FinalPixels]:
        for path, taps in zip(self.paths, each_taps(self.paths, image, begin), strict=True):
            yield final_pixels(path, image, taps)


def final_pixels(path: Preprocess, image: Encoded, taps: Taps) -> FinalPixels:
    """Return the last of a path's taps, contiguous, as shared memory holds it."""
    import numpy as np

    outcome, reason = taps.decoded.outcome, taps.decoded.reason
    if taps.last is None:
        return FinalPixels(outcome, reason, None)
    last = cast("Pixels", np.ascontiguousarray(taps.last))
    source = path.source(taps, image.data)
    idle = tuple(
        after
        for (_, before), (after, pixels) in pairwise(taps.pixels.items())
        if pixels is before or np.array_equal(pixels, before)
    )
    return FinalPixels(outcome, reason, last, source, taps.decoded.digest, idle)


def take_pixels(
    paths: Sequence[Preprocess],
    images: Iterable[Encoded],
    *,
    processes: int | None = None,
    limits: Limits | None = None,
) -> Iterator[tuple[FinalPixels, ...]]:
    """Yield, for each image in order, its pixels on each path; see `run_isolated`."""
    work = TakePixels(tuple(paths))
    for part in run_isolated(work, paths, images, processes=processes, limits=limits):
        yield from part
