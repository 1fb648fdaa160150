"""On the CPU, five libraries give one result: all are libjpeg-turbo with smooth chroma and islow."""

import numpy as np
import pytest

from alignkit.decoders import DECODERS
from alignkit.decoders.exif import exif_orientation
from tests.photos import CMYK, TURNED, make_jpegs

ALIKE = ("opencv", "pillow", "torchvision", "simplejpeg", "torchpipe")
KINDS = tuple(kind for kind in make_jpegs() if kind not in CMYK + TURNED)


def assert_alike(encoded: bytes) -> None:
    reference, *candidates = [DECODERS[name].load()().decode(encoded).image for name in ALIKE]
    for name, candidate in zip(ALIKE[1:], candidates, strict=True):
        assert np.array_equal(reference, candidate), name


@pytest.mark.parametrize("kind", KINDS)
def test_decoders_agree_on_every_kind_of_jpeg(jpegs, kind):
    assert_alike(jpegs[kind])


def test_decoders_agree_on_photographs(shared_data):
    files = sorted((shared_data / "photos").glob("*"))
    upright = [file for file in files if exif_orientation(file.read_bytes()) == 1]
    assert len(upright) > 50
    for file in upright:
        assert_alike(file.read_bytes())


def test_decoders_agree_with_the_reference_images_of_odd_jpegs(shared_data):
    decode = DECODERS["pillow"].load()().decode
    for file in sorted((shared_data / "odd-jpegs" / "with-reference").glob("*.jpg")):
        reference = decode(file.with_suffix(".png").read_bytes())
        for name in ("opencv", "pillow", "torchvision", "torchpipe"):
            candidate = DECODERS[name].load()().decode(file.read_bytes())
            assert np.array_equal(reference.image, candidate.image), (file.name, name)


def test_cmyk_splits_the_decoders_in_two_camps_one_level_apart(jpegs):
    images = {name: DECODERS[name].load()().decode(jpegs["cmyk"]).image for name in ALIKE}
    assert np.array_equal(images["pillow"], images["torchvision"])
    assert np.array_equal(images["opencv"], images["simplejpeg"])
    assert np.array_equal(images["opencv"], images["torchpipe"])
    assert np.abs(images["pillow"].astype(int) - images["opencv"]).max() == 1
