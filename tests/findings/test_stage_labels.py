"""Labels of stages name where an image lies, and no library that is not called."""

import pytest

from alignkit.experiment.yaml_argument import named_paths
from alignkit.findings.provenance import path_facts, stage_label
from alignkit.preprocess import Crop, Resize, stage_identity
from alignkit.resizers.opencv import OpenCVResizer

SIZE = (64, 48)


@pytest.mark.parametrize(
    ("name", "stage", "label"),
    [
        ("resize", Resize(OpenCVResizer(), SIZE), "OpenCV interpolation=linear 64x48"),
        ("resize", Resize(OpenCVResizer(), SIZE, fit="none"), "no resampling, 64x48"),
        (
            "resize",
            Resize(OpenCVResizer(), SIZE, fit="none", at=(3, 4)),
            "no resampling, 64x48 at 3, 4",
        ),
        (
            "resize",
            Resize(OpenCVResizer(), SIZE, fit="letterbox", at=(0, 0)),
            "OpenCV interpolation=linear 64x48 letterbox at 0, 0",
        ),
        ("crop", Crop(SIZE), "centre 64x48"),
        ("crop", Crop(SIZE, at=(10, 20)), "64x48 at 10, 20"),
        ("crop", Crop(None), "none"),
    ],
)
def test_a_label_says_what_ran(name, stage, label):
    assert stage_label(name, stage_identity(stage)) == label


def test_a_resizer_that_is_not_called_has_no_version():
    path, _ = (each.preprocess for each in named_paths(["opencv-train", "pillow-train"], size=48))
    facts = {each.stage: each for each in path_facts(path).stages}
    assert "opencv" in facts["resize"].version
    native = path_facts(
        type(path)(path.name, path.decode, Resize(OpenCVResizer(), SIZE, fit="none"))
    )
    assert {each.stage: each.version for each in native.stages}["resize"] == ""
