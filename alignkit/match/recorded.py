"""Tensors that a serving stack recorded: a ``.npy`` for each image, or a ``.npz`` that holds them.

A tensor belongs to the image of the same name, with or without the image's suffix and the folders
above it. `alignkit.match.target_guess` finds layout, channel order, range and normalisation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from alignkit.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.samples import Samples


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTensors:
    """The tensors of those samples that have one."""

    name: str
    rows: tuple[int, ...]
    """Indices of the samples that have a tensor, ascending."""
    read: Callable[[int], npt.NDArray[np.generic]]
    """Index of a sample → its stored tensor; may be called from threads."""
    shape: tuple[int, ...]
    """Shape of every tensor."""
    dtype: str
    without_tensor: int
    """Samples that have no tensor."""
    without_image: int
    """Tensors that belong to no sample."""


def read_recorded(folder: Path, samples: Samples) -> RecordedTensors:
    """Find each sample's tensor.

    Raises `DataError` if there is none, no tensor belongs to an image, or shapes differ.
    """
    stored = _tensors(folder)
    if not stored:
        raise DataError(f"{folder} holds no .npy and no .npz file; record one array for each image")
    by_name = {_key(name): read for name, read in stored.items()}
    if len(by_name) < len(stored):
        raise DataError(f"{folder}: two tensors have the same name; keep one for each image")
    readers: dict[int, Callable[[], Any]] = {}
    used = set()
    for index, sample in enumerate(samples.ids):
        found = next((key for key in _names(sample) if key in by_name), None)
        if found is not None:
            readers[index] = by_name[found]
            used.add(found)
    if not readers:
        raise DataError(
            f"none of {len(stored)} tensors in {folder} has the name of one of {len(samples)} "
            f"images, e.g. {next(iter(stored))!r} and {samples.ids[0]!r}; name each tensor as its "
            "image"
        )
    shape, dtype = _common(folder, samples, readers)
    return RecordedTensors(
        folder.name,
        tuple(readers),
        lambda index: readers[index](),
        shape,
        dtype,
        len(samples) - len(readers),
        len(by_name) - len(used),
    )


def _tensors(folder: Path) -> dict[str, Callable[[], Any]]:
    import numpy as np

    found: dict[str, Callable[[], Any]] = {}
    for file in sorted(folder.rglob("*.npy")):
        found[file.relative_to(folder).as_posix()] = partial(_mapped, file)
    for file in sorted(folder.rglob("*.npz")):
        with np.load(file, allow_pickle=False) as archive:
            names = archive.files
        for name in names:
            found[f"{name}.npy"] = partial(_entry, file, name)
    return found


def _mapped(file: Path) -> Any:
    import numpy as np

    return np.load(file, mmap_mode="r", allow_pickle=False)


def _entry(file: Path, name: str) -> Any:
    import numpy as np

    with np.load(file, allow_pickle=False) as archive:
        return archive[name]


def _key(tensor: str) -> str:
    return tensor.removesuffix(".npy")


def _names(sample: str) -> tuple[str, ...]:
    """Return the names a sample's tensor may have, the most exact first."""
    path = PurePosixPath(sample)
    return (sample, path.with_suffix("").as_posix(), path.name, path.stem)


def _common(
    folder: Path, samples: Samples, readers: dict[int, Callable[[], Any]]
) -> tuple[tuple[int, ...], str]:
    shapes: dict[tuple[tuple[int, ...], str], str] = {}
    for index, read in readers.items():
        try:
            tensor = read()
        except (OSError, ValueError) as error:
            raise DataError(f"{folder}: tensor of {samples.ids[index]}: {error}") from None
        shapes.setdefault((tuple(tensor.shape), str(tensor.dtype)), samples.ids[index])
    if len(shapes) > 1:
        listed = ", ".join(
            f"{shape} {dtype} of {sample}" for (shape, dtype), sample in list(shapes.items())[:3]
        )
        raise DataError(f"{folder}: the tensors have different shapes: {listed}; record one shape")
    return next(iter(shapes))
