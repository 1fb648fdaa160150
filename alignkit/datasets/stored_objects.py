"""Images below a URL: an object of the store for each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from alignkit.datasets.byte_store import ByteStore, StoredFile, stored_images
from alignkit.datasets.listed_images import too_large
from alignkit.samples import ImageReads


@dataclass(frozen=True, slots=True)
class PlaceReads:
    """Images by file, offset and length."""

    store: ByteStore
    files: tuple[str, ...]
    of: array[int]
    """Index of each image's file."""
    starts: array[int]
    lengths: array[int]
    """Bytes; -1 for a whole file whose size the store does not tell."""

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image, or raise as `ByteStore.read`."""
        length = self.lengths[index]
        file = self.files[self.of[index]]
        return self.store.read(file, self.starts[index], None if length < 0 else length)

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        of, starts, lengths = (
            array("q", [each[index] for index in indices])
            for each in (self.of, self.starts, self.lengths)
        )
        used = sorted({*of})
        place = {each: new for new, each in enumerate(used)}
        return type(self)(
            self.store,
            tuple(self.files[each] for each in used),
            array("q", [place[each] for each in of]),
            starts,
            lengths,
        )


@dataclass(frozen=True, slots=True)
class StoredObjects:
    """`ImageSource` of the images below a URL; labels are their folders."""

    store: ByteStore
    names: tuple[str, ...]
    stamps: tuple[str, ...]
    sizes: array[int]
    faults: dict[int, str]
    labels: tuple[str, ...] = field(default=(), init=False)
    classes: tuple[str, ...] = field(default=(), init=False)

    def reads(self) -> ImageReads:
        """Return the bytes of whole objects."""
        count = len(self.names)
        return PlaceReads(
            self.store, self.names, array("q", range(count)), array("q", bytes(8 * count)),
            self.sizes,
        )  # fmt: skip


def stored_objects(store: ByteStore, listing: dict[str, StoredFile]) -> StoredObjects:
    """Return the images among the files of a store."""
    names = stored_images(listing)
    stored = [listing[name] for name in names]
    return StoredObjects(
        store,
        tuple(names),
        tuple(each.stamp for each in stored),
        array("q", [-1 if each.size is None else each.size for each in stored]),
        {row: fault for row, each in enumerate(stored) if (fault := too_large(each.size))},
    )
