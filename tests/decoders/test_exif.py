"""The orientation is obeyed as the library of each decoder obeys it."""

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from alignkit.decoders.exif import exif_orientation, measured_orientation, turn, turn_of
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.decoders.torchvision import TorchvisionDecoder
from tests.made_images import KINDS, NOTED
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


OPENCV, PILLOW, TORCHVISION = OpenCVDecoder(), PillowDecoder(), TorchvisionDecoder()
READINGS = [
    # by cv2.imread with and without IMREAD_IGNORE_ORIENTATION, OpenCV 5.0.0
    (OPENCV, "JPEG", "4:2:0", "XMP", 1),
    (OPENCV, "PNG", "alpha", "EXIF behind the pixels", 6),
    (OPENCV, "PNG", "alpha", "EXIF with JPEG's identifier", 1),
    (OPENCV, "PNG", "alpha", "raw profile", 1),
    (OPENCV, "WebP", "lossy", "EXIF", 6),
    (OPENCV, "WebP", "lossy", "EXIF with JPEG's identifier", 1),
    (OPENCV, "AVIF", "4:2:0", "EXIF", 6),
    (OPENCV, "AVIF", "4:2:0", "irot and imir", 1),
    # by ImageOps.exif_transpose, Pillow 13.0.0; a TIFF is upright when it is loaded
    (PILLOW, "JPEG", "4:2:0", "XMP", 6),
    (PILLOW, "PNG", "alpha", "EXIF with JPEG's identifier", 6),
    (PILLOW, "PNG", "alpha", "raw profile", 6),
    (PILLOW, "PNG", "animated", "EXIF behind the pixels", 1),
    (PILLOW, "WebP", "lossy", "EXIF with JPEG's identifier", 6),
    (PILLOW, "AVIF", "4:2:0", "irot and imir", 6),
    (PILLOW, "GIF", "palette", "XMP", 1),
    (PILLOW, "TIFF", "RGB", "tag", 1),
    # by decode_image(apply_exif_orientation=...), torchvision 0.27.1
    (TORCHVISION, "PNG", "alpha", "EXIF", 6),
    (TORCHVISION, "PNG", "alpha", "EXIF behind the pixels", 1),
    (TORCHVISION, "WebP", "lossy", "EXIF", 1),
    # it cannot turn, so EXIF counts
    (SimpleJPEGDecoder(), "JPEG", "grey", "EXIF", 6),
    # the OpenCV inside torchpipe 0.2.25
    (TorchpipeDecoder(), "PNG", "alpha", "EXIF with JPEG's identifier", 1),
    (TorchpipeDecoder(), "PNG", "alpha", "EXIF", 6),
]


@pytest.mark.parametrize(("decoder", "form", "kind", "place", "value"), READINGS)
def test_each_library_reads_the_orientation_in_its_own_places(decoder, form, kind, place, value):
    assert turn_of(decoder, NOTED[form][place](KINDS[form, kind](), 6)) == value


def test_a_decoder_of_a_third_party_without_the_method_follows_exif():
    class Third:
        """A decoder that keeps the contract without deriving from its class."""

    assert turn_of(Third(), encoded(photo(), exif=exif(5))) == 5


def test_what_is_no_turn_at_all_is_an_error():
    file = NOTED["PNG"]["EXIF"](KINDS["PNG", "RGB"](), 6)
    images = {False: photo(), True: photo("flower")}
    with pytest.raises(ValueError, match="none of EXIF's eight turns"):
        measured_orientation(file, images.__getitem__)
    assert measured_orientation(KINDS["PNG", "RGB"](), images.__getitem__) == 1
