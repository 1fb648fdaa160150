"""What a JPEG says of itself, against Pillow and the encoders' own settings."""

import io
import struct

import pytest
import simplejpeg
from PIL import Image

from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess.jpeg_header import (
    LUMINANCE,
    jpeg_size,
    quality_of,
    read_jpeg_header,
    scaled,
)
from tests.photos import encoded, photo

PILLOW_SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


def frame(factors, *, count=None, sof=0xC0, precision=8, ids=(1, 2, 3, 4), size=(61, 97)):
    """A JPEG up to its frame header, with these (across, down) sampling factors."""
    listed = b"".join(
        bytes([id_, 16 * across + down, 0])
        for id_, (across, down) in zip(ids, factors, strict=False)
    )
    body = struct.pack(">BHHB", precision, *size, len(factors) if count is None else count) + listed
    return b"\xff\xd8\xff" + bytes([sof]) + struct.pack(">H", len(body) + 2) + body


@pytest.mark.parametrize("name", PILLOW_SUBSAMPLINGS)
@pytest.mark.parametrize("quality", [1, 20, 50, 75, 90, 95, 100])
@pytest.mark.parametrize("progressive", [False, True])
def test_what_the_encoder_was_told_is_found(name, quality, progressive):
    file = encoded(photo(), subsampling=name, quality=quality, progressive=progressive)
    header = read_jpeg_header(file)
    assert (header.height, header.width, header.precision) == (61, 97, 8)
    assert header.subsampling == name
    assert header.coding == ("progressive" if progressive else "baseline")
    assert (header.mode, header.icc, header.orientation) == ("YCbCr", False, 1)
    assert header.quality.exact
    assert scaled(header.quality.value) == scaled(quality)


@pytest.mark.parametrize("code", ["444", "422", "420", "440", "411"])
def test_every_subsampling_of_libjpeg_turbo_has_its_name(code):
    file = simplejpeg.encode_jpeg(photo(), colorsubsampling=code, colorspace="RGB")
    assert read_jpeg_header(file).subsampling == ":".join(code)


def test_kinds_of_jpegs_are_told_apart(jpegs):
    headers = {name: read_jpeg_header(file) for name, file in jpegs.items()}
    assert headers["grey"].mode == headers["grey"].subsampling == "grey"
    assert headers["cmyk"].mode == "CMYK"
    assert headers["icc"].icc
    assert not headers["420"].icc
    assert headers["exif-6"].orientation == 6
    for name, file in jpegs.items():
        assert headers[name].orientation == exif_orientation(file)
        with Image.open(io.BytesIO(file)) as image:
            assert (
                (headers[name].width, headers[name].height) == image.size == jpeg_size(file)[::-1]
            )


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([(1, 1)], "grey"),
        ([(2, 2)], "grey"),
        ([(1, 1)] * 3, "4:4:4"),
        ([(2, 2)] * 3, "4:4:4"),
        ([(2, 2), (2, 1), (2, 1)], "4:4:0"),
        ([(4, 2), (1, 1), (1, 1)], "4:1:0"),
        ([(2, 2), (1, 1), (1, 1), (2, 2)], "4:2:0"),
        ([(2, 2), (1, 1), (2, 1)], "other"),
        ([(1, 1), (2, 2), (2, 2)], "other"),
        ([(3, 1), (2, 1), (2, 1)], "other"),
        ([(1, 1), (1, 1)], "other"),
    ],
)
def test_sampling_factors_have_names(factors, expected):
    assert read_jpeg_header(frame(factors)).subsampling == expected


@pytest.mark.parametrize(
    ("sof", "coding"),
    [(0xC0, "baseline"), (0xC1, "extended"), (0xC2, "progressive"), (0xC3, "lossless"),
     (0xC9, "arithmetic"), (0xC6, "hierarchical")],
)  # fmt: skip
def test_codings_have_names(sof, coding):
    assert read_jpeg_header(frame([(1, 1)], sof=sof)).coding == coding


def test_components_called_r_g_b_are_rgb_as_libjpeg_takes_them():
    assert read_jpeg_header(frame([(1, 1)] * 3, ids=b"RGB")).mode == "RGB"
    adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
    file = frame([(1, 1)] * 3)
    assert read_jpeg_header(file[:2] + adobe + file[2:]).mode == "RGB"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xff\xd8",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xc0\x00",
        b"\xff\xd8\xff\xc0\x00\x00",
        b"GIF89a",
        frame([]),
        frame([(0, 1)]),
        frame([(1, 1)], count=200),
    ],
)
def test_damage_is_no_header_and_no_error(data):
    assert read_jpeg_header(data) is None


def test_every_cut_of_a_file_is_read_without_an_error(jpegs):
    for file in (jpegs["exif-6"], jpegs["icc"], jpegs["cmyk"]):
        whole = read_jpeg_header(file)
        for end in range(min(len(file), 2000)):
            cut = read_jpeg_header(file[:end])
            assert cut is None or cut.coding == whole.coding


def test_bytes_between_segments_are_skipped():
    file = encoded(photo())
    assert read_jpeg_header(file[:2] + b"junk\xff\xff" + file[2:]).subsampling == "4:2:0"


def test_tables_of_no_quality_are_given_the_nearest():
    camera = tuple(step + (place % 2) for place, step in enumerate(scaled(80)))
    quality = quality_of(camera)
    assert not quality.exact
    assert abs(quality.value - 80) <= 2
    assert quality_of(LUMINANCE).exact


def test_hostile_files_are_read_without_an_error(shared_data):
    files = sorted((shared_data / "hostile-jpegs").iterdir())
    found = [read_jpeg_header(file.read_bytes()) for file in files]
    assert len(found) > 100
    assert sum(header is not None for header in found) > len(found) / 2
