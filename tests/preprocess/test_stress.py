import numpy as np
import pytest

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import ConfigError
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import SUBSAMPLINGS, Stress, parse_stress
from tests.photos import photo


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_the_file_is_what_the_stress_is_called(subsampling):
    stress = Stress(subsampling, 85)
    header = read_jpeg_header(stress.encode(photo()))
    assert f"{header.subsampling} q{header.quality.value}" == stress.name
    assert (header.coding, header.quality.exact) == ("baseline", True)


def test_encoding_at_full_quality_keeps_the_picture():
    again = SimpleJPEGDecoder().decode(Stress("444", 100).encode(photo())).image
    assert np.abs(again.astype(int) - photo()).max() <= 4


@pytest.mark.parametrize("text", ["420", "420:90", "421:q90", "420:q0", "420:q101", "q90"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="420:q90"):
        parse_stress(text)


def test_the_encoder_says_its_version():
    assert "libjpeg-turbo" in Stress("420", 90).encoder()
