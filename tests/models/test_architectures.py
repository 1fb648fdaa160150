import subprocess
import sys

import pytest
import torch
import torchvision

from alignkit.errors import ConfigError
from alignkit.models.architectures import (
    MODELS,
    TORCHVISION_MODELS,
    build_model,
    model_version,
    unknown_model,
)


def test_the_list_of_names_is_torchvisions():
    assert set(TORCHVISION_MODELS) == set(torchvision.models.list_models(module=torchvision.models))


def test_names_and_version_are_checked_without_importing_torch():
    check = (
        "import sys; from alignkit.models.architectures import model_version, unknown_model;"
        "unknown_model('x'); model_version(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


def test_an_unknown_name_is_told_with_the_nearest_one():
    assert unknown_model("resnet-18") == "no model 'resnet-18'; did you mean 'resnet18'?"
    assert not any(unknown_model(name) for name in MODELS)
    with pytest.raises(ConfigError, match="did you mean 'small-cnn'"):
        build_model("smallcnn", 10, 48, 48)


def test_the_version_names_both_libraries():
    assert torch.__version__.partition("+")[0] in model_version()
    assert torchvision.__version__.partition("+")[0] in model_version()


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("small-cnn", 32), ("small-cnn", 48), ("small-cnn", 101), ("shufflenet_v2_x0_5", 32),
        ("mobilenet_v3_small", 48), ("resnet18", 32), ("googlenet", 64), ("vit_b_32", 64),
    ],
)  # fmt: skip
def test_a_model_maps_a_batch_to_logits_of_every_class(name, side):
    model = build_model(name, 7, side, side)
    assert model.training
    assert model(torch.zeros(2, 3, side, side)).shape == (2, 7)


def test_small_cnn_takes_inputs_that_are_not_square():
    assert build_model("small-cnn", 3, 40, 64)(torch.zeros(2, 3, 40, 64)).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "height", "width"),
    [("small-cnn", 31, 48), ("alexnet", 32, 32), ("vit_b_32", 48, 48), ("vit_b_32", 64, 96)],
)
def test_a_size_the_layers_do_not_accept_is_refused_with_the_fix(name, height, width):
    with pytest.raises(ConfigError, match=f"{name}.*{height}x{width}"):
        build_model(name, 10, height, width)


def test_weights_follow_torchs_seed():
    torch.manual_seed(5)
    one = build_model("small-cnn", 10, 32, 32).state_dict()
    torch.manual_seed(5)
    same = build_model("small-cnn", 10, 32, 32).state_dict()
    other = build_model("small-cnn", 10, 32, 32).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])
