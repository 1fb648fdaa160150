"""The five files of the decoder self-test, and what decoders make of them."""

import io
from importlib import resources

import pytest
from PIL import Image, JpegImagePlugin

from alignkit.decoders import DECODERS
from alignkit.decoders.decoder_check import SELF_TEST_KINDS, DecoderCheck, _tests, self_test
from alignkit.decoders.exif import exif_orientation
from alignkit.plugins import Plugin, PluginTable


def opened(kind: str) -> Image.Image:
    return Image.open(
        io.BytesIO(
            resources.files("alignkit.decoders").joinpath("jpegs", f"{kind}.jpg").read_bytes()
        )
    )


@pytest.mark.parametrize(
    ("kind", "mode", "sampling", "orientation"),
    [("420", "RGB", 2, 1), ("444", "RGB", 0, 1), ("exif-6", "RGB", 2, 6), ("cmyk", "CMYK", -1, 1), ("grey", "L", -1, 1)],
)  # fmt: skip
def test_each_file_is_of_the_kind_it_is_named_after(kind, mode, sampling, orientation):
    image = opened(kind)
    assert image.mode == mode
    assert JpegImagePlugin.get_sampling(image) == sampling
    encoded = resources.files("alignkit.decoders").joinpath("jpegs", f"{kind}.jpg").read_bytes()
    assert exif_orientation(encoded) == orientation


@pytest.fixture(scope="module")
def tested():
    return self_test()


def test_every_installed_decoder_is_tested_on_every_file(tested):
    usable = [name for name, plugin in DECODERS.items() if not plugin.missing()]
    assert [(each.decoder, each.kind) for each in tested] == [
        (n, k) for n in usable for k in SELF_TEST_KINDS
    ]
    assert all(each.passed for each in tested), [each for each in tested if not each.passed]
    assert all(each.finding == "equals opencv" for each in tested if each.decoder == "opencv")


def test_a_decoder_that_turns_by_exif_is_told_so(tested):
    (turned,) = [each for each in tested if (each.decoder, each.kind) == ("torchpipe", "exif-6")]
    assert turned.finding == "turned by EXIF"


def test_a_decoder_that_repeats_chroma_is_told_so(tested):
    pytest.importorskip("av", reason="needs the extra pyav")
    (found,) = [each for each in tested if (each.decoder, each.kind) == ("pyav", "420")]
    assert found.finding.startswith("differs from opencv: mean 17")
    assert "nvJPEG's rule: mean 0." in found.finding


@pytest.mark.parametrize("kind", ["420", "444"])
def test_the_decoder_that_computes_nvjpegs_rule_is_not_compared_with_nvjpeg(tested, kind):
    (found,) = [each for each in tested if (each.decoder, each.kind) == ("nvjpeg-model", kind)]
    assert found.finding.startswith("differs from opencv: mean ")
    assert found.finding.endswith("; its own rule: mean 0.00, at most 0")


def test_a_decoder_passes_by_decoding_what_it_must():
    assert not DecoderCheck("x", "420", "failed", "broken").passed
    assert DecoderCheck("x", "cmyk", "unsupported", "four inks").passed


def test_a_decoder_that_ends_its_process_fails_and_the_others_are_tested(monkeypatch):
    table = {"bad": Plugin("tests.fatal_decoders:BrokenDecoder"), "opencv": DECODERS["opencv"]}
    table["absent"] = Plugin("no_such_module:Decoder")
    tested = PluginTable("tested", table)
    monkeypatch.setattr("alignkit.decoders.decoder_check.DECODERS", tested)
    tested = {(each.decoder, each.kind): each for each in self_test()}
    assert tested["opencv", "420"].passed
    assert not tested["bad", "420"].passed
    assert tested["bad", "420"].finding.startswith("crashed: SIGABRT")
    assert tested["absent", "grey"].finding.startswith("ModuleNotFoundError: ")


def test_a_rule_whose_decoder_is_missing_is_left_out(monkeypatch):
    missing = Plugin("no_such_module:Decoder", broken="needs a library")
    absent = dict.fromkeys(("simplejpeg", "nvjpeg-model"), missing)
    table = PluginTable("tested", {**DECODERS.own, **absent})
    monkeypatch.setattr("alignkit.decoders.decoder_check.DECODERS", table)
    checks = _tests("pillow", DECODERS["pillow"], "")
    assert all(each.passed for each in checks), checks
    assert all(each.sha256 for each in checks)
