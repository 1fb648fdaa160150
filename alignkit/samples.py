"""`Samples`: encoded images, labelled or not, in a fixed order."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

from alignkit.errors import DataError, UnreadableImage

if TYPE_CHECKING:
    from alignkit.annotations import Annotation, Pairs

Split = Literal["train", "eval"]
Truth = Literal["class", "boxes", "mask", "labels", "none"]
"""Knowledge of each image: its class, its `Boxes`, its `Mask`, its `LabelSet`, nothing."""
NO_LABELS = "the images have no labels"
"""Why a metric that needs labels has no value."""
OUTPUTS_AS_CLASSES = "outputs read as class scores; alignkit measures image classifiers"
"""Remark on outputs that nothing names as classes: an embedding has outputs too."""
UNLABELLED = f"{NO_LABELS}: no recall, precision or top-1 accuracy; {OUTPUTS_AS_CLASSES}"
"""Remark on a run of given models on unlabelled images, on every surface."""


class ImageReads(Protocol):
    """The encoded images of `Samples`, read on demand: a value that survives pickle.

    It holds places and no bytes, unless the images are in memory alone. Threads may share it.
    """

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image.

        Raise `UnreadableImage` if it cannot be read, and `ChangedImage` if it is not as listed.
        """
        ...

    def only(self, indices: Sequence[int], /) -> ImageReads:
        """Select images, in that order; the value holds no place of any other image."""
        ...


@runtime_checkable
class KnownDigests(Protocol):
    """Images that were hashed when they were listed."""

    def sha256s(self) -> Sequence[str]:
        """Return the SHA-256 of each image, in hex; empty for one that cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class HeldImages:
    """Images that are in memory."""

    images: tuple[bytes, ...]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image."""
        return self.images[index]

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        return replace(self, images=tuple(self.images[index] for index in indices))


@dataclass(frozen=True, slots=True)
class JoinedReads:
    """Images of several sources, in any order."""

    parts: tuple[ImageReads, ...]
    places: tuple[tuple[int, int], ...]
    """Of each image: its part, and its index there."""

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image, from its part."""
        part, row = self.places[index]
        return self.parts[part](row)

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order; each part keeps those alone."""
        rows: list[list[int]] = [[] for _ in self.parts]
        places = []
        for part, row in (self.places[index] for index in indices):
            places.append((part, len(rows[part])))
            rows[part].append(row)
        parts = tuple(each.only(chosen) for each, chosen in zip(self.parts, rows, strict=True))
        return replace(self, parts=parts, places=tuple(places))


@dataclass(frozen=True, slots=True)
class FunctionReads:
    """Images that a function returns; the value survives pickle if the function does."""

    function: Callable[[int], bytes]
    rows: Sequence[int] | None = None
    """The function's argument for each image; ``None`` if it is the image's index."""

    def __call__(self, index: int, /) -> bytes:
        """Call the function."""
        return self.function(index if self.rows is None else self.rows[index])

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        rows = tuple(each if self.rows is None else self.rows[each] for each in indices)
        return replace(self, rows=rows)


@dataclass(frozen=True, slots=True)
class Samples:
    """Encoded images with their labels, if any. Cheap to hold: bytes are read on demand."""

    ids: tuple[str, ...]
    """Unique, stable, readable; for a folder the path relative to its root."""
    labels: tuple[int, ...]
    """Index into ``classes`` of each sample; empty if its truth is not a class."""
    classes: tuple[str, ...]
    """Class names, in the order of the model's outputs; empty if the images are not labelled."""
    read: ImageReads
    """Returns the encoded bytes of the sample with an index, or raises `UnreadableImage`."""
    fingerprint: str
    """SHA-256 hex over ids, labels, annotations, pairs and bytes."""
    annotations: tuple[Annotation, ...] = ()
    """One of each sample, all of one kind; empty if the images have classes or no labels."""
    pairs: Pairs | None = None
    """Pairs for verification, if the data gives some."""

    def __post_init__(self) -> None:
        # a plugin or a user's program may give a plain function
        if not hasattr(self.read, "only"):
            object.__setattr__(self, "read", FunctionReads(self.read))
        for known in (self.labels, self.annotations):
            if known and len(known) != len(self.ids):
                raise DataError(f"{len(self.ids)} images but {len(known)} labels")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def truth(self) -> Truth:
        """Kind of the annotations or labels; ``none`` only if there are no classes."""
        if self.annotations:
            return self.annotations[0].truth
        return "class" if self.classes else "none"

    def take(self, indices: Sequence[int]) -> Samples:
        """Select the samples at ``indices``, in that order, with a fingerprint of their own."""
        chosen = tuple(indices)
        return Samples(
            ids=tuple(self.ids[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen) if self.labels else (),
            annotations=tuple(self.annotations[i] for i in chosen) if self.annotations else (),
            classes=self.classes,
            # the bytes stay where they are
            read=self.read.only(chosen),
            # of the selection, not of its bytes: nothing is read to take a part of a data set
            fingerprint=hashlib.sha256(json.dumps([self.fingerprint, chosen]).encode()).hexdigest(),
            pairs=self.pairs.take(chosen) if self.pairs is not None else None,
        )


def copies_among(ids: Sequence[str], digests: Sequence[str]) -> dict[str, str]:
    """Map each image with the pixels of an earlier one to the first of these, by id.

    ``digests`` are `alignkit.decoders.Decoded.digest` of the images, or empty: nothing is known.
    """
    first: dict[str, str] = {}
    found = {}
    for name, digest in zip(ids, digests, strict=True) if digests else ():
        if digest and first.setdefault(digest, name) != name:
            found[name] = first[digest]
    return found


def digests(samples: Samples) -> Iterable[str]:
    """Yield the SHA-256 of each image, in hex; empty for one that cannot be read."""
    if isinstance(samples.read, KnownDigests):
        yield from samples.read.sha256s()
        return
    for index in range(len(samples)):
        try:
            yield hashlib.sha256(samples.read(index)).hexdigest()
        except UnreadableImage:
            yield ""


def choose(names: Iterable[str], count: int, seed: int) -> set[str]:
    """Choose ``count`` of the names by the order of their hashes.

    The choice is the same on every machine, and nearly the same after a name is added or removed.
    """
    ordered = sorted(names, key=lambda name: hashlib.sha256(os.fsencode(f"{seed}/{name}")).digest())
    return set(ordered[:count])
