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
    unfit_size,
    unknown_model,
)
from alignkit.models.model_fit import require_input


def test_the_list_of_names_is_torchvisions():
    assert set(TORCHVISION_MODELS) == set(torchvision.models.list_models(module=torchvision.models))


def test_names_and_version_are_checked_without_importing_torch():
    check = (
        "import sys; from alignkit.models.architectures import model_version, unknown_model;"
        "unknown_model('x'); model_version(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=300)


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
        ("small-cnn", 32), ("small-cnn", 101), ("resnet18", 32), ("googlenet", 64),
        ("vit_b_32", 64),
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


def takes(name: str, side: int) -> bool:
    """Whether torchvision's own model runs on a square input."""
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **options)
    try:
        with torch.inference_mode():
            model.eval().to("meta")(torch.zeros(1, 3, side, side, device="meta"))
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("alexnet", 63), ("googlenet", 15), ("convnext_tiny", 32), ("inception_v3", 75),
    ],
)  # fmt: skip
def test_the_least_size_of_a_deep_model_is_torchvisions(name, least):
    assert takes(name, least)
    assert not takes(name, least - 1)
    assert unfit_size(name, least, least + 1) == ""
    reason = f"{name} takes inputs of {least}x{least} or more, not {least}x{least - 1}; set another"
    assert unfit_size(name, least, least - 1).startswith(reason)


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCHVISION_MODELS)
def test_no_model_is_refused_at_a_size_that_it_takes(name):
    fitting = [side for side in (16, 28, 32, 96, 224) if not unfit_size(name, side, side)]
    fixed = name.startswith(("vit", "maxvit"))  # the constructor is told the size
    for side in fitting[:1] if fixed else fitting:
        build_model(name, 2, side, side)
    assert fitting
    if not fixed:
        assert not any(takes(name, side) for side in (16, 28, 32, 96) if side not in fitting)


@pytest.mark.parametrize(
    ("name", "size", "near"),
    [("vit_b_16", (56, 56), 64), ("vit_h_14", (28, 42), 42), ("maxvit_t", (64, 64), 224)],
)
def test_a_transformers_size_is_a_multiple_of_its_patch(name, size, near):
    assert f"e.g. {near}x{near}, not" in unfit_size(name, *size)
    assert unfit_size(name, near, near) == ""


def test_a_size_that_a_model_of_timm_takes_is_named():
    pytest.importorskip("timm", reason="needs the extra timm")
    require_input("timm:vgg11", 32, 32)
    with pytest.raises(ConfigError, match=r"inputs of 16x16 .*; timm made it for 224x224"):
        require_input("timm:vgg11", 16, 16)


def test_a_size_is_refused_without_memory_for_the_weights_and_after_one_trial(monkeypatch):
    timm = pytest.importorskip("timm", reason="needs the extra timm")
    devices, tried = [], []
    create = timm.create_model

    def watched(*arguments, **options):
        module = create(*arguments, **options)
        devices.append({each.device.type for each in module.parameters()})
        module.register_forward_pre_hook(lambda _, given: tried.append(given[0].shape[-1]))
        return module

    monkeypatch.setattr(timm, "create_model", watched)
    with pytest.raises(ConfigError, match=r"16x16 .*; timm made it for 224x224"):
        require_input("timm:vit_tiny_patch16_224", 16, 16)
    assert devices == [{"meta"}]
    assert len(tried) == 1
