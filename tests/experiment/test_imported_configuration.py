"""A path from a timm model is timm's own evaluation transform of that model."""

import io

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import ConfigError
from alignkit.experiment.imported_configuration import _timm_stages, stages_of_timm
from alignkit.experiment.preprocess_option import PreprocessOption
from tests.photos import encoded, photo

timm_data = pytest.importorskip("timm.data", reason="needs the extra timm")

IMAGES = [encoded(photo("china", *size)) for size in [(375, 500), (333, 250), (61, 97)]]
MODELS = {
    "resnet50.a1_in1k": None,
    "resnet50": 160,
    "vit_base_patch16_224.augreg_in21k_ft_in1k": None,
    "efficientnet_b0": None,
    "convnext_tiny.fb_in1k": 64,
    "beit_base_patch16_224": None,
    "vit_base_patch16_siglip_224": 96,
}
CONFIG = {
    "input_size": (3, 224, 224), "interpolation": "bicubic", "crop_pct": 0.95,
    "crop_mode": "squash", "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5),
}  # fmt: skip


def check(path, transform):
    for data in IMAGES:
        direct = transform(Image.open(io.BytesIO(data)).convert("RGB")).numpy()
        ours = path.normalise(path.taps(data).last)
        assert np.allclose(ours, direct, atol=1e-6)  # an eighth of a level and less


@pytest.mark.parametrize("model", MODELS)
def test_the_path_is_what_create_transform_does(model):
    import timm

    own = timm.models.get_pretrained_cfg(model).to_dict()
    size = MODELS[model]
    asked = {"input_size": (3, size, size)} if size else {}
    transform = timm_data.create_transform(
        **timm_data.resolve_data_config(asked, pretrained_cfg=own)
    )
    given = {"timm": model, **({"size": size} if size else {})}
    check(PreprocessOption.model_validate(given).build(model), transform)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("mode", ["squash", "center"])
def test_modes_and_interpolations_are_timms(mode, interpolation):
    config = {**CONFIG, "crop_mode": mode, "interpolation": interpolation}
    path = PreprocessOption.model_validate(_timm_stages(config, None)).build("x")
    check(path, timm_data.create_transform(**config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop_mode": "border"}, "'crop_mode': border"),
        ({"crop_mode": "center", "input_size": (3, 224, 192)}, "'input_size': not square"),
        ({"input_size": (1, 224, 224)}, "'input_size': 1 channels"),
        ({"interpolation": "random"}, "'interpolation': random is drawn"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_the_keys_name(change, message):
    with pytest.raises(ConfigError, match=message):
        _timm_stages({**CONFIG, **change}, None)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ConfigError, match="no model 'resnet5o'; did you mean 'resnet50'"):
        stages_of_timm("resnet5o")
    with pytest.raises(
        ConfigError, match=r"no weights 'resnet50\.a1_in1'; did you mean 'resnet50\.a1_"
    ):
        stages_of_timm("resnet50.a1_in1")
