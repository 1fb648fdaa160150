"""`Samples`: encoded images, labelled or not, in a fixed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from alignkit.errors import DataError

Split = Literal["train", "eval"]
NO_LABELS = "the images have no labels"
"""Why a metric that needs labels has no value."""
UNLABELLED = f"{NO_LABELS}: no recall, precision or top-1 accuracy"
"""Remark on a run of given models on unlabelled images, on every surface."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Encoded images with their labels, if any. Cheap to hold: bytes are read on demand."""

    ids: tuple[str, ...]
    """Unique, stable, readable; for a folder the path relative to its root."""
    labels: tuple[int, ...]
    """Index into ``classes`` of each sample; empty if the images are not labelled."""
    classes: tuple[str, ...]
    """Class names, in the order of the model's outputs; empty if the images are not labelled."""
    read: Callable[[int], bytes]
    """Function from an index to the sample's encoded bytes, or to an `UnreadableImage` that it
    raises; may be called from threads."""
    fingerprint: str
    """SHA-256 hex over ids, labels and bytes."""

    def __post_init__(self) -> None:
        if self.labels and len(self.labels) != len(self.ids):
            raise DataError(f"{len(self.ids)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, indices: Sequence[int]) -> Samples:
        """Select the samples at ``indices``, in that order, with a fingerprint of their own."""
        chosen = tuple(indices)
        return Samples(
            ids=tuple(self.ids[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen) if self.labels else (),
            classes=self.classes,
            # the bytes stay where they are; a selection of all images costs no memory
            read=lambda index: self.read(chosen[index]),
            fingerprint=selection_fingerprint(self.fingerprint, chosen),
        )


def selection_fingerprint(fingerprint: str, indices: Sequence[int]) -> str:
    """Return the fingerprint, SHA-256 in hex, of the samples at ``indices`` of a data set's."""
    # of the selection, not of its bytes: nothing is read to take a part of a data set
    return hashlib.sha256(json.dumps([fingerprint, [*indices]]).encode()).hexdigest()
