"""Decode and resize every image once for all trainings and cells: `Samples` → `Prepared`.

The pixels lie in one ``.npy`` file that is mapped, not loaded; memory is constant however many
images there are. Processes do the work, not threads, so that an image that ends its process is one
failed image.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.decoders import DecodeOutcome
from alignkit.errors import MissingDependency, NothingCompared, WorkspaceError
from alignkit.outcome import PlannedWork
from alignkit.prepare.pixel_file import PixelFile
from alignkit.preprocess import Preprocess, StageName
from alignkit.preprocess.normalise import Normalise
from alignkit.samples import Samples
from alignkit.stored_file import DamagedError
from alignkit.version import PIXEL_LAYERS, code_version
from alignkit.workspace import Finished, Workspace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch, Pixels
    from alignkit.lots import LotEngine
    from alignkit.preprocess.geometry import Geometry
    from alignkit.preprocess.image_taps import FinalPixels

_STEP = 16
"""Images between two reports of progress."""
_PIXELS = "pixels.npy"
OUTCOMES = "outcomes.json"
"""The file that `stored_rows` reads."""
PreparedImage: TypeAlias = "tuple[list[Any], Pixels | None]"
"""The `facts_of` an image, and its pixels if it has any."""


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """The outcome of one sample's preparation."""

    id: str
    outcome: DecodeOutcome
    reason: str = ""
    """The decoder's own words, or the error of a later stage; empty for ``ok``."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The pixels of every sample on one path, before normalisation."""

    map_pixels: Callable[[], Pixels]
    """Gives ``pixels``; called when they are used, as many runs use none of a training split."""
    rows: npt.NDArray[np.int64]
    """(samples,), the index of each sample in ``pixels``; -1 if it could not be decoded."""
    outcomes: tuple[SampleOutcome, ...]
    """One for each sample, in the samples' order."""
    sources: npt.NDArray[np.int32] | None = None
    """(samples, 3): width and height of each image turned upright, in pixels, and its EXIF
    orientation; -1 of one that could not be decoded. ``None`` if nobody will ask for places."""
    sizes: npt.NDArray[np.int32] | None = None
    """(samples, 2): height and width of each sample's pixels, which lie at the top left of its row
    in ``pixels``; -1 of one that could not be decoded. ``None`` if all fill their rows."""
    digests: tuple[str, ...] = ()
    """`alignkit.decoders.Decoded.digest` of each sample."""

    @cached_property
    def pixels(self) -> Pixels:
        """(decoded samples, height, width, 3), channels as the path's ``colour`` says, 0..255.

        ``uint8`` or ``float32`` as the path gives; mapped read-only from disk. Where the path's
        size `varies <Preprocess.varies>`, an image fills a part only: see `image`.
        """
        return self.map_pixels()

    def image(self, index: int) -> Pixels:
        """Return the pixels of a decoded sample: (height, width, 3)."""
        pixels: Pixels = self.pixels[self.rows[index]]
        if self.sizes is None:
            return pixels
        height, width = self.sizes[index]
        return pixels[:height, :width]

    @property
    def decoded(self) -> npt.NDArray[np.int64]:
        """Indices of the samples that have pixels, ascending."""
        import numpy as np

        return np.flatnonzero(self.rows >= 0)

    @property
    def decoded_ids(self) -> tuple[str, ...]:
        """Ids of the samples that have pixels (``ok`` and ``corrupt``), in order."""
        return tuple(
            sample.id for sample, row in zip(self.outcomes, self.rows, strict=True) if row >= 0
        )

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64], normalise: Normalise) -> Batch:
        """Return the normalised (n, 3, h, w) float32 of the samples at ``indices``.

        Raises `IndexError` for a sample that could not be decoded, `ValueError` for samples of
        different sizes: see `spans`.
        """
        import numpy as np

        chosen = np.asarray(indices, np.int64)
        rows = self.rows[chosen]
        if (rows < 0).any():
            absent = self.outcomes[int(chosen[rows < 0][0])].id
            raise IndexError(f"{absent} was not decoded and has no pixels")
        if self.sizes is None or not len(chosen):
            return normalise(self.pixels[rows])
        sizes = self.sizes[chosen]
        if (sizes != sizes[0]).any():
            raise ValueError(f"images of {len(np.unique(sizes, axis=0))} sizes are not one batch")
        height, width = sizes[0]
        return normalise(self.pixels[rows, :height, :width])

    def spans(
        self, indices: Sequence[int] | npt.NDArray[np.int64], most: int
    ) -> list[tuple[int, int]]:
        """Cut ``indices`` into batches (start, stop): neighbours of one size, at most ``most``.

        They follow from the images and ``most`` alone, and keep the order.
        """
        import numpy as np

        ends = [len(indices)] if len(indices) else []
        if self.sizes is not None:
            sizes = self.sizes[np.asarray(indices, np.int64)]
            ends = [*(np.flatnonzero((sizes[1:] != sizes[:-1]).any(axis=1)) + 1).tolist(), *ends]
        return [
            (start, min(start + most, end))
            for begin, end in pairwise([0, *ends])
            for start in range(begin, end, most)
        ]

    def places(
        self,
        indices: Sequence[int] | npt.NDArray[np.int64],
        preprocess: Preprocess,
        stage: StageName = "colour",
    ) -> list[Geometry]:
        """Return where each sample's pixels lie after a stage of ``preprocess``, the path's.

        Raises `IndexError` for a sample that could not be decoded.
        """
        assert self.sources is not None, "prepared without the sizes of the images"
        chosen = [self.sources[index].tolist() for index in indices]
        if any(width < 0 for width, _, _ in chosen):
            raise IndexError("a sample that was not decoded has no place")
        return [preprocess.geometry(w, h, turn, stage) for w, h, turn in chosen]


