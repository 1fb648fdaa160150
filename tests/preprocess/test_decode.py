"""The limit that headers are held against before anything is decoded."""

import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.match.configurations import Configuration, Geometry
from alignkit.match.match_text import stage_block
from alignkit.preprocess.decode import MAX_PIXELS, decode
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures
from tests.photos import encoded, photo

PIXELS = 61 * 97


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
        Geometry.of(small), small.normalise
    )
    assert found.max_pixels == stage_block(found)["max_pixels"] == PIXELS - 1
