"""Sizes that headers declare, against Pillow, and the limit on them before anything is decoded."""

import io

import pytest
from PIL import Image, features

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.findings.stage_yaml import stage_block
from alignkit.preprocess.image_header import MAX_PIXELS, declared_size, decode, image_format
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures
from alignkit.search.configurations import Configuration, Framing
from tests.photos import encoded, photo

SIZE = (37, 61)
PIXELS = 61 * 97
KINDS = [
    ("JPEG", {}, "JPEG"),
    ("PNG", {}, "PNG"),
    ("GIF", {}, "GIF"),
    ("BMP", {}, "BMP"),
    ("WEBP", {}, "WebP"),
    ("WEBP", {"lossless": True}, "WebP"),
    ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}, "WebP"),
    ("TIFF", {}, "TIFF"),
    ("JPEG2000", {}, "JPEG 2000"),
    ("AVIF", {}, "HEIF"),
]


def file_of(kind, size=SIZE, **options):
    if kind in ("AVIF", "JPEG2000") and not features.check({"AVIF": "avif"}.get(kind, "jpg_2000")):
        pytest.skip(f"this Pillow writes no {kind}")
    file = io.BytesIO()
    Image.new("RGB", size[::-1], "red").save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(("kind", "options", "name"), KINDS)
def test_size_and_format_are_read_from_the_header(kind, options, name):
    file = file_of(kind, **options)
    assert image_format(file) == name
    assert declared_size(file) == SIZE


@pytest.mark.parametrize(("kind", "options", "name"), KINDS)
def test_a_file_cut_off_in_its_header_has_no_size_and_no_error(kind, options, name):
    file = file_of(kind, **options)
    for end in range(min(len(file), 400)):
        assert declared_size(file[:end]) in (None, SIZE)


def test_of_several_images_the_largest_counts():
    file = io.BytesIO()
    pages = [Image.new("L", size) for size in ((300, 200), (10, 10))]
    Image.new("L", (5, 5)).save(file, "TIFF", save_all=True, append_images=pages)
    assert declared_size(file.getvalue()) == (200, 300)


def test_a_chain_of_directories_that_closes_ends():
    file = bytearray(file_of("TIFF"))
    start = int.from_bytes(file[4:8], "little")
    entries = int.from_bytes(file[start : start + 2], "little")
    end = start + 2 + 12 * entries
    file[end : end + 4] = start.to_bytes(4, "little")
    assert declared_size(bytes(file)) == SIZE


def test_an_unknown_format_has_no_size():
    assert declared_size(b"not an image") is None
    assert image_format(b"not an image") == "other"


def path(name="opencv-train", **options):
    return PreprocessOption.model_validate({"preset": name, "size": 32, **options}).build(name)


def test_the_limit_is_inclusive_and_what_is_beyond_it_never_reaches_the_decoder(monkeypatch):
    file = encoded(photo())
    assert decode(OpenCVDecoder(), file, PIXELS).outcome == "ok"
    monkeypatch.setattr(OpenCVDecoder, "decode", lambda *_: pytest.fail("it was decoded"))
    refused = decode(OpenCVDecoder(), file, PIXELS - 1)
    assert (refused.outcome, refused.image) == ("failed", None)
    assert refused.reason.startswith("too large: 97x61 by its header")


def test_a_header_that_does_not_tell_is_left_to_the_decoder():
    assert decode(OpenCVDecoder(), b"GIF", 1).reason != ""
    assert "too large" not in decode(OpenCVDecoder(), b"GIF", 1).reason


def test_the_limit_of_a_file_reaches_every_stage_that_decodes():
    small = path(max_pixels=PIXELS - 1)
    assert (path().max_pixels, small.max_pixels) == (MAX_PIXELS, PIXELS - 1)
    assert small.identity() != path().identity()  # so that nothing kept under another is taken
    assert small.taps(encoded(photo())).decoded.outcome == "failed"
    mixed = make_stage_mixtures(small, path("pillow-train"))
    assert isinstance(left := mixed.tensors(encoded(photo()), [frozenset()]), LeftOut)
    assert "too large" in left.reason
    found = Configuration(small.decode, small.resize.resizer).preprocess(
        Framing.of(small), small.normalise
    )
    assert found.max_pixels == stage_block(found)["max_pixels"] == PIXELS - 1
