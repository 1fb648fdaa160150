"""Every decoder keeps the contract of `alignkit.decoders`."""

import pytest

from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.testing import DecoderContract
from alignkit.testing.image_contracts import check_decoded
from tests.contracts import broken, held, names_of


@pytest.fixture(scope="module", params=DECODERS)
def decoder(request) -> Decoder:
    plugin = DECODERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("name", names_of(DecoderContract))
def test_keeps_the_contract(decoder, name):
    held(DecoderContract, decoder, name)


def test_names_what_ran(decoder):
    assert type(decoder).__module__.rpartition(".")[2] in decoder.version()


@pytest.mark.parametrize("folder", ["odd-jpegs", "hostile-jpegs"])
def test_ends_in_an_outcome_for_every_odd_and_hostile_file(decoder, shared_data, folder):
    files = sorted((shared_data / folder).rglob("*.jpg"))
    assert files
    for file in files:
        check_decoded(decoder.decode(file.read_bytes()))


class Raw(Decoder):
    """Grey squares of 4 pixels from four bytes."""

    def decode(self, encoded):
        import numpy as np

        if not encoded.startswith(b"raw"):
            return Decoded("unsupported", reason=f"{len(encoded)} bytes of another format")
        return Decoded("ok", np.full((2, 2, 3), encoded[3], np.uint8))

    def version(self):
        return "raw 1.0"


def test_a_decoder_of_another_format_is_tried_on_its_own_files():
    class OfRaw(DecoderContract):
        files = (b"raw\x07",)

    assert broken(OfRaw, Raw()) == {}
    assert (
        "is unsupported"
        in broken(DecoderContract, Raw())["test_gives_owned_rgb_pixels_of_valid_files"]
    )
