"""Labels of stages name where an image lies, and no library that is not called."""

import numpy as np
import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_argument import named_paths
from alignkit.findings.provenance import path_facts, stage_label
from alignkit.findings.stage_yaml import stage_block
from alignkit.preprocess import Crop, Preprocess, Resize, stage_identity
from alignkit.preprocess.stage_mixtures import differing_stages
from alignkit.resizers import AsIs
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer

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


NAMED = [OpenCVResizer("area"), PillowResizer(), PillowResizer("lanczos"), TorchResizer(), AsIs()]


@pytest.mark.parametrize("resizer", NAMED, ids=repr)
def test_a_resizer_that_is_not_called_is_no_part_of_a_path(resizer):
    one, other = (Resize(each, SIZE, fit="none") for each in (OpenCVResizer(), resizer))
    assert one == other
    assert stage_identity(one) == stage_identity(other)
    decode = OpenCVDecoder()
    paths = [Preprocess(name, decode, each) for name, each in (("a", one), ("b", other))]
    assert paths[0].identity() == paths[1].identity()
    assert differing_stages(*paths) == ()
    assert paths[0].missing() == ""
    block = PreprocessOption.model_validate(stage_block(paths[1]) | {"crop": {"size": SIZE}})
    assert block.build("b").resize == one
    image = np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)
    assert (one(image) == image).all()
    assert Resize(resizer, SIZE) != Resize(OpenCVResizer(), SIZE)
