"""The loaders that are compared: image files → normalised batches, each as its users write it.

All read the same files in the same order, with as many workers. `DALI` decodes and resizes by
itself, so that only the geometry, the filter and the normalisation of a path are taken over.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from alignkit.decoders import DECODERS
from alignkit.errors import DataError, WorkerError
from alignkit.loader import MixedLoader, collate_encoded
from alignkit.plugins import name_of
from alignkit.prepare import prepare_one
from alignkit.resizers import RESIZERS

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from alignkit.preprocess import Preprocess
    from alignkit.record.loader_facts import LoaderKind

_PREFETCH = 2
"""Batches that each worker of a ``DataLoader`` has ready, and that a pipeline of DALI has: the
default of both."""


@dataclass(frozen=True, slots=True)
class LoaderOption:
    """A loader of one path; it can be pickled."""

    kind: LoaderKind
    preprocess: Preprocess
    files: tuple[str, ...]
    """Encoded images, in order."""
    batch: int
    workers: int
    """Processes of a ``DataLoader``; threads of the others."""

    @property
    def ready_batches(self) -> int:
        """Batches that wait at most while the loop has one."""
        return {
            "DataLoader": _PREFETCH * self.workers,
            "MixedLoader": _AHEAD,
            "DALI": _PREFETCH + 1,
        }[self.kind]

    @property
    def left_ready(self) -> int:
        """Batches of the next epoch that it makes at the end of one, before they are asked for."""
        return _PREFETCH + 1 if self.kind == "DALI" else 0

    def missing(self) -> str:
        """Explain why it cannot run here, or not on this path; empty if it can."""
        if self.kind != "DALI":
            return self.preprocess.missing()
        return DECODERS["dali"].missing() or dali_cannot(self.preprocess)


_AHEAD = 4


class Loader(Protocol):
    """Batches of an epoch: (n, 3, h, w) float32, normalised."""

    def epoch(self) -> Iterator[torch.Tensor]:
        """Yield the batches of all images, in order."""
        ...

    def facts(self) -> dict[str, str]:
        """Return the versions and numbers of what runs."""
        ...


def open_loader(option: LoaderOption) -> Loader:
    """Make a loader; raises as its library does."""
    kinds: dict[LoaderKind, type[Any]] = {
        "DataLoader": _TorchLoader,
        "MixedLoader": _MixedThreads,
        "DALI": _DaliPipeline,
    }
    loader: Loader = kinds[option.kind](option)
    return loader


@dataclass(frozen=True, slots=True)
class _Tensors(Dataset[torch.Tensor]):
    files: Sequence[str]
    path: Preprocess

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        file = self.files[index]
        outcome, pixels = prepare_one(file, Path(file).read_bytes(), self.path)
        if pixels is None:
            raise DataError(f"{file} was decoded before, and not now: {outcome.reason}")
        return torch.from_numpy(self.path.normalise(pixels))


@dataclass(frozen=True, slots=True)
class _Bytes(Dataset[tuple[bytes, int, str]]):
    files: Sequence[str]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        file = self.files[index]
        return Path(file).read_bytes(), 0, file


class _TorchLoader:
    """torch's ``DataLoader``: worker processes decode and resize, and stay between epochs."""

    def __init__(self, option: LoaderOption) -> None:
        self._loader = DataLoader(
            _Tensors(option.files, option.preprocess),
            option.batch,
            num_workers=option.workers,
            prefetch_factor=_PREFETCH,
            persistent_workers=True,
        )

    def epoch(self) -> Iterator[torch.Tensor]:
        batches = iter(self._loader)
        workers = active_children()
        try:
            yield from batches
        except RuntimeError as error:
            # torch names the signal of a worker only if it learns of its death by the signal
            if deaths := [_signal(each) for each in workers if (each.exitcode or 0) < 0]:
                raise WorkerError(f"{error}: {deaths[0]}") from error
            raise

    def facts(self) -> dict[str, str]:
        return {"torch": torch.__version__, "prefetch_factor": str(_PREFETCH)}


def _signal(worker: BaseProcess) -> str:
    number = -(worker.exitcode or 0)
    # nobody else kills it
    if number == signal.SIGKILL:
        return "out of memory: killed by the system"
    return f"crashed: {signal.Signals(number).name}"


