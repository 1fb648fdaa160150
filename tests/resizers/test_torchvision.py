"""`TorchvisionResizer` against torchvision called directly."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import InterpolationMode, v2

from alignkit.resizers.torchvision import TorchvisionResizer
from tests.photos import photo


@pytest.mark.parametrize("interpolation", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(24, 32), (130, 200)])
def test_equals_the_transform_on_a_decoded_image(jpegs, interpolation, antialias, size):
    data = torch.frombuffer(bytearray(jpegs["420"]), dtype=torch.uint8)
    decoded = decode_image(data, mode=ImageReadMode.RGB)
    transform = v2.Resize(size, InterpolationMode(interpolation), antialias=antialias)
    resizer = TorchvisionResizer(interpolation, antialias)
    resized = resizer.resize(decoded.permute(1, 2, 0).numpy(), *size)
    assert np.array_equal(resized, transform(decoded).permute(1, 2, 0).numpy())


def test_antialiased_is_within_a_level_of_pillow():
    resized = TorchvisionResizer().resize(photo(), 24, 32).astype(int)
    pillow = np.asarray(Image.fromarray(photo()).resize((32, 24), Image.Resampling.BILINEAR))
    assert np.abs(resized - pillow).max() <= 1
