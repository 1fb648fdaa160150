"""What a `MixedLoader` takes: batches of encoded images, and a data set that gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from alignkit.errors import DataError
from alignkit.samples import Samples


class Unread(str):
    """Why an image was not read, in place of its bytes; text, which any ``collate_fn`` keeps."""

    __slots__ = ()


class EncodedBatch(NamedTuple):
    """A batch of the wrapped loader."""

    images: Sequence[bytes | Unread]
    labels: Sequence[int]
    """Or anything ``int`` takes, as the tensor a ``DataLoader`` makes of numbers."""
    ids: Sequence[str] | None = None
    """What the draws of each image follow from; without them, its number in the epoch."""


def checked(batch: Any, number: int) -> EncodedBatch:
    """Raises `DataError` for what is no batch of encoded images; ``number`` counts from 1."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise DataError(f"batch {number} is not (images, labels) or (images, labels, ids)")
    given = EncodedBatch(*batch)
    if len({len(each) for each in batch}) > 1:
        raise DataError(f"batch {number} has {' and '.join(str(len(each)) for each in batch)} of "
                        "images, labels and ids")  # fmt: skip
    for position, image in enumerate(given.images):
        if not isinstance(image, bytes | Unread):
            raise DataError(
                f"batch {number}, image {position + 1} is {type(image).__name__}, not the bytes "
                "of an encoded image: let the data set read files, not decode them"
            )
    return given


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """`Samples` as a map-style data set of (encoded bytes, label, id) for a ``DataLoader``.

    A file that cannot be read any more is one image that failed, and not the end of the loop.
    """

    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[bytes | Unread, int, str]:
        try:
            encoded: bytes | Unread = self.samples.read(index)
        except DataError as error:
            encoded = Unread(error)
        return encoded, self.samples.labels[index], self.samples.ids[index]


def collate_encoded(items: Sequence[tuple[Any, ...]]) -> EncodedBatch:
    """``collate_fn`` of a ``DataLoader`` over (encoded bytes, label) or (…, label, id)."""
    return EncodedBatch(*(list(column) for column in zip(*items, strict=True)))
