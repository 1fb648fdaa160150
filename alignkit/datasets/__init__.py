"""Data sets: labelled encoded images, as a training and an evaluation `Samples`.

The contract every data set keeps, and the conformance tests check:

- a frozen dataclass; its fields are its options; the same options and files give the same samples
  in the same order on every machine;
- ``training()`` and ``evaluation()`` share ``classes`` and no sample;
- files of the user's are read, never written, moved or deleted;
- ``fingerprint()`` changes if any byte or label does, and is quick, so that `plan` can call it;
  ``training().fingerprint`` is ``fingerprint("train")``, known without making the samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split


class Dataset(Protocol):
    """A frozen dataclass; its fields are its options."""

    def training(self) -> Samples:
        """The samples models are trained on."""
        ...

    def evaluation(self) -> Samples:
        """The samples every path and backend is evaluated on."""
        ...

    def counts(self) -> tuple[int, int]:
        """How many samples the two have, without making or reading them."""
        ...

    def fingerprint(self, split: Split | None = None) -> str:
        """SHA-256 hex over the content that a split, or both, consist of."""
        ...

    def version(self) -> str:
        """What besides the options the samples depend on, in words."""
        ...

    def notes(self) -> Iterable[str]:
        """What is no error but should be known of the data; shown in the report."""
        ...


DATASETS = {
    "digits-on-photos": Plugin(
        "alignkit.datasets.digits_on_photos:DigitsOnPhotos",
        distributions=("scikit-learn",),
        module="sklearn",
        summary="handwritten digits on photographs, made here as JPEG files; no download",
    ),
    "folder": Plugin(
        "alignkit.datasets.folder:Folder",
        summary="your own images: ROOT/{train,eval}/<class>/…, or ROOT/<class>/… split by a seed",
    ),
    "images": Plugin(
        "alignkit.datasets.images:Images",
        summary="unlabelled images, from a folder or by name; for diff",
    ),
}
