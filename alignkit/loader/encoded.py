"""Input of a `MixedLoader`: batches of encoded images, and a data set that returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from alignkit.errors import DataError
from alignkit.samples import Samples


class Unread(str):
    """Reason why an image was not read, in place of its bytes; any ``collate_fn`` keeps text."""

    __slots__ = ()


class EncodedBatch(NamedTuple):
    """Batch of the wrapped loader."""

    images: Sequence[bytes | Unread]
    labels: Sequence[int]
    """Numbers, or values that ``int`` takes, such as the tensor that a ``DataLoader`` makes."""
    ids: Sequence[str] | None = None
    """Seeds of each image's draws; without ids, its number in the epoch is used."""


def checked(batch: Any, number: int) -> EncodedBatch:
    """Return a batch of encoded images, or raise `DataError`; ``number`` counts from 1."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise DataError(f"batch {number} is not (images, labels) or (images, labels, ids)")
    encoded = EncodedBatch(*batch)
    if len({len(each) for each in batch}) > 1:
        raise DataError(f"batch {number} has {' and '.join(str(len(each)) for each in batch)} of "
                        "images, labels and ids")  # fmt: skip
    for position, image in enumerate(encoded.images):
        if not isinstance(image, bytes | Unread):
            raise DataError(
                f"batch {number}, image {position + 1} is {type(image).__name__}, not the bytes "
                "of an encoded image: let the data set read files, not decode them"
            )
    return encoded


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """`Samples` as a map-style data set of (encoded bytes, label, id) for a ``DataLoader``.

    A file that can no longer be read is one failed image and does not end the loop.
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
    """Collate (encoded bytes, label) or (…, label, id), as ``collate_fn`` of a ``DataLoader``."""
    return EncodedBatch(*(list(column) for column in zip(*items, strict=True)))
