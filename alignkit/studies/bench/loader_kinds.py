"""The loaders that are compared: image files → normalised batches, each as its users write it.

All read the same files in the same order, with as many workers. `DALI` decodes and resizes by
itself, so that only the geometry, the filter and the normalisation of a path are taken over.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import torch
from torch.utils.data import DataLoader, Dataset

from alignkit.decoders import DECODERS
from alignkit.errors import DataError
from alignkit.loader import MixedLoader, collate_encoded
from alignkit.plugins import name_of
from alignkit.prepare import prepare_one
from alignkit.record.bench_facts import LoaderRound
from alignkit.resizers import RESIZERS
from alignkit.serve.answering_process import answer_requests
from alignkit.serve.cpu_use import cpu_seconds

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess
    from alignkit.record.bench_facts import LoaderKind

_PREFETCH = 2
"""Batches that each worker of a ``DataLoader`` has ready, and that a pipeline of DALI has: the
default of both."""
_AHEAD = 4
_IDLE_SECONDS = 0.3
_IDLE_SHARE = 0.2
"""A loader whose processes compute in less than this share of that time waits for the loop."""
Batches: TypeAlias = Callable[[], Iterator[torch.Tensor]]
"""Yields all images in order, in batches of (n, 3, h, w) float32, normalised."""


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
        ready = {"DataLoader": _PREFETCH * self.workers, "MixedLoader": _AHEAD}
        return ready.get(self.kind, _PREFETCH + 1)

    @property
    def left_ready(self) -> int:
        """Batches of the next epoch that it makes at the end of one, before they are asked for."""
        return _PREFETCH + 1 if self.kind == "DALI" else 0

    def missing(self) -> str:
        """Explain why it cannot run here, or not on this path; empty if it can."""
        if self.preprocess.varies:
            return "its images differ in size, and are no batch"
        if self.kind != "DALI":
            return self.preprocess.missing()
        if self.preprocess.resize.fit == "letterbox":
            return "the pipeline has no letterbox"
        if self.preprocess.resize.fit == "none" or self.preprocess.crop.at is not None:
            return "the pipeline crops the centre, after a resize"
        space = self.preprocess.colour.space
        other = "" if space in ("rgb", "bgr") else f"the pipeline has no colour {space}"
        return DECODERS["dali"].missing() or other


def serve(channel: int) -> NoReturn:
    """Answer ``open``, ``epoch`` and ``fill`` until the caller's end of the channel is closed."""
    answer_requests(channel, partial(_answered, []), ExitStack())


def _answered(
    opened: list[tuple[LoaderOption, Batches]],
    alive: Callable[[], None],  # noqa: ARG001 - an epoch is short
    request: Literal["open", "epoch", "fill"],
    *values: LoaderOption,
) -> LoaderRound | None:
    if request == "open":
        (option,) = values
        opened.append((option, open_loader(option)))
        return None
    (only,) = opened
    if request == "epoch":
        return _timed(*only)
    _filled(only[1])
    return None


def _timed(option: LoaderOption, epoch: Batches) -> LoaderRound:
    images, seen, begun = 0, 0, time.perf_counter()
    for number, batch in enumerate(epoch(), 1):
        seen += len(batch)
        if number == option.left_ready:
            begun = time.perf_counter()
        elif number > option.left_ready:
            images += len(batch)
        del batch
    seconds = time.perf_counter() - begun
    if seen != len(option.files):
        raise DataError(f"an epoch of {len(option.files)} images gave {seen}")
    # cycles would be freed at any time, and the readings of memory would differ by them
    gc.collect()
    return LoaderRound(images=images, seconds=seconds)


def _filled(epoch: Batches) -> None:
    """Take a batch, and wait until nothing computes: the queues are full; then take the rest."""
    for number, batch in enumerate(epoch()):
        used = cpu_seconds(os.getpid()) or 0.0
        while not number:
            time.sleep(_IDLE_SECONDS)
            before, used = used, cpu_seconds(os.getpid()) or 0.0
            if used - before < _IDLE_SHARE * _IDLE_SECONDS:
                break
        del batch


def open_loader(option: LoaderOption) -> Batches:
    """Make a loader; raises as its library does."""
    if option.kind == "DALI":
        return _dali(option)
    return (_of_torch if option.kind == "DataLoader" else _of_threads)(option)


@dataclass(frozen=True, slots=True)
class _Files(Dataset[Any]):
    files: Sequence[str]
    path: Preprocess | None
    """Along which they become tensors; ``None`` for their bytes."""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        file = self.files[index]
        data = Path(file).read_bytes()
        if self.path is None:
            return data, 0, file
        outcome, pixels = prepare_one(file, data, self.path)
        if pixels is None:
            raise DataError(f"{file} was decoded before, and not now: {outcome.reason}")
        return torch.from_numpy(self.path.normalise(pixels))


def _of_torch(option: LoaderOption) -> Batches:
    """Make torch's ``DataLoader``, whose worker processes decode and stay between epochs."""
    loader = DataLoader(
        _Files(option.files, option.preprocess),
        option.batch,
        num_workers=option.workers,
        prefetch_factor=_PREFETCH,
        persistent_workers=True,
    )
    return loader.__iter__


def _of_threads(option: LoaderOption) -> Batches:
    """Make alignkit's `MixedLoader`, with one path for all images: threads decode and resize."""
    encoded = DataLoader(_Files(option.files, None), option.batch, collate_fn=collate_encoded)
    path = option.preprocess
    loader = MixedLoader(encoded, path, path, share=1.0, threads=option.workers, ahead=_AHEAD)

    def epoch() -> Iterator[torch.Tensor]:
        for batch in loader:
            if batch.failed:
                lost = batch.failed[0]
                raise DataError(f"{lost.id} was decoded before, and not now: {lost.reason}")
            yield batch.images

    return epoch


_FILTERS = {"nearest": "NN", "nn": "NN", "cubic": "CUBIC", "lanczos": "LANCZOS3"}
"""Part of the name of a resizer's filter → DALI's nearest; linear for all others."""


def dali_filter(path: Preprocess) -> tuple[str, bool]:
    """Return DALI's interpolation for a path's resizer, and whether it widens when shrinking."""
    resizer = path.resize.resizer
    options = (getattr(resizer, each, "") for each in ("interpolation", "filter", "mode"))
    named = next(map(str, filter(None, options)), "linear")
    widens = name_of(resizer, RESIZERS).startswith("pillow") or named == "area"
    kind = next((kind for part, kind in _FILTERS.items() if part in named), "LINEAR")
    return kind, bool(getattr(resizer, "antialias", widens))


def _dali(option: LoaderOption) -> Batches:
    """Make a pipeline of NVIDIA DALI on the CPU, read by its iterator for PyTorch."""
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
    batches: Iterable[Any] = DALIGenericIterator(
        [pipeline],
        ["images"],
        reader_name="files",
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )
    return lambda: (outputs["images"] for (outputs,) in batches)


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
