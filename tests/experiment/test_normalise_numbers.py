"""Means and stds that are no numbers of values in 0..1: refused, or of an import said and named."""

import json

import pytest

from alignkit.api.diff_result import diff
from alignkit.errors import ConfigError, ConfigWarning
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_argument import path_of
from alignkit.preprocess import Normalise
from alignkit.preprocess.presets import PRESETS
from tests.photos import encoded, photo

IMAGENET = "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"
DOUBTFUL = {
    # torchvision's numbers times 255, as Detectron2, MMCV and torchpipe write them
    "ImageNet in 0..255": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), IMAGENET),
    "its mean alone": ((123.675, 116.28, 103.53), (0.229, 0.224, 0.225), IMAGENET),
    "its std alone": ((0.485, 0.456, 0.406), (58.395, 57.12, 57.375), IMAGENET),
    # (x − 127.5) / 127.5, TensorFlow's "tf" mode
    "-1..1 of 0..255": ((127.5,) * 3, (127.5,) * 3, "mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]"),
    # Caffe takes the mean of 0..255 and scales nothing
    "Caffe": (
        (123.68, 116.779, 103.939), (1.0, 1.0, 1.0),
        "mean: [0.485, 0.458, 0.4076], std: [0.003922, 0.003922, 0.003922]"),
    "divided by 255 twice": ((0.0,) * 3, (255.0,) * 3, "mean: [0, 0, 0], std: [1, 1, 1]"),
    "a mean of one channel": ((0.485, 0.456, 103.53), (0.2, 0.2, 0.2), "std: [0.2, 0.2, 0.2]"),
    # ImageNet's numbers, handed to a stack of 0..255
    "of 0..1 where levels are meant": (
        (0.485 / 255, 0.456 / 255, 0.406 / 255), (0.229 / 255, 0.224 / 255, 0.225 / 255), IMAGENET),
}  # fmt: skip
PLAIN = {
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "nothing": ((0.0,) * 3, (1.0,) * 3),
    "levels": ((0.0,) * 3, (1 / 255,) * 3),
    "Inception": ((0.5,) * 3, (0.5,) * 3),
    "negative": ((-0.5,) * 3, (0.5,) * 3),
    "white": ((1.0,) * 3, (0.25,) * 3),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_numbers_of_another_range_are_refused_with_those_that_are_meant(name):
    mean, std, right = DOUBTFUL[name]
    given = {"preset": "pillow-train", "size": 32, "normalise": {"mean": [*mean], "std": [*std]}}
    with pytest.raises(ConfigError, match="normalise") as caught:
        path_of(given, "x")
    assert right in str(caught.value)


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_of_values_in_0_to_1_are_taken(name):
    mean, std = PLAIN[name]
    given = {"preset": "pillow-train", "size": 32, "normalise": {"mean": [*mean], "std": [*std]}}
    assert path_of(given, "x").normalise == Normalise(mean, std)


def test_no_preset_is_doubtful():
    found = {
        name: PreprocessOption.model_validate({"preset": name, "size": 32}) for name in PRESETS
    }
    assert not any(each.normalise.doubt for each in found.values())


@pytest.fixture
def imported(tmp_path):
    """A processor's file with the numbers of 0..255, which it divides by 255 first."""
    config = {
        "image_processor_type": "ViTImageProcessor", "do_rescale": True, "rescale_factor": 1 / 255,
        "do_resize": True, "resample": 2, "size": {"height": 32, "width": 32}, "do_normalize": True,
        "image_mean": [123.675, 116.28, 103.53], "image_std": [58.395, 57.12, 57.375],
    }  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    return {"huggingface": str(tmp_path)}


def test_an_import_is_measured_as_it_is_with_a_warning_and_the_cause(imported):
    images = [encoded(photo("flower", 90, 120))]
    with pytest.warns(ConfigWarning, match="in 0..1 is above 1; these of 0..255 are mean"):
        found = str(diff(images, {"preset": "opencv-train", "size": 32}, imported))
    why, before = (
        line for line in found.splitlines() if line.strip().startswith(("why:", "before"))
    )
    assert "another mean or std in normalise alone moves the model's input by" in why
    assert "before that, in the pixels:" in before


def test_a_preprocess_that_is_given_is_warned_of(imported):
    with pytest.warns(ConfigWarning):
        path = path_of(imported, "x")
    with pytest.warns(ConfigWarning, match="y: normalise"):
        path_of(path, "y")
