"""The orientation is read as Pillow reads it, and obeyed as Pillow and OpenCV obey it."""

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from alignkit.preprocess.exif import exif_orientation, turn
from tests.photos import encoded, exif, photo


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_reads_the_orientation_of_a_file(orientation, kind):
    assert exif_orientation(encoded(photo(), kind, exif=exif(orientation))) == orientation


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turns_as_pillow_does(orientation):
    file = encoded(photo(), exif=exif(orientation))
    opened = Image.open(io.BytesIO(file))
    turned = turn(np.asarray(opened), orientation)
    assert np.array_equal(turned, np.asarray(ImageOps.exif_transpose(opened)))
    assert turned.flags.c_contiguous


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turns_as_opencv_does(orientation):
    file = np.frombuffer(encoded(photo(), exif=exif(orientation)), np.uint8)
    flat = cv2.imdecode(file, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    assert np.array_equal(turn(flat, orientation), cv2.imdecode(file, cv2.IMREAD_COLOR))


@pytest.mark.parametrize("value", [0, 9, 255])
def test_a_value_out_of_range_is_no_orientation(value):
    assert exif_orientation(encoded(photo(), exif=exif(value))) == 1


@pytest.mark.parametrize(
    "file", [b"", b"Exif", b"\xff\xd8\xff\xe1\x00\x10Exif\x00\x00" + b"\xff" * 40]
)
def test_an_unreadable_file_has_no_orientation(file):
    assert exif_orientation(file) == 1


def test_damage_anywhere_in_the_header_is_no_crash():
    whole = encoded(photo(), exif=exif(6))
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for position in rng.integers(2, 200, 4):
            damaged[position] = rng.integers(256)
        assert exif_orientation(bytes(damaged)) in range(1, 9)


def test_reads_both_byte_orders_and_both_integer_widths():
    short, long = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0), struct.pack(">HHII", 0x0112, 4, 1, 6)
    little = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    for order, entry in ((">", short), (">", long), ("<", little)):
        magic = b"MM\0*" if order == ">" else b"II*\0"
        block = b"Exif\0\0" + magic + struct.pack(order + "IH", 8, 1) + entry + bytes(4)
        assert exif_orientation(encoded(photo(), exif=block)) == 6


def test_finds_the_block_behind_other_segments():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    file = encoded(photo(), exif=exif(8), icc_profile=profile, comment=b"Exif")
    assert exif_orientation(file) == 8


@pytest.mark.parametrize("between", [b"junk", b"\xff", b"\xff\x01", b"\xff\xd0\0"])
def test_bytes_between_segments_are_skipped_as_opencv_skips_them(between):
    whole = encoded(photo(), exif=exif(6))
    file = whole[:20] + between + whole[20:]  # behind the first segment, JFIF
    data = np.frombuffer(file, np.uint8)
    flat = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    assert exif_orientation(file) == 6
    assert np.array_equal(turn(flat, 6), cv2.imdecode(data, cv2.IMREAD_COLOR))


@pytest.mark.parametrize("folder", ["odd-jpegs", "hostile-jpegs", "photos"])
def test_agrees_with_opencv_on_every_file_it_decodes(shared_data, folder):
    for path in (shared_data / folder).rglob("*.jp*g"):
        file = path.read_bytes()
        data = np.frombuffer(file, np.uint8)
        flat = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        if flat is not None:
            turned = turn(flat, exif_orientation(file))
            assert np.array_equal(turned, cv2.imdecode(data, cv2.IMREAD_COLOR)), path.name
