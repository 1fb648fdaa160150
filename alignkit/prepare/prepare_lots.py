"""Preparation by workers: a lot of images → a file of pixels in the shared workspace, and its text.

A worker writes the pixels of its lot where the driver reads them, so that none passes through the
engine. The driver puts them into one file, in the order of the lots.
"""

from __future__ import annotations

import json
import logging
import platform
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import WorkspaceError
from alignkit.lots import EachImageOnce, Lot, LotEngine, LotWork, lot_parts, unseen_folder
from alignkit.prepare import PreparedImage, facts_of, pixel_identity
from alignkit.prepare.pixel_file import PixelFile
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import FinalPixels, TakePixels
from alignkit.samples import Samples
from alignkit.stored_file import (
    DamagedError,
    explained,
    file_sha256,
    read_sealed,
    sealed,
    write_atomically,
)

if TYPE_CHECKING:
    from alignkit.isolation import Limits
    from alignkit.isolation.worker import Work

logger = logging.getLogger(__name__)

_MARK = "driver"


@dataclass(slots=True)
class PreparedLot:
    """The images of a lot, in their order."""

    file: str
    """Name of the ``.npy`` file of those that have pixels."""
    facts: list[list[Any]] = field(default_factory=list)
    """See `facts_of`."""
    sha256: str = ""
    """Of the file; empty if no image has pixels, and there is none."""
    filling: PixelFile | None = field(default=None, compare=False)
    """The file while it is written, under a name of its own."""

    def __del__(self) -> None:
        """Delete the file of a lot whose work was given up."""
        if self.filling is not None:
            with suppress(OSError, ValueError):  # the disk is full, or it is closed already
                self.filling.close()
            with suppress(OSError):
                self.filling.path.unlink()

    def verify(self, folder: Path) -> None:
        """Raise `DamagedError` if the file is not what its worker wrote."""
        file = folder / self.file
        try:
            known = not self.sha256 or file_sha256(file) == self.sha256
        except FileNotFoundError:
            raise DamagedError("it is missing", file) from None
        if not known:
            raise DamagedError("it is not as its worker wrote it", file)


@dataclass(frozen=True, slots=True)
class PrepareLots(EachImageOnce):
    """The `LotWork` of a preparation."""

    preprocess: Preprocess
    folder: Path
    """Absolute; of this preparation alone."""
    mark: str
    """Content of a file in the folder, by which a worker knows it."""

    @property
    def work(self) -> Work[list[tuple[FinalPixels, ...]]]:
        """See `LotWork.work`."""
        return TakePixels(self.paths)

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """See `LotWork.paths`."""
        return (self.preprocess,)

    @property
    def limits(self) -> Limits | None:
        """See `LotWork.limits`."""
        return None

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        return {"work": "preparation", **pixel_identity(self.preprocess)}

    def images(self, result: list[tuple[FinalPixels, ...]]) -> int:
        """See `LotWork.images`."""
        return len(result)

    def empty(self, lot: Lot) -> PreparedLot:
        """Begin the file of a lot; raises `EngineMissing` if this machine has not the folder."""
        seen = ""
        with suppress(OSError):
            seen = (self.folder / _MARK).read_text()
        if seen != self.mark:
            raise unseen_folder(self.folder, "--reports", f"the worker on {platform.node()}")
        part = PreparedLot(f"lot-{lot.begin}.npy")
        # a lot whose worker was thought dead may be written twice at a time
        path = self.folder / f".{part.file}.{uuid.uuid4().hex}"
        with explained(path):
            part.filling = PixelFile(
                path, self.preprocess.size, len(lot.samples), varies=self.preprocess.varies
            )
        return part

    def add(
        self, part: PreparedLot, results: Sequence[list[tuple[FinalPixels, ...]]]
    ) -> PreparedLot:
        """See `LotWork.add`."""
        assert part.filling is not None
        for (found,) in (image for result in results for image in result):
            if found.pixels is not None:
                with explained(part.filling.path):
                    part.filling.append(found.pixels)
            part.facts.append(facts_of(found))
        return part

    def text(self, part: PreparedLot) -> str:
        """Complete the file of a lot; see `LotWork.text`."""
        if (written := part.filling) is not None:
            with explained(written.path):
                written.close()
                if written.rows:
                    part.sha256 = written.sha256 or file_sha256(written.path)
                    written.path.replace(self.folder / part.file)
                else:
                    written.path.unlink()
            part.filling = None
        return json.dumps({"file": part.file, "facts": part.facts, "sha256": part.sha256})

    def parsed(self, text: str) -> PreparedLot:
        """See `LotWork.parsed`."""
        return PreparedLot(**json.loads(text))


@dataclass(frozen=True, slots=True)
class LotFiles:
    """A `LotStore` beside the files of pixels, which are verified when they are found."""

    folder: Path
    verified: set[int] = field(default_factory=set)
    """Numbers of lots; the driver verifies each again as it uses it."""

    def _text_file(self, lot: Lot) -> Path:
        return self.folder / f"lot-{lot.begin}.json"

    def holds(self, work: LotWork[Any], lot: Lot, data: str) -> bool:
        """Tell whether a lot's pixels are stored as they were written."""
        return self.find(work, lot, data) is not None

    def find(self, work: LotWork[Any], lot: Lot, data: str) -> Any:  # noqa: ARG002
        """See `LotStore.find`; the folder is that of one data set."""
        file = self._text_file(lot)
        if not file.exists():
            return None
        try:
            part: PreparedLot = work.parsed(json.loads(read_sealed(file))["part"])
            if lot.number not in self.verified:
                part.verify(self.folder)
        except DamagedError as damage:
            file = damage.file or file
            logger.warning("%s: %s is damaged and is made again (%s)", lot, file, damage)
            return None
        self.verified.add(lot.number)
        return part

    def keep(self, work: LotWork[Any], lot: Lot, data: str, text: str) -> None:  # noqa: ARG002
        """See `LotStore.keep`."""
        write_atomically(self._text_file(lot), sealed(json.dumps({"part": text})))


def by_workers(
    samples: Samples, preprocess: Preprocess, folder: Path, engine: LotEngine
) -> Iterator[PreparedImage]:
    """Let workers prepare all images; yield each in order.

    ``folder`` is that of unfinished work; the lots that are in it already are not made again, and
    all stay until the work is stored. Raises `EngineMissing` if a worker does not see it.
    """
    import numpy as np

    mark = uuid.uuid4().hex
    write_atomically(folder / _MARK, mark)
    work = PrepareLots(preprocess, folder.resolve(), mark)
    for part in lot_parts(work, samples, engine, store=LotFiles(folder)):
        try:
            part.verify(folder)
        except DamagedError as damage:
            raise WorkspaceError(
                f"{folder / part.file}: {damage}; the same command makes it again"
            ) from None
        pixels = iter(np.load(folder / part.file, mmap_mode="r") if part.sha256 else ())
        for facts in part.facts:
            has_pixels = facts[-1][0] >= 0
            yield facts, next(pixels) if has_pixels else None
