"""Paths in worker processes, so that an image on which a library crashes or hangs fails alone.

Every command decodes through here, except `alignkit.loader`, which runs in its user's own workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from alignkit.decoders import DECODERS, Decoded, Outcome
from alignkit.errors import AlignkitError, BackendError
from alignkit.isolation import IMAGES_A_TASK, Limits, WarmUpDied, process_wide
from alignkit.isolation.shared_images import EVERYTHING, Encoded
from alignkit.isolation.worker import Begin, Work
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess import Preprocess, Taps
from alignkit.resizers import RESIZERS
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.samples import Samples

Result = TypeVar("Result")
Started: TypeAlias = Callable[[int], None]
"""Called with the path whose turn it is."""

LIMITS = Limits()
ALWAYS = ("numpy", "cv2", "PIL.Image", "alignkit.preprocess.isolated")
"""Modules that every worker needs, whatever the paths are."""
GPU_WORKERS = 2
"""The most workers where a path computes on a GPU: each holds a CUDA context of half a gigabyte."""


def run_isolated(
    work: Work[Result],
    paths: Sequence[Preprocess],
    images: Iterable[Encoded],
    *,
    processes: int | None = None,
    limits: Limits | None = None,
    images_a_task: int = IMAGES_A_TASK,
) -> Iterator[Result]:
    """Yield what ``work`` makes of each few images on ``paths``, in the order of the images.

    ``processes`` are by default the CPUs this process may use; results do not depend on them.
    Raises `BackendError` if a path crashes or hangs on a harmless image.
    """
    plugins = [plugin for path in paths for plugin in _plugins(path)]
    gpu = any(plugin.gpu for plugin in plugins)
    processes = processes or usable_cpus()
    # a driver does not survive forking, so GPU libraries are left to the workers
    libraries = [each.module for each in plugins if each.module and not each.gpu]
    stages = [stage for path in paths for stage in (path.decode, path.resize.resizer)]
    classes = [type(each).__module__ for each in (work, *stages)]  # else every worker imports them
    try:
        yield from process_wide().run(
            work,
            images,
            processes=min(processes, GPU_WORKERS) if gpu else processes,
            limits=limits or LIMITS,
            modules=tuple(dict.fromkeys((*ALWAYS, *libraries, *classes))),
            images_a_task=images_a_task,
        )
    except WarmUpDied as death:
        raise BackendError(
            f"{paths[death.path].name} cannot run here: on a small valid JPEG it {death.reason}"
        ) from None


def encoded_images(samples: Samples, indices: Iterable[int] | None = None) -> Iterator[Encoded]:
    """The samples at ``indices``, by default all, read one by one."""
    for index in range(len(samples)) if indices is None else indices:
        yield Encoded(samples.ids[index], samples.read(index))


def warm_up(paths: Sequence[Preprocess], begin: Begin) -> None:
    """Run every decoder and every resizer of the paths on a small JPEG of the package."""
    encoded = resources.files("alignkit.decoders").joinpath("jpegs", "420.jpg").read_bytes()
    known: set[object] = set()
    for number, path in enumerate(paths):
        stages = {path.decode, path.resize.resizer}
        if not stages <= known:
            begin(0, number)
            result_or_reason(partial(path.taps, encoded))
            known |= stages


def result_or_reason(call: Callable[[], Result]) -> Result | str:
    """Result of a library's work on one image, or why it failed: whatever it raises."""
    try:
        return call()
    except (AlignkitError, ImportError):
        raise
    except MemoryError as error:
        return f"out of memory: {error or 'the library says so'}"
    except Exception as error:  # noqa: BLE001 - what a library raises on one image is its outcome
        return f"{type(error).__name__}: {error}"


def taps_of(path: Preprocess, image: Encoded, number: int, begin: Started) -> Taps:
    """The taps of path ``number``; ``failed`` where it raises, or a worker died of the image."""
    lost = dict(image.lost)
    found: Taps | str = lost.get(EVERYTHING, "") or lost.get(number, "")
    if not found:
        begin(number)
        found = result_or_reason(partial(path.taps, image.data))
    return failed_taps(found) if isinstance(found, str) else found


def failed_taps(reason: str) -> Taps:
    """The taps of an image that gave no pixels."""
    return Taps(Decoded("failed", reason=reason))


class FinalPixels(NamedTuple):
    """What a path made of one image, before normalisation."""

    outcome: Outcome
    reason: str
    pixels: Pixels | None
    """(height, width, 3), C-contiguous; ``None`` if the image was not decoded."""


@dataclass(frozen=True, slots=True)
class TakePixels:
    """Give the pixels of each image on each path; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[tuple[FinalPixels, ...]]:
        """For each image, one `FinalPixels` a path."""
        return [
            tuple(
                final_pixels(taps_of(path, image, number, partial(begin, position)))
                for number, path in enumerate(self.paths)
            )
            for position, image in enumerate(images)
        ]


def final_pixels(taps: Taps) -> FinalPixels:
    """The last of a path's taps, in an order that shared memory can hold."""
    import numpy as np

    last = taps.last
    if last is not None:
        last = cast("Pixels", np.ascontiguousarray(last))
    return FinalPixels(taps.decoded.outcome, taps.decoded.reason, last)


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


def _plugins(path: Preprocess) -> tuple[Plugin, ...]:
    stages = (path.decode, DECODERS), (path.resize.resizer, RESIZERS)
    return tuple(table[name_of(stage, table)] for stage, table in stages
                 if name_of(stage, table) in table)  # fmt: skip
