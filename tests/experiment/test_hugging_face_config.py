"""A path from a ``preprocessor_config.json`` is what transformers' own image processor does."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import ConfigError
from alignkit.experiment.hugging_face_config import PROCESSORS, stages_of_processor
from alignkit.experiment.preprocess_option import PreprocessOption
from tests.photos import encoded, photo

IMAGES = [encoded(photo("china", *size)) for size in [(375, 500), (500, 333), (61, 97)]]
BACKENDS = {"slow": "pil", "fast": "torchvision"}
CONVNEXT = {"image_processor_type": "ConvNextImageProcessor"}
CLIP = {"image_processor_type": "CLIPImageProcessor"}
VIT = {"image_processor_type": "ViTImageProcessor"}
CONFIGS = {
    **{name: {"image_processor_type": name} for name in PROCESSORS},
    "old ViT": {
        "feature_extractor_type": "ViTFeatureExtractor", "do_normalize": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 2, "size": 224,
    },
    "old CLIP": {
        "feature_extractor_type": "CLIPFeatureExtractor", "crop_size": 224, "size": 224,
        "do_center_crop": True, "do_normalize": True, "do_resize": True, "resample": 3,
    },
    "fast ViT": {"image_processor_type": "ViTImageProcessorFast", "do_convert_rgb": None},
    "ViT, not square": {**VIT, "size": {"height": 96, "width": 128}, "resample": 3},
    "ConvNext, cropped": {**CONVNEXT, "size": {"shortest_edge": 224}, "crop_pct": 0.875},
    "ConvNext, cropped narrowly": {**CONVNEXT, "size": {"shortest_edge": 192}, "crop_pct": 0.95},
    "DeiT, odd margin": {
        "image_processor_type": "DeiTImageProcessor", "size": {"height": 129, "width": 131},
        "crop_size": {"height": 112, "width": 96},
    },
    "CLIP, odd margins": {**CLIP, "size": {"shortest_edge": 127}, "crop_size": 112},
    "nearest": {**VIT, "resample": 0},
    "not normalised": {**VIT, "do_normalize": False},
    "not rescaled": {**VIT, "do_rescale": False, "image_mean": [127.5] * 3, "image_std": [64] * 3},
    "rescaled otherwise": {**VIT, "rescale_factor": 1 / 127.5, "image_mean": [1.0] * 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def processors():
    return pytest.importorskip("transformers", reason="needs transformers: the extra dev")


@pytest.fixture
def folder(tmp_path):
    def write(config):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        return tmp_path

    return write


def path_of(folder, kind):
    given = {"huggingface": str(folder), "processor": kind}
    return PreprocessOption.model_validate(given).build(kind)


@pytest.mark.filterwarnings("ignore")  # transformers', of its own old names
@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("config", CONFIGS)
def test_the_path_is_bit_equal_to_the_image_processor(processors, folder, config, kind):
    root = folder(CONFIGS[config])
    real = processors.AutoImageProcessor.from_pretrained(root, backend=BACKENDS[kind])
    path = path_of(root, kind)
    for data in IMAGES:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        levels = real(image, do_rescale=False, do_normalize=False)["pixel_values"][0]
        pixels = path.taps(data).last
        assert pixels.dtype == np.uint8
        assert np.array_equal(pixels, np.moveaxis(np.asarray(levels), 0, 2))
        tensor = np.asarray(real(image)["pixel_values"][0])
        assert np.allclose(path.normalise(pixels), tensor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["slow", "fast"])
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "image_processor_type '': alignkit does not know it"),
        ({"image_processor_type": "ViTImageProcesor"}, "did you mean 'ViTImageProcessor'"),
        ({**VIT, "do_pad": True}, "'do_pad': alignkit cannot express it"),
        ({**VIT, "do_flip_channel_order": True}, "'do_flip_channel_order'"),
        ({**VIT, "do_resize": False}, "'do_resize': without it"),
        ({**VIT, "crop_pct": 0.9}, "'crop_pct': ViTImageProcessor does not read it"),
        ({**VIT, "size": {"shortest_edge": 224}}, "'do_center_crop': without it images differ"),
        ({**VIT, "size": {"longest_edge": 224}}, "'size': needs height and width"),
        ({**VIT, "size": "big"}, "'size': needs height and width"),
        ({**VIT, "size": {"height": 22.4, "width": 9}}, "'size': needs height and width"),
        ({**VIT, "resample": 7}, "'resample' must be 0 to 5, not 7"),
        ({**VIT, "rescale_factor": 0}, "'rescale_factor' must be a number above 0, not 0"),
        ({**CONVNEXT, "crop_pct": 0}, "'crop_pct' must be a number above 0, not 0"),
        ({**VIT, "image_mean": [0.5]}, "'image_mean': needs three channels, not 1"),
        ({**CLIP, "crop_size": 300}, "'crop_size': larger than what 'size' leaves"),
        ({**CONVNEXT, "do_center_crop": True, "crop_size": 3}, "no do_center_crop beside it"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_the_keys_name(folder, config, message, kind):
    with pytest.raises(ConfigError, match=message):
        stages_of_processor(folder(config), kind)


def test_filters_that_only_pillow_has_are_the_slow_processors(folder):
    root = folder({**VIT, "resample": 1})
    assert stages_of_processor(root, "slow").block["resize"]["filter"] == "lanczos"
    with pytest.raises(ConfigError, match="'resample' lanczos: only the slow processor's"):
        stages_of_processor(root, "fast")


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ConfigError, match="no such file; save_pretrained writes it"):
        stages_of_processor(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        stages_of_processor(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("[]")
    with pytest.raises(ConfigError, match="not a mapping"):
        stages_of_processor(tmp_path)
