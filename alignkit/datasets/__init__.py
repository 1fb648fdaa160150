"""Data set plugins: images with classes, boxes, masks, labels or nothing, or made here.

The contract that every data set keeps and `alignkit.testing` checks:

- a frozen dataclass; its fields are its options; the same options and files give the same samples
  in the same order on every machine;
- ``training()`` and ``evaluation()`` share no sample, and ``classes`` unless it is ``held_out``:
  then classes are identities, such as persons, each split has its own, and the same name in both is
  the same identity;
- the user's files are read, never written, moved or deleted;
- ``fingerprint(split)`` changes if any byte, label or annotation does, and is quick, so that `plan`
  can call it; it is the fingerprint of the split's samples, known without making them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from alignkit.plugins import Plugin, PluginTable

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split, Truth


class Dataset(Protocol):
    """Data set plugin: a frozen dataclass whose fields are its options."""

    @property
    def truth(self) -> Truth:
        """Kind of its knowledge of each image; a task says which of these it takes."""
        return "class"

    @property
    def training_truth(self) -> Truth:
        """Kind of its knowledge of each training image; ``truth`` is of evaluation."""
        return self.truth

    @property
    def held_out(self) -> bool:
        """Whether its classes are identities, of which each split has its own."""
        return False

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
        """Return ``classes`` of evaluation, without listing images; empty if unknown here."""
        return ()

    def trained_names(self) -> tuple[str, ...]:
        """Return ``classes`` of training, as `class_names` does those of evaluation."""
        return self.class_names()

    def unnamed(self) -> str:
        """Say why `class_names` or `trained_names` is empty; empty if nothing hinders them."""
        return ""

    def version(self) -> str:
        """Describe in words the dependencies of the samples besides the options."""
        ...

    def first_look(self) -> Iterable[str]:
        """Return what may be wrong with the first annotation of evaluation; `check` shows it.

        Data that is not on this machine gives nothing.
        """
        return ()

    def notes(self) -> Iterable[str]:
        """Return remarks on the data that are no errors; the report shows them."""
        return ()


LISTINGS: ContextVar[dict[tuple[Path, str], Any] | None] = ContextVar("LISTINGS", default=None)
"""The roots that were listed within `listed_once`."""


@contextmanager
def listed_once() -> Iterator[None]:
    """List each URL and archive once within the block, however often a data set is asked.

    A command is such a block. An image that changes meanwhile is noticed when it is read.
    """
    token = LISTINGS.set({})
    try:
        yield
    finally:
        LISTINGS.reset(token)


def recorded_options(data: Dataset) -> dict[str, Any]:
    """Return the options of a data set as a record holds them: places as their user names them."""
    from alignkit.datasets.byte_store import place_text
    from alignkit.datasets.unlabelled_images import CalibratedData
    from alignkit.preprocess.stages import stage_identity

    def told(value: Any) -> Any:
        if isinstance(value, list):
            return [told(each) for each in value]
        return place_text(value) if isinstance(value, Path) else value

    if isinstance(data, CalibratedData):
        return {**recorded_options(data.data), "calibration": recorded_options(data.images)}
    options = stage_identity(data)
    return {name: told(value) for name, value in options.items() if name != "stage"}


DATASETS = PluginTable(
    "datasets",
    {
        "coco": Plugin(
            "alignkit.datasets.coco:Coco",
            summary="your images with boxes, from a COCO JSON file",
        ),
        "digit-identities": Plugin(
            "alignkit.datasets.digit_identities:DigitIdentities",
            distributions=("scikit-learn",),
            module="sklearn",
            extra="train",
            summary="handwritten numbers on photographs, for embeddings; no download",
        ),
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
        "identities": Plugin(
            "alignkit.datasets.identities:Identities",
            summary="your images of persons or products: folders, lists, Base64 shards, .bin files",
        ),
        "labels": Plugin(
            "alignkit.datasets.label_table:LabelTable",
            summary="your images with any number of labels each, from a CSV file",
        ),
        "masks": Plugin(
            "alignkit.datasets.masks:Masks",
            summary="your images with a class for each pixel: a PNG mask for each image",
        ),
        "objects-on-photos": Plugin(
            "alignkit.datasets.objects_on_photos:ObjectsOnPhotos",
            distributions=("scikit-learn",),
            module="sklearn",
            extra="train",
            summary="several digits on photographs, with boxes, masks or labels; no download",
        ),
        "voc": Plugin(
            "alignkit.datasets.voc:Voc",
            summary="your images with boxes, from a folder as Pascal VOC has it",
        ),
        "yolo": Plugin(
            "alignkit.datasets.yolo:Yolo",
            summary="your images with boxes, from a data.yaml or a folder as Ultralytics has it",
        ),
        "images": Plugin(
            "alignkit.datasets.unlabelled_images:Images",
            summary="unlabelled images, from a folder or by name: for pixels and given models",
        ),
    },
)
