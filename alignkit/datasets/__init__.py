"""Data set plugins: image files of a folder, labelled or unlabelled, or digits on photos.

The contract that every data set keeps and the conformance tests check:

- a frozen dataclass; its fields are its options; the same options and files give the same samples
  in the same order on every machine;
- ``training()`` and ``evaluation()`` share ``classes`` and no sample;
- the user's files are read, never written, moved or deleted;
- ``fingerprint(split)`` changes if any byte or label does, and is quick, so that `plan` can call
  it; it is the fingerprint of the split's samples, known without making them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from alignkit.plugins import Plugin, PluginTable

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split


class Dataset(Protocol):
    """Data set plugin: a frozen dataclass whose fields are its options."""

    def training(self) -> Samples:
        """Return the samples on which models are trained."""
        ...

    def evaluation(self) -> Samples:
        """Return the samples on which every path and backend is evaluated."""
        ...

    def counts(self) -> tuple[int, int]:
        """Count the samples of both splits, without making or reading them."""
        ...

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the content of one split."""
        ...

    def undivided(self) -> Dataset:
        """Return the data set that keeps no image for training; used where none is needed."""
        return self

    def choice(self) -> str:
        """Say in words which images are evaluated; empty if the options say it."""
        return ""

    def class_names(self) -> tuple[str, ...]:
        """Return ``classes``, without listing images; empty if they are not known here."""
        return ()

    def version(self) -> str:
        """Describe in words the dependencies of the samples besides the options."""
        ...

    def notes(self) -> Iterable[str]:
        """Return remarks on the data that are no errors; the report shows them."""
        return ()


DATASETS = PluginTable(
    "datasets",
    {
        "digits-on-photos": Plugin(
            "alignkit.datasets.digits_on_photos:DigitsOnPhotos",
            distributions=("scikit-learn",),
            module="sklearn",
            extra="train",
            summary="handwritten digits on photographs, made here as JPEG files; no download",
        ),
        "folder": Plugin(
            "alignkit.datasets.folder:Folder",
            summary="your images: ROOT/{train,eval}/<class>/…, or ROOT/<class>/… split by a seed",
        ),
        "images": Plugin(
            "alignkit.datasets.unlabelled_images:Images",
            summary="unlabelled images, from a folder or by name: for pixels and given models",
        ),
    },
)
