"""Names of a model's outputs in `models:`, some of which are no class."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from torchvision.models.detection import FCOS_ResNet50_FPN_Weights

from alignkit.experiment.run_options import GIVEN_MODEL
from alignkit.preprocess.geometry import Geometry
from alignkit.tasks import ClassMap
from alignkit.tasks.detection import Detection

PLACE = Geometry(100, 100, 100, 100, 1.0, 1.0, 0.0, 0.0)


def option(classes):
    return GIVEN_MODEL.built(
        {"name": "m", "preprocess": "p", "torchscript": "m.ts", "classes": classes}
    )


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["cat", None, "dog", None], ("cat", "N/A 1", "dog", "N/A 3")),
        (["cat", "N/A", "dog", "N/A"], ("cat", "N/A 1", "dog", "N/A 3")),
        (["cat", "N/A", None], ("cat", "N/A", "N/A 2")),
        (["cat", "N/A"], ("cat", "N/A")),
    ],
)
def test_outputs_that_are_no_class_have_names_of_their_own(classes, named):
    assert option(classes).classes == named


@pytest.mark.parametrize("classes", [["cat", "cat"], ["cat", 3], [], ["cat", "N/A 2", None]])
def test_other_names_are_refused_as_before(classes):
    with pytest.raises(ValidationError):
        option(classes)


def test_coco_weights_of_torchvision_find_each_class_of_the_data(tmp_path):
    """91 labels, of which 10 are N/A and one is the background; COCO has 80 classes."""
    labels = FCOS_ResNet50_FPN_Weights.DEFAULT.meta["categories"]
    (tmp_path / "coco.txt").write_text("\n".join(labels) + "\n")
    data = tuple(each for each in labels[1:] if each != "N/A")
    assert (len(labels), len(data)) == (91, 80)
    (tmp_path / "m.ts").write_bytes(b"only hashed")
    given = option(str(tmp_path / "coco.txt"))
    given = replace(given, torchscript=tmp_path / "m.ts", task=Detection())
    checkpoint = given.checkpoint(data, (100, 100))
    assert checkpoint.classes == 91
    assert len(checkpoint.outside) == 11
    known = ClassMap(data, checkpoint.outside, checkpoint.order)
    found = np.array([index for index, name in enumerate(labels) if name in data])
    outputs = (
        np.tile([10.0, 10, 20, 20], (1, 80, 1)), found[None], np.linspace(0.9, 0.3, 80)[None]
    )  # fmt: skip
    (record,) = Detection().decode(tuple(e.astype(np.float32) for e in outputs), [PLACE], known)
    assert record.classes.tolist() == [*range(80)]
