import pytest

from alignkit.preprocess.image_kinds import DIMENSIONS, kinds_of
from alignkit.preprocess.jpeg_header import read_jpeg_header
from tests.made_images import KINDS
from tests.photos import encoded, photo


def kinds(data, size=(61, 97)):
    return kinds_of(data, read_jpeg_header(data), size)


def test_every_image_has_a_kind_in_every_dimension(jpegs):
    files = [*jpegs.values(), encoded(photo(), "PNG"), b"", b"\xff\xd8 damaged"]
    for file in files:
        assert len(kinds(file)) == len(DIMENSIONS)
        assert all(kinds(file))


def test_jpegs_are_told_apart(jpegs):
    assert kinds(jpegs["420"]).subsampling == "4:2:0"
    assert kinds(jpegs["420"]).quality == "90 to 94"
    assert kinds(jpegs["low-quality"]).quality == "below 70"
    assert kinds(jpegs["progressive"]).coding == "progressive"
    assert kinds(jpegs["exif-6"]).orientation == "EXIF 6"
    assert kinds(jpegs["icc"]).icc == "with ICC profile"
    assert kinds(jpegs["cmyk"]).mode == "CMYK"


def test_what_cannot_be_told_is_said_so():
    assert kinds(b"\xff\xd8 damaged", None).subsampling == "unknown"
    assert kinds(b"\xff\xd8 damaged", None).size == "unknown"
    assert kinds(encoded(photo(), "PNG")).quality == "not JPEG"


@pytest.mark.parametrize(
    ("form", "kind", "deep"),
    [
        ("PNG", "16-bit grey", True), ("PNM", "16-bit grey", True), ("TIFF", "16-bit grey", True),
        ("PNG", "16-bit RGB", False), ("TIFF", "16-bit RGB", False), ("PNM", "16-bit RGB", False),
        ("PNG", "grey", False), ("TIFF", "grey and alpha", False), ("PNM", "in text", False),
        ("GIF", "grey", False),
    ],
)  # fmt: skip
def test_grey_of_16_bits_is_a_mode(form, kind, deep):
    mode = kinds(KINDS[form, kind]()).mode
    assert mode == ("16-bit grey" if deep else "not JPEG")


def test_classes_of_size_and_quality_meet_at_their_ends():
    assert kinds(b"", (1000, 99)).size == "below 0.1 MP"
    assert kinds(b"", (1000, 100)).size == "0.1 to 0.5 MP"
    assert kinds(b"", (4000, 2500)).size == "10 MP and more"
    for quality, expected in (
        (69, "below 70"),
        (70, "70 to 79"),
        (94, "90 to 94"),
        (95, "95 to 100"),
    ):
        assert kinds(encoded(photo(), quality=quality)).quality == expected