class _MixedThreads:
    """alignkit's `MixedLoader`, with one path for all images: threads decode and resize."""

    def __init__(self, option: LoaderOption) -> None:
        encoded = DataLoader(_Bytes(option.files), option.batch, collate_fn=collate_encoded)
        path = option.preprocess
        self._loader = MixedLoader(
            encoded, path, path, share=1.0, threads=option.workers, ahead=_AHEAD
        )

    def epoch(self) -> Iterator[torch.Tensor]:
        for batch in self._loader:
            if batch.failed:
                lost = batch.failed[0]
                raise DataError(f"{lost.id} was decoded before, and not now: {lost.reason}")
            yield batch.images

    def facts(self) -> dict[str, str]:
        return {"torch": torch.__version__, "ahead": str(_AHEAD)}


_FILTERS = {
    "nearest": "NN", "linear": "LINEAR", "linear-exact": "LINEAR", "bilinear": "LINEAR",
    "area": "LINEAR", "cubic": "CUBIC", "bicubic": "CUBIC", "lanczos": "LANCZOS3",
    "lanczos4": "LANCZOS3", "nn": "NN", "lanczos3": "LANCZOS3",
}  # fmt: skip
"""Filter of a resizer → DALI's nearest."""


def dali_cannot(path: Preprocess) -> str:
    """Explain why no pipeline of DALI has a path's geometry; empty if one has."""
    if path.resize.fit == "letterbox":
        return "the pipeline has no letterbox"
    if path.resize.fit == "none" or path.crop.at is not None:
        return "the pipeline crops the centre, after a resize"
    if path.colour.space not in ("rgb", "bgr"):
        return f"the pipeline has no colour {path.colour.space}"
    return ""


def dali_filter(path: Preprocess) -> tuple[str, bool]:
    """Return DALI's interpolation for a path's resizer, and whether it widens when shrinking."""
    resizer = path.resize.resizer
    named = next(
        (
            str(getattr(resizer, field))
            for field in ("interpolation", "filter", "mode")
            if hasattr(resizer, field)
        ),
        "linear",
    )
    widens = name_of(resizer, RESIZERS).startswith("pillow") or named == "area"
    return _FILTERS.get(named, "LINEAR"), bool(getattr(resizer, "antialias", widens))


class _DaliPipeline:
    """A pipeline of NVIDIA DALI on the CPU, read by its iterator for PyTorch."""

    def __init__(self, option: LoaderOption) -> None:
        from nvidia.dali import pipeline_def
        from nvidia.dali.plugin.base_iterator import LastBatchPolicy
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        pipeline = pipeline_def(_dali_stages)(
            option,
            batch_size=option.batch,
            num_threads=option.workers,
            device_id=None,
            prefetch_queue_depth=_PREFETCH,
        )
        self._iterator: Iterable[Any] = DALIGenericIterator(
            [pipeline],
            ["images"],
            reader_name="files",
            last_batch_policy=LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )
        self._filter = dali_filter(option.preprocess)

    def epoch(self) -> Iterator[torch.Tensor]:
        for (outputs,) in self._iterator:
            yield outputs["images"]

    def facts(self) -> dict[str, str]:
        import nvidia.dali

        name, antialias = self._filter
        return {
            "dali": nvidia.dali.__version__,
            "device": "cpu",
            "interpolation": name.lower(),
            "antialias": str(antialias).lower(),
            "prefetch_queue_depth": str(_PREFETCH),
        }


def _dali_stages(option: LoaderOption) -> Any:
    from nvidia.dali import fn, types

    path = option.preprocess
    # the last batch is filled up, so that every epoch begins with the first image
    encoded, _ = fn.readers.file(files=list(option.files), name="files", pad_last_batch=True)
    # EXIF is read by most decoders of a path, and its turn is a stage of its own there
    image = fn.decoders.image(
        encoded,
        device="cpu",
        output_type=types.BGR if path.colour.space == "bgr" else types.RGB,
        adjust_orientation=path.decode.orients or path.orient.policy == "exif",
    )
    name, antialias = dali_filter(path)
    size = (
        {"resize_shorter": min(path.resize.size)}
        if path.resize.fit == "shorter"
        else {"size": list(path.resize.size)}
    )
    kind = getattr(types.DALIInterpType, f"INTERP_{name}")
    image = fn.resize(image, **size, interp_type=kind, antialias=antialias)
    return fn.crop_mirror_normalize(
        image,
        crop=path.size,
        mean=[255 * each for each in path.normalise.mean],
        std=[255 * each for each in path.normalise.std],
        output_layout="CHW",
        dtype=types.FLOAT,
    )
