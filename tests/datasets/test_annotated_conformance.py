"""Every data set with annotations passes the checks of its family, and broken ones fail them."""

from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.annotations import Boxes, LabelSet, Mask
from alignkit.datasets import DATASETS, Dataset
from alignkit.experiment.option import plugin_from
from alignkit.progress import NoProgress
from alignkit.samples import HeldImages, Samples
from alignkit.studies.data import decoding, describe
from alignkit.testing import DatasetContract
from tests.contracts import broken
from tests.datasets.annotated_case import SIZES, coco, jpeg, masks, voc, write_images, yolo

BOXES = {"a": [(2, 0, 0, 40, 30)], "b": [(5, 1, 1, 3, 3)]}


def options(name, root):
    """Write a small data set of a format; return the options that read it."""
    if name == "coco":
        return {"root": str(root), "annotations": str(coco(root, BOXES))}
    if name == "voc":
        return {"root": str(voc(root, {"a": [("dog", 1, 1, 40, 30)], "b": [], "c": []}))}
    if name == "yolo":
        return {"root": str(yolo(root, {"a": ["0 0.5 0.5 1 1"]})), "eval_share": 1}
    if name == "masks":
        return {"root": str(masks(root, dict.fromkeys(SIZES, (0, 1)))), "classes": ["x", "y"]}
    if name == "labels":
        write_images(root)
        (root / "labels.csv").write_text("image,labels\na.jpg,x;y\nb.jpg,y\nc.jpg,\n")
        return {"root": str(root), "annotations": str(root / "labels.csv")}
    return {"train": 12, "eval": 12}


NAMES = ("coco", "voc", "yolo", "masks", "labels", "objects-on-photos")


@pytest.mark.parametrize("name", NAMES)
def test_data_sets_with_annotations_conform(tmp_path, name):
    data = plugin_from(DATASETS, {"name": name, **options(name, tmp_path)})
    assert broken(DatasetContract, data) == {}


@pytest.mark.parametrize("name", NAMES)
def test_statistics_count_the_images_of_each_class(tmp_path, name):
    data = plugin_from(DATASETS, {"name": name, **options(name, tmp_path)}).undivided()
    samples = data.evaluation()
    with NoProgress().stage("measure", len(samples), "eval") as stage:
        found = describe("eval", samples, decoding("pillow"), stage)
    counted = [
        sum(k in each.present() for each in samples.annotations)
        for k in range(len(samples.classes))
    ]
    assert [*found["classes"].values()] == counted
    assert sum(counted)


@dataclass(frozen=True)
class Given(Dataset):
    """One image with one annotation."""

    annotation: object
    truth: str = "boxes"

    def counts(self):
        return 0, 1

    def evaluation(self):
        read = HeldImages((jpeg((40, 30)),))
        return Samples(("a",), (), ("x", "y"), read, "0", (self.annotation,))

    def fingerprint(self, split):
        return "0"

    def version(self):
        return "given 1"


def boxes(*corners, label=0):
    classes = np.full(len(corners), label)
    return Boxes(np.array(corners, float), classes, np.zeros(len(corners), bool))


def of_pixels(shape, value):
    return Mask(lambda: np.full(shape, value, np.uint8))


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (Given(boxes((0, 0, 41, 30))), "a: a box leaves the image"),
        (Given(boxes((5, 5, 5, 30))), "a: a box has no area"),
        (Given(boxes((0, 0, 1, 1), label=2)), "a: its classes"),
        (Given(LabelSet((0, 2)), "labels"), "a: its classes"),
        (Given(LabelSet((0,)), "boxes"), "its truth is another"),
        (Given(of_pixels((40, 30), 0), "mask"), "a: its mask"),
        (Given(of_pixels((30, 40), 7), "mask"), "a: its classes"),
    ],
)
def test_wrong_annotations_fail_a_check(data, finding):
    assert any(
        f"AssertionError: {finding}" in each for each in broken(DatasetContract, data).values()
    )


@pytest.mark.parametrize(
    "data", [Given(boxes((0, 0, 40, 30))), Given(of_pixels((30, 40), 255), "mask")]
)
def test_right_annotations_pass(data):
    assert not broken(DatasetContract, data)
