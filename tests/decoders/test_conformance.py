"""Every decoder keeps the contract of `alignkit.decoders`."""

import pytest

from alignkit.decoders import DECODERS, Decoder
from alignkit.studies.conformance import NotApplicable, decoder_checks, version_check
from tests.photos import CMYK, make_jpegs

KINDS = tuple(make_jpegs())


@pytest.fixture(scope="module", params=DECODERS)
def decoder(request) -> Decoder:
    plugin = DECODERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("kind", KINDS)
def test_gives_owned_rgb_pixels_for_a_valid_file(decoder, jpegs, kind):
    decoder_checks.valid_file(decoder, jpegs[kind], optional=kind in CMYK)


@pytest.mark.parametrize("name", decoder_checks.UNREADABLE)
def test_ends_in_an_outcome_for_what_is_no_image(decoder, name):
    decoder_checks.unreadable_file(decoder, name, decoder_checks.UNREADABLE[name])


@pytest.mark.parametrize("kind", ["420", "progressive", "grey", "cmyk"])
def test_ends_in_an_outcome_for_damaged_files(decoder, jpegs, kind):
    assert decoder_checks.damaged_file(decoder, jpegs[kind]).startswith("65 files: ")


def test_may_be_called_from_threads(decoder, jpegs):
    decoder_checks.in_threads(decoder, [jpegs["420"], jpegs["444"], jpegs["grey"]])


def test_gives_the_channels_in_the_order_red_green_blue(decoder):
    decoder_checks.channel_order(decoder)


def test_turns_by_exif_only_if_its_class_says_so(decoder, jpegs):
    turned = decoder_checks.orientation(decoder, jpegs["exif-6"])
    assert turned == ("turned" if decoder.orients else "not turned")


def test_names_what_ran(decoder):
    plugin = next(each for each in DECODERS.values() if each.load() is type(decoder))
    assert version_check(decoder, plugin.version()).run()
    assert type(decoder).__module__.rpartition(".")[2] in decoder.version()


@pytest.mark.parametrize("folder", ["odd-jpegs", "hostile-jpegs"])
def test_ends_in_an_outcome_for_every_odd_and_hostile_file(decoder, shared_data, folder):
    files = sorted((shared_data / folder).rglob("*.jpg"))
    assert files
    for file in files:
        decoder_checks.check_decoded(decoder.decode(file.read_bytes()))


def test_a_decoder_of_another_format_is_not_blamed_for_jpeg_files():
    class Other(Decoder):
        def decode(self, encoded):
            from alignkit.decoders import Decoded

            return Decoded("unsupported", reason=f"{len(encoded)} bytes of another format")

    with pytest.raises(NotApplicable, match="--images"):
        decoder_checks.valid_files(Other(), decoder_checks.jpegs(decoder_checks.picture()))
