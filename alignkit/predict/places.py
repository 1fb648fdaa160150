"""Where the pixels of a batch's images lie in the model's input; computed for those who ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, overload

from alignkit.errors import BackendError
from alignkit.preprocess.geometry import Geometry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.prepare import Prepared
    from alignkit.preprocess import Preprocess


@dataclass(frozen=True, slots=True, eq=False)
class PathPlaces(Sequence[Geometry]):
    """The places of images that a path prepared."""

    prepared: Prepared
    preprocess: Preprocess
    indices: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Geometry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Geometry]: ...

    def __getitem__(self, index: Any) -> Geometry | Sequence[Geometry]:
        if isinstance(index, slice):
            return self.prepared.places(self.indices[index], self.preprocess)
        return self.prepared.places([self.indices[index]], self.preprocess)[0]


@dataclass(frozen=True, slots=True)
class UnknownPlaces(Sequence[Geometry]):
    """The places of images that a runtime prepares by itself: nobody else knows them."""

    images: int

    def __len__(self) -> int:
        return self.images

    @overload
    def __getitem__(self, index: int) -> Geometry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Geometry]: ...

    def __getitem__(self, index: Any) -> NoReturn:
        raise BackendError(
            "this runtime prepares the images by itself, so where its boxes or masks lie in them "
            "is not known; evaluate the model in a runtime that receives a path's images"
        )
