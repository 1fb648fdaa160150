"""`PillowDecoder` against Pillow called directly."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from alignkit.decoders.pillow import PillowDecoder
from tests.photos import encoded, make_jpegs, make_pngs, photo


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_open_and_convert(jpegs, kind):
    direct = np.asarray(Image.open(io.BytesIO(jpegs[kind])).convert("RGB"))
    assert np.array_equal(PillowDecoder().decode(jpegs[kind]).image, direct)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_decodes_the_formats_pillow_knows(kind):
    assert PillowDecoder().decode(encoded(photo(), kind)).outcome == "ok"


def test_clips_16_bit_grey():
    assert PillowDecoder().decode(make_pngs()["grey-16"]).image.min() == 255


def test_drops_alpha():
    pngs = make_pngs()
    rgb, rgba = PillowDecoder().decode(pngs["rgb"]), PillowDecoder().decode(pngs["rgba"])
    assert np.array_equal(rgb.image, rgba.image)


def test_says_that_a_file_is_truncated(jpegs):
    decoded = PillowDecoder().decode(jpegs["420"][:-200])
    assert decoded.outcome == "failed"
    assert "truncated" in decoded.reason


@pytest.mark.parametrize("side", [11_000, 60_000])
def test_a_decompression_bomb_ends_in_an_outcome(side):
    """Between once and twice MAX_IMAGE_PIXELS a warning (here an error), above it an error."""
    bomb = bytearray(encoded(Image.new("RGB", (8, 8)), "BMP"))
    bomb[18:26] = struct.pack("<ii", side, side)
    decoded = PillowDecoder().decode(bytes(bomb))
    assert decoded.outcome == "failed"
    assert "DecompressionBomb" in decoded.reason
