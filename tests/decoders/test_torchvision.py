"""`TorchvisionDecoder` against torchvision called directly."""

import numpy as np
import pytest
import torch
from torchvision.io import ImageReadMode, decode_jpeg

from alignkit.decoders.torchvision import TorchvisionDecoder
from tests.made_images import KINDS
from tests.photos import encoded, make_jpegs, make_pngs, photo


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_decode_jpeg(jpegs, kind):
    data = torch.frombuffer(bytearray(jpegs[kind]), dtype=torch.uint8)
    direct = decode_jpeg(data, mode=ImageReadMode.RGB).permute(1, 2, 0).numpy()
    assert np.array_equal(TorchvisionDecoder().decode(jpegs[kind]).image, direct)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_decodes_the_other_formats_torchvision_knows(kind):
    assert TorchvisionDecoder().decode(encoded(photo(), kind)).outcome == "ok"


@pytest.mark.parametrize("kind", ["BMP", "TIFF"])
def test_says_that_a_format_is_unsupported(kind):
    assert TorchvisionDecoder().decode(encoded(photo(), kind)).outcome == "unsupported"


def test_says_that_16_bits_are_unsupported():
    decoded = TorchvisionDecoder().decode(make_pngs()["grey-16"])
    assert decoded.outcome == "unsupported"
    assert "uint16" in decoded.reason


def test_says_that_an_animated_gif_is_unsupported():
    decoded = TorchvisionDecoder().decode(KINDS["GIF", "animated"]())
    assert decoded.outcome == "unsupported"
    assert decoded.reason == "torchvision decodes this file to its 2 frames"


def test_refuses_a_truncated_file(jpegs):
    decoded = TorchvisionDecoder().decode(jpegs["420"][:-200])
    assert decoded.outcome == "failed"
    assert "truncated" in decoded.reason
