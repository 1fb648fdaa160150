"""Outputs of a runtime for a batch → the outputs that a session returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.tasks import Outputs


def as_outputs(arrays: Iterable[npt.NDArray[Any]]) -> Outputs:
    """Return the arrays as float32, where that is exact: labels and class maps are whole numbers.

    Float64 stays as it is, which `alignkit.predict` refuses. Raise `BackendError` for whole
    numbers that float32 cannot hold.
    """
    return tuple(map(_widened, arrays))


def _widened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    import numpy as np

    from alignkit.arrays import require_exact

    if array.dtype.kind in "iu" and array.size:
        require_exact(int(array.min()), int(array.max()))
    exact = array.dtype.kind in "iub" or array.dtype == np.float16
    return array.astype(np.float32) if exact else array


def in_pieces(
    batch: Batch,
    fixed: int | None,
    run: Callable[[Batch], Outputs],
    declared: Sequence[tuple[int | None, ...] | None] = (),
) -> Outputs:
    """Run a batch, for a graph that takes ``fixed`` images at once in pieces of so many.

    Exports are often made for one image. ``declared`` are the shapes of the outputs, ``None`` for a
    side that varies or an unknown shape: an output of `gives_lists` gets an axis of images. Raise
    `BackendError` for a batch that cannot be divided.
    """
    if fixed is None:
        return run(batch)
    if len(batch) % fixed:
        raise BackendError(
            f"the graph takes exactly {fixed} images at once, and a batch has {len(batch)}; export "
            "it with a free number of images, or for one"
        )
    pieces = [run(batch[start : start + fixed]) for start in range(0, len(batch), fixed)]
    if fixed == 1 and gives_lists(declared):
        pieces = [tuple(each[None] for each in piece) for piece in pieces]
    return joined(pieces)


def gives_lists(declared: Sequence[tuple[int | None, ...] | None]) -> bool:
    """Tell whether a graph of one image gives lists of objects, without an axis of images.

    torchvision's detectors are exported so: boxes (k, 4), labels (k,) and scores (k,). If the only
    axis of an output is that of one image, its length is 1.
    """
    return any(shape is not None and len(shape) == 1 and shape != (1,) for shape in declared)


def joined(pieces: Sequence[Outputs]) -> Outputs:
    """Join the outputs of pieces of a batch."""
    return tuple(map(_joined, zip(*pieces, strict=True)))


def _joined(pieces: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Join an output's pieces; images with fewer objects are padded with NaN, as torch's are."""
    import numpy as np

    if len(pieces) == 1:
        return pieces[0]
    if len({each.shape[1:] for each in pieces}) == 1 or pieces[0].ndim < 2:
        return np.concatenate(pieces)
    most = max(each.shape[1] for each in pieces)
    return np.concatenate([_padded(each, most) for each in pieces])


def _padded(piece: npt.NDArray[np.float32], objects: int) -> npt.NDArray[np.float32]:
    import numpy as np

    missing = [(0, 0), (0, objects - piece.shape[1])] + [(0, 0)] * (piece.ndim - 2)
    return np.pad(piece, missing, constant_values=np.nan)


def wanted_names(wanted: Sequence[str], present: Sequence[str]) -> list[str]:
    """Return the names of the wanted outputs, by default the only one.

    Raise `BackendError` if one is not ``present``, or none is named of several.
    """
    known = ", ".join(present)
    if absent := [name for name in wanted if name not in present]:
        raise BackendError(f"it has no output {absent[0]!r}; its outputs are {known}")
    if not wanted and len(present) != 1:
        raise BackendError(
            f"it has {len(present)} outputs ({known}); name the wanted ones as the model's "
            "'outputs'"
        )
    return list(wanted or present)
