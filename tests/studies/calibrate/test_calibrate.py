"""The calibration of surrogates, on pairs that run on a CPU, with the answer known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import alignkit.preprocess.presets
from alignkit.decoders import Decoded
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import RecordError
from alignkit.preprocess.presets import PRESETS, joined
from alignkit.progress import NoProgress
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.studies.calibrate import (
    calibrate,
    fingerprint,
    kind_of,
    probe_images,
    residuals,
    summary,
    write_calibration,
)
from alignkit.studies.calibrate.surrogate_stages import Pair, surrogates

SMOOTH, NEAREST = SimpleJPEGDecoder(), SimpleJPEGDecoder(chroma="nearest")


@pytest.fixture(scope="module")
def images():
    return [image for image in probe_images() if image.id.startswith("china-253x191")]


def case(decode=SMOOTH, resize=None, missing=""):
    """A surrogate of known distance: nearest chroma for smooth, align_corners for OpenCV."""
    (found,) = (each for each in surrogates() if each.name == "torchpipe-gpu-surrogate")
    pairs = (
        Pair("decode", NEAREST, decode, missing, gpu=False),
        Pair("resize", found.path.resize.resizer, resize or OpenCVResizer(), "", gpu=False),
    )
    return replace(found, pairs=pairs)


@pytest.fixture(scope="module")
def found(images):
    return calibrate(case(), images, NoProgress())


def gaps(images, kind):
    for image in images:
        if kind_of(image) == kind:
            left, right = (each.decode(image.data).image.astype(int) for each in (SMOOTH, NEAREST))
            yield np.abs(left - right)


def test_every_kind_of_jpeg_is_told_by_itself(found):
    assert set(found["decode"]["kinds"]) == {
        "4:4:4 baseline", "4:2:2 baseline", "4:2:0 baseline", "4:4:0 baseline", "4:1:1 baseline",
        "4:4:4 progressive", "4:2:2 progressive", "4:2:0 progressive", "grey baseline",
    }  # fmt: skip


def test_the_numbers_of_a_decode_are_those_of_a_loop_by_hand(found, images):
    for kind, numbers in found["decode"]["kinds"].items():
        each = list(gaps(images, kind))
        joined = np.concatenate([gap.reshape(-1, 3) for gap in each])
        assert numbers["images"] == len(each)
        assert numbers["images_equal"] == sum(not gap.any() for gap in each)
        assert numbers["pixels"] == len(joined)
        assert numbers["share_equal"] == pytest.approx((joined.max(axis=1) == 0).mean())
        assert numbers["share_within_1"] == pytest.approx((joined <= 1).mean())
        assert numbers["mean_levels"] == pytest.approx(joined.mean())
        assert numbers["max_levels"] == joined.max()
    assert found["decode"]["kinds"]["4:4:4 baseline"]["max_levels"] == 0
    assert found["decode"]["kinds"]["4:2:0 baseline"]["max_levels"] > 10


def test_a_resize_is_compared_on_the_same_pixels(found, images):
    most = 0.0
    for image in images:
        given = NEAREST.decode(image.data).image
        real = OpenCVResizer().resize(given, 224, 224).astype(np.float64)
        ours = TorchResizer(align_corners=True).resize(given, 224, 224)
        most = max(most, float(np.abs(real - ours).max()))
    assert found["resize"]["kinds"]["to 224 px"]["max_levels"] == pytest.approx(most)
    assert found["resize"]["probe"] == {"images": len(images), "sha256": fingerprint(images)}


def test_a_file_that_one_of_the_two_refuses_is_counted_with_its_reason(images):
    class Refusing(SimpleJPEGDecoder):
        def decode(self, encoded):
            return Decoded("unsupported", reason="not on this hardware")

    numbers = calibrate(case(Refusing()), images[:3], NoProgress())["decode"]
    (kind,) = numbers["kinds"].values()
    assert (kind["images"], kind["not_compared"]) == (0, 3)
    assert kind["reasons"] == ["not on this hardware"]
    assert kind["share_equal"] is kind["max_levels"] is None
    told = summary({"decode": numbers})
    assert told == "decode not yet calibrated, 3 of 3 images not compared"


def test_a_stage_is_not_called_equal_where_a_decoder_refuses_some_kinds_of_image(images):
    class Refusing(SimpleJPEGDecoder):
        def decode(self, encoded):
            decoded = super().decode(encoded)
            grey = (decoded.image == decoded.image[..., :1]).all()
            return decoded if grey else Decoded("unsupported", reason="colour")

    numbers = calibrate(case(Refusing(chroma="nearest")), images, NoProgress())
    grey = sum(kind_of(image) == "grey baseline" for image in images)
    told = summary(numbers)
    others = f"{len(images) - grey} of {len(images)} images not compared"
    assert told.startswith(f"decode within 0 levels, {others} (against ")
    assert "equal" not in told.partition(";")[0]


def test_what_cannot_run_is_left_as_it_was_measured_elsewhere(found, images, tmp_path):
    path = write_calibration("x", found, tmp_path)
    first = json.loads(path.read_text())
    partly = calibrate(case(missing="no GPU", resize=TorchResizer(align_corners=True)), images[:2], NoProgress())  # fmt: skip
    assert list(partly) == ["resize"]
    second = json.loads(write_calibration("x", partly, tmp_path).read_text())
    assert second["decode"] == first["decode"]
    assert second["resize"]["kinds"]["to 224 px"]["max_levels"] == 0
    assert second["summary"]["resize"].startswith("resize equal (against ")
    assert second["summary"]["decode"] == first["summary"]["decode"]
    path.write_text("{")
    with pytest.raises(RecordError, match="delete it"):
        write_calibration("x", partly, tmp_path)


def test_residuals_are_real_minus_surrogate(images):
    found = residuals(case().pairs[0], images[:5])
    assert list(found) == [image.id for image in images[:5]]
    first = images[0].data
    expected = SMOOTH.decode(first).image.astype(int) - NEAREST.decode(first).image
    assert np.array_equal(found[images[0].id], expected)


def test_the_probe_has_odd_sizes_and_is_the_same_bytes_each_time():
    one, other = probe_images(), probe_images()
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(one[1:])
    assert len({image.id for image in one}) == len(one)


def test_torchpipes_own_resize_runs_on_a_cpu():
    (pair,) = (p for s in surrogates() if s.name == "torchpipe-gpu-surrogate" for p in s.pairs if p.stage == "resize")  # fmt: skip
    assert not pair.missing
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (61, 97, 3), np.uint8)
    ours = pair.surrogate.resize(image, 48, 48)
    assert np.abs(pair.real.resize(image, 48, 48) - ours).max() < 1e-3


def test_what_is_shipped_says_what_it_was_measured_on():
    folder = Path(alignkit.preprocess.presets.__file__).parent / "calibration"
    files = sorted(folder.glob("*-surrogate.json"))
    assert files
    for file in files:
        assert PRESETS[file.stem].surrogate_of
        stored = json.loads(file.read_text())
        measured = {name: stored[name] for name in ("decode", "resize") if stored[name]}
        assert measured
        assert joined([*stored["summary"].values()]) in summary(measured)
        assert stored["summary"].keys() == measured.keys()
        assert all(stage["real"] and stage["device"] for stage in measured.values())


@pytest.mark.gpu
def test_every_surrogate_of_a_gpu_is_within_its_promise():
    images = probe_images()
    for surrogate in surrogates():
        if any(pair.missing for pair in surrogate.pairs):
            continue
        found = calibrate(surrogate, images, NoProgress())
        for kind, numbers in found["decode"]["kinds"].items():
            assert numbers["share_within_1"] >= 0.999, (surrogate.name, kind, numbers)