@dataclass(frozen=True, slots=True)
class Preparation(PlannedWork):
    """The preparation of one split on one path; two paths whose pixels are equal share its key.

    It reads no image and imports no library.
    """

    kind = "prepared"
    preprocess: Preprocess
    split: str
    images: str
    """Fingerprint of the split."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that the prepared pixels depend on: not the name, and not ``normalise``."""
        # `normalise` is applied when a batch is made, so that all its values share the pixels
        return {"samples": self.images, **pixel_identity(self.preprocess)}

    @property
    def label(self) -> str:
        return f"prepare {self.split} on {self.preprocess.name}"

    @property
    def skipped(self) -> str:
        return self.preprocess.missing()


def prepare(
    samples: Samples,
    preprocess: Preprocess,
    workspace: Workspace,
    *,
    split: str,
    threads: int | None = None,
    engine: LotEngine | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Decode and resize every sample, or read the stored pixels.

    ``threads`` are worker processes, by default one for each CPU this process may use; the result
    does not depend on them, nor on an ``engine`` whose workers prepare lots and that goes on with
    those of a command that was killed. ``progress`` is called with (done, total). Raises
    `NothingCompared` if no image has pixels, `MissingDependency` if the path cannot run here,
    `ChangedImage` if a file changed since it was listed, and as `LotEngine.parts` does.
    """
    import numpy as np

    def fill(folder: Path) -> dict[str, str]:
        if reason := preprocess.missing():
            raise MissingDependency(f"preprocess.{preprocess.name}: {reason}")
        if engine is None:
            return _fill(folder, samples, preprocess, _here(samples, preprocess, threads), progress)
        from alignkit.prepare.prepare_lots import by_workers

        unfinished = workspace.unfinished(work.kind, work.key)
        with workspace.lock(unfinished):
            images = by_workers(samples, preprocess, unfinished, engine)
            return _fill(folder, samples, preprocess, images, progress)

    work = Preparation(preprocess, split, samples.fingerprint)
    keep = partial(workspace.keep, work.kind, work.parts, work.label, fill)
    stored, digest = keep(partial(_outcomes, ids=samples.ids), files=[OUTCOMES])
    return Prepared(
        lambda: keep(partial(_map, label=work.label, outcomes=digest)),
        rows=np.array([each[3] for each in stored], np.int64),
        outcomes=tuple(SampleOutcome(*each[:3]) for each in stored),
        sources=np.array([each[4] for each in stored], np.int32),
        digests=tuple(each[5] for each in stored),
        sizes=np.array([each[6] for each in stored], np.int32) if preprocess.varies else None,
    )


def _outcomes(folder: Path, ids: Sequence[str]) -> tuple[list[Any], str]:
    """Read the entry of each sample, as `_fill` makes it, and the hash of all."""
    stored = json.loads((folder / OUTCOMES).read_text())
    if [each[0] for each in stored] != [*ids]:
        raise DamagedError("it holds other samples")
    return stored, Finished.read(folder).files[OUTCOMES]


def _map(folder: Path, label: str, outcomes: str) -> Pixels:
    """Map the pixels; raises `WorkspaceError` if they are not those of the ``outcomes`` read."""
    import numpy as np

    # a library may decode an image today that it failed to decode when these were read
    if Finished.read(folder).files[OUTCOMES] != outcomes:
        raise WorkspaceError(
            f"{label}: its damaged pixels were made again, and its images were decoded with other "
            "outcomes than before; run the same command again"
        )
    # mapped: processes share the pages, and the kernel drops those it needs elsewhere
    pixels: Pixels = np.load(folder / _PIXELS, mmap_mode="r")
    return pixels


def stored_rows(folder: Path) -> dict[str, int]:
    """Read the index of each sample id in the stored pixels, -1 if it has none."""
    stored = json.loads((folder / OUTCOMES).read_text())
    return {each[0]: each[3] for each in stored}


def _here(samples: Samples, preprocess: Preprocess, threads: int | None) -> Iterator[PreparedImage]:
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    # in worker processes: an image may crash a decoder
    for (found,) in take_pixels([preprocess], encoded_images(samples), processes=threads):
        yield facts_of(found), found.pixels


def _fill(
    folder: Path,
    samples: Samples,
    preprocess: Preprocess,
    images: Iterable[PreparedImage],
    progress: Callable[[int, int], None] | None,
) -> dict[str, str]:
    """Fill a folder; return the SHA-256 of its files that are known already."""
    total = len(samples)
    outcomes: list[list[Any]] = []
    with PixelFile(folder / _PIXELS, preprocess.size, total, varies=preprocess.varies) as file:
        for name, (facts, pixels) in zip(samples.ids, images, strict=True):
            row = -1 if pixels is None else file.append(pixels)
            outcome, reason, *others = facts
            outcomes.append([name, outcome, reason, row, *others])
            if progress and (len(outcomes) % _STEP == 0 or len(outcomes) == total):
                progress(len(outcomes), total)
    if not outcomes:
        raise NothingCompared("there are no images to prepare")
    if file.rows == 0:
        name, outcome, reason, *_ = outcomes[0]
        raise NothingCompared(
            f"preprocess.{preprocess.name} could prepare none of {len(outcomes)} images; "
            f"the first, {name}, {outcome}: {reason}"
        )
    (folder / OUTCOMES).write_text(json.dumps(outcomes))
    return {_PIXELS: file.sha256} if file.sha256 else {}


def facts_of(found: FinalPixels) -> list[Any]:
    """Return what is kept of an image beside its pixels, as JSON.

    Its outcome, the reason, the source, the digest and, last, its height and width; -1 without
    pixels.
    """
    # every library reads its own header: the size of the source is that of the decoded pixels
    size = (-1, -1) if found.pixels is None else found.pixels.shape[:2]
    return [found.outcome, found.reason, found.source or (-1, -1, -1), found.digest, size]


def prepare_one(
    sample: str, encoded: bytes, preprocess: Preprocess
) -> tuple[SampleOutcome, Pixels | None]:
    """Prepare one image: return its outcome, and its pixels if it has any."""
    from alignkit.preprocess.image_taps import failed_taps, result_or_reason

    taps = result_or_reason(lambda: preprocess.taps(encoded))
    if isinstance(taps, str):
        taps = failed_taps(taps)
    return SampleOutcome(sample, taps.decoded.outcome, taps.decoded.reason), taps.last


def pixel_identity(preprocess: Preprocess) -> dict[str, Any]:
    """Return what decides the pixels before normalisation: stages, options, libraries, our code."""
    stages = {k: v for k, v in preprocess.identity().items() if k != "normalise"}
    return {"stages": stages, "versions": preprocess.versions(), "code": code_version(PIXEL_LAYERS)}
