"""Mixtures agree with the paths they are made of, and share what they can."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.errors import ConfigError
from alignkit.preprocess import Crop, Orient, Preprocess, Resize
from alignkit.preprocess.stage_mixtures import (
    LeftOut,
    StageMixtures,
    all_mixtures,
    differing_stages,
    make_stage_mixtures,
)
from alignkit.resizers.opencv import OpenCVResizer
from tests.made_images import KINDS, NOTED
from tests.photos import TURNED
from tests.stacks import CHANGED, REFERENCE, changed, opencv, turned_photos


def tensor_of(path: Preprocess, encoded: bytes) -> np.ndarray:
    """By `Preprocess` itself."""
    last = path.taps(encoded).last
    assert last is not None
    return path.normalise(last)


@pytest.mark.parametrize("stages", [("decode", "resize"), ("orient", "quantise", "colour"), ()])
def test_every_hybrid_is_the_path_with_those_stages_replaced(stages):
    mixed = make_stage_mixtures(REFERENCE, changed(*stages))
    assert set(mixed.factors) == set(stages)
    wanted = all_mixtures(mixed.factors)
    for index in range(4):
        encoded = turned_photos().read(index)
        made = mixed.tensors(encoded, wanted)
        assert not isinstance(made, LeftOut)
        for taken in wanted:
            assert np.array_equal(made[taken], tensor_of(changed(*taken), encoded))


def test_a_path_does_not_differ_from_itself_under_another_name():
    assert differing_stages(REFERENCE, replace(REFERENCE, name="other")) == ()


def test_all_differing_stages_are_named_in_order():
    assert differing_stages(REFERENCE, changed(*CHANGED)) == tuple(CHANGED)


def test_a_decoder_that_turns_differs_in_decode_only_from_one_followed_by_orient(jpegs):
    turning = opencv(decode=TorchpipeDecoder())
    mixed = make_stage_mixtures(opencv(orient=Orient("exif")), turning)
    assert mixed.factors == ("decode",)
    for kind in TURNED:
        made = mixed.tensors(jpegs[kind], all_mixtures(mixed.factors))
        assert np.array_equal(made[frozenset({"decode"})], tensor_of(turning, jpegs[kind]))


def test_a_turning_decoder_without_its_turn_is_the_reference_decoder(jpegs):
    mixed = make_stage_mixtures(opencv(), opencv(decode=TorchpipeDecoder()))
    assert mixed.factors == ("decode", "orient")
    for kind in TURNED:
        made = mixed.tensors(jpegs[kind], all_mixtures(mixed.factors))
        assert np.array_equal(made[frozenset({"decode"})], made[frozenset()])
        assert not np.array_equal(made[frozenset({"orient"})], made[frozenset()])


@pytest.mark.parametrize(
    ("form", "kind", "place"),
    [
        ("WebP", "lossless", "EXIF with JPEG's identifier"),
        ("PNG", "RGB", "XMP"),
        ("PNG", "alpha", "raw profile"),
        ("AVIF", "4:4:4", "irot and imir"),
        ("AVIF", "4:4:4", "EXIF"),
        ("TIFF", "RGB", "tag"),
    ],
)
def test_a_mixture_turns_as_the_library_of_its_decoder_does(form, kind, place):
    file = NOTED[form][place](KINDS[form, kind](), 3)
    reference = opencv(orient=Orient("exif"))
    candidate = replace(reference, name="pil", decode=PillowDecoder())
    mixed = make_stage_mixtures(reference, candidate)
    made = mixed.tensors(file, all_mixtures(mixed.factors))
    assert np.array_equal(made[frozenset()], tensor_of(reference, file))
    assert np.array_equal(made[frozenset({"decode"})], tensor_of(candidate, file))


def test_resize_and_crop_that_need_each_other_are_swapped_together():
    cropped = opencv(resize=Resize(OpenCVResizer(), (40, 40), "shorter"), crop=Crop((32, 32)))
    mixed = make_stage_mixtures(opencv(), cropped)
    assert mixed.factors == ("resize+crop",)
    (note,) = mixed.notes
    assert note.startswith("resize and crop are swapped together: shorter to 40x40 followed by no")
    assert note.endswith("does not give 32x32")
    made = mixed.tensors(turned_photos().read(0), all_mixtures(mixed.factors))
    assert {tensor.shape for tensor in made.values()} == {(3, 32, 32)}


def test_resize_and_crop_that_fit_are_swapped_apart():
    larger = opencv(resize=Resize(OpenCVResizer("area"), (32, 32)), crop=Crop((32, 32)))
    assert make_stage_mixtures(opencv(), larger).factors == ("resize", "crop")


def test_paths_of_different_sizes_are_refused_with_both_sizes():
    with pytest.raises(ConfigError, match="'opencv' prepares 32x32 and 'opencv' 40x40"):
        make_stage_mixtures(opencv(), opencv(resize=Resize(OpenCVResizer(), (40, 40))))


def test_an_image_one_decoder_refuses_is_left_out_with_its_reason():
    mixed = make_stage_mixtures(opencv(), opencv(decode=SimpleJPEGDecoder()))
    left_out = mixed.tensors(b"GIF89a", all_mixtures(mixed.factors))
    assert isinstance(left_out, LeftOut)
    assert "cv2.imread gave no image" in left_out.reason


def test_decoder_switches_are_factors_of_their_own():
    both = replace(REFERENCE, decode=SimpleJPEGDecoder(chroma="nearest", dct="ifast"))
    mixed = make_stage_mixtures(REFERENCE, both, decoder_switches=True)
    assert set(mixed.factors) == {"decode.upsampling", "decode.dct"}
    encoded = turned_photos().read(1)
    made = mixed.tensors(encoded, all_mixtures(mixed.factors))
    fast = replace(REFERENCE, decode=SimpleJPEGDecoder(dct="ifast"))
    assert np.array_equal(made[frozenset({"decode.dct"})], tensor_of(fast, encoded))


def test_decoders_of_two_libraries_have_no_common_switches():
    mixed = make_stage_mixtures(REFERENCE, opencv_decoded(), decoder_switches=True)
    assert mixed.factors == ("decode",)


def opencv_decoded() -> Preprocess:
    return replace(REFERENCE, decode=OpenCVDecoder())


def test_the_whole_factorial_runs_each_stage_once_for_each_input_it_can_have(monkeypatch):
    done = Counter()
    plain = StageMixtures.apply
    monkeypatch.setattr(
        StageMixtures, "apply", lambda *given: done.update([given[1]]) or plain(*given)
    )
    mixed = make_stage_mixtures(REFERENCE, changed("decode", "resize", "quantise", "colour"))
    made = mixed.tensors(turned_photos().read(1), all_mixtures(mixed.factors))
    assert len({id(tensor) for tensor in made.values()}) == len(made) == 16
    assert done == {
        "decode": 2, "orient": 2, "resize": 4, "crop": 4, "quantise": 8, "colour": 16, "normalise": 16,
    }  # fmt: skip
