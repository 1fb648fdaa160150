"""Every decoder keeps the contract of `alignkit.decoders`."""

import numpy as np
import pytest

from alignkit.decoders import DECODERS, Decoder
from tests import conformance
from tests.photos import CMYK, encoded, make_jpegs

KINDS = tuple(make_jpegs())


@pytest.fixture(scope="module", params=DECODERS)
def decoder(request) -> Decoder:
    plugin = DECODERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("kind", KINDS)
def test_gives_owned_rgb_pixels_for_a_valid_file(decoder, jpegs, kind):
    conformance.check_valid_file(decoder, jpegs[kind], optional=kind in CMYK)


@pytest.mark.parametrize("name", conformance.UNREADABLE)
def test_ends_in_an_outcome_for_what_is_no_image(decoder, name):
    conformance.check_unreadable(decoder, conformance.UNREADABLE[name])


@pytest.mark.parametrize("kind", ["420", "progressive", "grey", "cmyk"])
def test_ends_in_an_outcome_for_damaged_files(decoder, jpegs, kind):
    conformance.check_damage(decoder, jpegs[kind])


def test_may_be_called_from_threads(decoder, jpegs):
    conformance.check_decoding_in_threads(decoder, [jpegs["420"], jpegs["444"], jpegs["grey"]])


def test_gives_the_channels_in_the_order_red_green_blue(decoder):
    plain = np.full((16, 16, 3), (200, 100, 30), np.uint8)
    decoded = decoder.decode(encoded(plain, quality=100))
    assert np.abs(decoded.image.astype(int) - plain).max() <= 2


def test_turns_by_exif_only_if_its_class_says_so(decoder, jpegs):
    decoded = decoder.decode(jpegs["exif-6"])
    assert decoded.image.shape == ((97, 61, 3) if decoder.orients else (61, 97, 3))


def test_names_what_ran(decoder):
    conformance.check_version(decoder, type(decoder).__module__.rpartition(".")[2])


@pytest.mark.parametrize("folder", ["odd-jpegs", "hostile-jpegs"])
def test_ends_in_an_outcome_for_every_odd_and_hostile_file(decoder, shared_data, folder):
    files = sorted((shared_data / folder).rglob("*.jpg"))
    assert files
    for file in files:
        conformance.check_decoded(decoder.decode(file.read_bytes()))
