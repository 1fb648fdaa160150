"""Named differences: each is one library's one switch, seen by calling that library directly."""

import io

import cv2
import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image

from alignkit.compare.linear_answers import turning_points
from alignkit.compare.predictions import Predictions
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.findings.pixel_curves import curve
from alignkit.preprocess import Orient, Preprocess, Quantise, Resize
from alignkit.preprocess.stage_mixtures import make_stage_mixtures
from alignkit.record.tolerance_facts import OPEN_END, UNIT
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.studies.tolerance.exchange import exchange_rate
from alignkit.studies.tolerance.lines import LineCurves
from alignkit.studies.tolerance.named_differences import named_switches
from alignkit.studies.tolerance.stage_curves import mixed_path
from tests.task_case import ids

OPENCV = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (16, 16)))


@pytest.fixture(scope="module")
def encoded():
    """A JPEG with colour at every edge, 4:2:0."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
    large = Image.fromarray(pixels).resize((50, 60), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    large.save(file, "JPEG", quality=80, subsampling=2)
    return file.getvalue()


def last(path, encoded):
    return path.taps(encoded).last


def torch_resized(image, **options):
    planes = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32))[None]
    found = torch.nn.functional.interpolate(planes, (16, 16), mode="bilinear", **options)
    return found[0].permute(1, 2, 0).numpy()


def test_switches_of_a_libjpeg_path_are_those_of_the_libraries(encoded):
    found = named_switches(OPENCV)
    base = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    resized = cv2.resize(base, (16, 16), interpolation=cv2.INTER_LINEAR)
    for name, options in {
        "chroma upsampling": {"fastupsample": True},
        "inverse DCT": {"fastdct": True},
    }.items():
        assert np.array_equal(last(found[name].begin, encoded), resized)
        other = simplejpeg.decode_jpeg(encoded, "RGB", **options)
        other = cv2.resize(other, (16, 16), interpolation=cv2.INTER_LINEAR)
        assert np.array_equal(last(found[name].end, encoded), other)
        assert (other != resized).any()
    truncated = found["colour rounding"]
    assert np.array_equal(last(truncated.begin, encoded), resized)
    assert last(truncated.end, encoded).mean() < resized.mean()  # cut off is darker
    for name, before, after in (
        ("antialias", {}, {"antialias": True}),
        ("half pixel", {"align_corners": False}, {"align_corners": True}),
    ):
        switch = found[name]
        assert np.array_equal(last(switch.begin, encoded), torch_resized(base, **before))
        assert np.array_equal(last(switch.end, encoded), torch_resized(base, **after))
    unrounded, rounded = (last(each, encoded) for each in _both(found["8-bit rounding"]))
    assert np.array_equal(np.rint(unrounded), rounded)
    assert (unrounded.dtype, rounded.dtype) == (np.float32, np.uint8)


def _both(switch):
    return switch.begin, switch.end


def test_a_switch_starts_at_the_paths_own_setting():
    served = Preprocess(
        "served",
        SimpleJPEGDecoder(chroma="nearest", dct="ifast"),
        Resize(PillowResizer("bicubic"), (16, 16)),
    )
    found = named_switches(served)
    assert found["chroma upsampling"].by == "simplejpeg chroma: nearest → smooth"
    assert found["inverse DCT"].by == "simplejpeg dct: ifast → islow"
    assert found["colour rounding"] == (
        "nvjpeg-model, which has this switch, has no fast inverse DCT"
    )
    assert found["antialias"].by == "torch antialias: on → off"
    assert found["antialias"].begin.resize.resizer == TorchResizer("bicubic", antialias=True)
    cornered = Preprocess(
        "served", SimpleJPEGDecoder(), Resize(TorchResizer(align_corners=True), (16, 16))
    )
    assert named_switches(cornered)["half pixel"].by == "torch align_corners: on → off"
    area = Preprocess("area", OpenCVDecoder(), Resize(OpenCVResizer("area"), (16, 16)))
    reasons = [each for each in named_switches(area).values() if isinstance(each, str)]
    assert reasons == ["torch has no resize with the kernel area"] * 3


def test_a_decoder_that_turns_is_replaced_by_one_and_its_turn():
    turning = Preprocess("cv", OpenCVDecoder(), OPENCV.resize)
    assert named_switches(turning)["inverse DCT"].begin.orient == Orient(
        "exif" if turning.decode.orients else "none"
    )


def test_one_stage_of_a_pair_is_that_of_its_mixture(encoded):
    other = Preprocess(
        "other", PillowDecoder(), Resize(PillowResizer("bicubic"), (16, 16)), Orient("exif")
    )
    mixtures = make_stage_mixtures(OPENCV, other)
    assert len(mixtures.factors) > 1
    for factor in mixtures.factors:
        path = mixed_path(OPENCV, other, factor)
        taken = frozenset({factor})
        expected = mixtures.tensors(encoded, [taken])[taken]
        assert np.array_equal(path.normalise(last(path, encoded)), expected)
    assert mixed_path(OPENCV, replaced(OPENCV), "quantise").quantise == Quantise("round")


def replaced(path):
    return Preprocess("rounded", path.decode, path.resize, quantise=Quantise("round"))


def line_of(seed, scale, size, n=800):
    """A line of a made model, whose margins are those of ``seed``."""
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(n, 4))
    step = scale * np.random.default_rng(seed).normal(size=(n, 4))
    labels = np.zeros(n, np.int64)
    before, after = (
        Predictions(tuple(ids(n)), labels, each.astype(np.float32), tuple("abcd"))
        for each in (raw, raw + step)
    )
    made = curve(0, before, after, 0.05, "", ())
    checked = made.model_copy(update={"source": "line, checked"})
    return LineCurves(tuple(ids(n)), size, [checked], [turning_points(before, after)])


def test_a_rate_divides_the_levels_that_are_borne():
    base, other = line_of(1, 0.4, 2.0), line_of(2, 0.2, 0.5)
    rate = exchange_rate(base, other)
    assert rate.value == pytest.approx(other.factor * 0.5 / (base.factor * 2.0))
    assert rate.low < rate.value < rate.high
    # the interval of a rate that is known: twice the same difference, in half the levels
    twice = line_of(1, 0.8, 2.0)
    known = exchange_rate(base, twice)
    assert [known.value, known.low, known.high] == pytest.approx([0.5] * 3, rel=1e-5)
    assert exchange_rate(base, base).reason == UNIT


def test_a_rate_without_an_interval_says_why():
    base, open_ended = line_of(1, 0.4, 2.0), line_of(2, 1e-4, 0.5)
    assert exchange_rate(base, open_ended).reason == OPEN_END
    few = line_of(3, 0.2, 1.0)
    limit = few.curves[0].limit.__class__(0.5, 2, 0.01)
    few.curves = [few.curves[0].model_copy(update={"limit": limit})]
    assert exchange_rate(base, few).reason == (
        "2 images may change, and an interval takes 5: give a greater budget"
    )
    measured = line_of(3, 0.2, 1.0)
    measured.curves = [measured.curves[0].model_copy(update={"source": "measured points"})]
    assert exchange_rate(base, measured).reason == "one of the limits is a measured point"
    other = line_of(3, 0.2, 1.0)
    other.ids = other.ids[:-1]
    assert "different images" in exchange_rate(base, other).reason
    assert exchange_rate(base, LineCurves(reason="it changes no pixel of these images")) is None
