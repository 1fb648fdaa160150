"""A snapshot against a baseline: where a change begins, why, and how far it goes."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.baseline.baseline_diff import compare_with_baseline
from alignkit.baseline.golden import GoldenStore
from alignkit.baseline.snapshot import take_snapshot
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Colour, Orient, Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.samples import Samples
from tests.photos import encoded, make_jpegs, photo

KINDS = ("420", "444", "low-quality", "exif-6")
PATH = Preprocess("serving", PillowDecoder(), Resize(OpenCVResizer(), (32, 32)))


@pytest.fixture(scope="module")
def samples():
    jpegs = make_jpegs()
    return Samples(KINDS, (), (), lambda index: jpegs[KINDS[index]], "fingerprint")


@pytest.fixture(scope="module")
def approved(samples):
    return take_snapshot("small", [PATH], samples).as_baseline()


def compared(approved, path, samples, **more):
    now = take_snapshot("small", [path], samples, approved=approved, **more)
    facts = compare_with_baseline(approved, now)
    return facts, {stage.stage: stage for stage in facts.stages}


def test_the_same_path_changes_nothing(approved, samples):
    facts, stages = compared(approved, PATH, samples)
    assert (facts.new, facts.gone) == (0, 0)
    assert len(stages) == 7
    for stage in stages.values():
        assert (stage.images, stage.changed) == (len(KINDS), 0)
        assert stage.pixels is not None
        assert stage.pixels.max_abs == 0


def test_threads_do_not_change_a_snapshot(approved, samples):
    assert take_snapshot("small", [PATH], samples, threads=3).lines == approved.lines


@pytest.mark.parametrize("resizer", [OpenCVResizer(), TorchResizer()])
def test_the_statistics_of_a_line_are_those_of_its_array(samples, resizer):
    path = replace(PATH, resize=Resize(resizer, (31, 29)), colour=Colour("bgr"))
    lines = take_snapshot("small", [path], samples).lines
    for index, image in enumerate(KINDS):
        taps = path.taps(samples.read(index))
        arrays = {**taps.pixels, "normalise": path.normalise(taps.last).transpose(1, 2, 0)}
        for stage in ("decode", "resize", "colour", "normalise"):
            line, array = lines["serving", image, stage], arrays[stage].astype(np.float64)
            assert line.mean == pytest.approx(array.mean((0, 1)), abs=2e-6)
            assert line.std == pytest.approx(array.std(), abs=2e-6)
            assert (line.least, line.greatest) == (array.min(), array.max())


def test_a_changed_decoder_begins_at_decode_and_is_named(approved, samples):
    nearest = replace(PATH, decode=SimpleJPEGDecoder(chroma="nearest"))
    _, stages = compared(approved, nearest, samples)
    assert stages["decode"].begun == stages["decode"].changed > 0
    assert "chroma: none → nearest" in stages["decode"].cause
    assert stages["resize"].begun == 0
    assert stages["resize"].changed > 0


def test_a_changed_resize_begins_at_resize(approved, samples):
    area = replace(PATH, resize=Resize(OpenCVResizer("area"), (32, 32)))
    _, stages = compared(approved, area, samples)
    assert stages["decode"].changed == 0
    assert stages["resize"].begun == len(KINDS)
    assert "interpolation: linear → area" in stages["resize"].cause


def test_a_stage_that_did_nothing_before_is_where_a_change_begins(approved, samples):
    _, stages = compared(approved, replace(PATH, colour=Colour("bgr")), samples)
    assert [name for name, stage in stages.items() if stage.begun] == ["colour"]
    _, stages = compared(approved, replace(PATH, orient=Orient("exif")), samples)
    assert stages["orient"].begun == 1
    assert stages["orient"].examples == ("exif-6",)


def test_a_stage_that_stops_doing_something_is_a_change_that_can_be_approved(samples):
    turning = take_snapshot("small", [replace(PATH, orient=Orient("exif"))], samples).as_baseline()
    now = take_snapshot("small", [PATH], samples, approved=turning)
    facts = compare_with_baseline(turning, now)
    assert {stage.stage: stage.begun for stage in facts.stages}["orient"] == 1
    merged = replace(turning, lines=turning.lines | now.lines)
    assert not any(stage.changed for stage in compare_with_baseline(merged, now).stages)


def test_golden_tensors_give_the_exact_distance(tmp_path, samples):
    store = GoldenStore(tmp_path)
    kept = take_snapshot("small", [PATH], samples, golden=store, keep=["decode"]).as_baseline()
    nearest = SimpleJPEGDecoder(chroma="nearest")
    _, stages = compared(kept, replace(PATH, decode=nearest), samples, golden=store)
    pairs = [
        (PillowDecoder().decode(samples.read(i)).image, nearest.decode(samples.read(i)).image)
        for i in range(len(KINDS))
    ]
    gaps = [np.abs(b.astype(int) - a.astype(int)) for a, b in pairs]
    found = stages["decode"].pixels
    assert found is not None
    assert found.max_abs == max(gap.max() for gap in gaps)
    assert found.mean_abs == pytest.approx(np.concatenate([g.ravel() for g in gaps]).mean())
    assert found.images == len(KINDS)
    assert stages["resize"].pixels is None
    assert stages["resize"].unmeasured == stages["resize"].changed


@pytest.mark.parametrize("keep", ["resize", "colour"])
def test_a_stage_that_does_nothing_is_measured_by_the_golden_tensor_it_passes_on(
    tmp_path, samples, keep
):
    store = GoldenStore(tmp_path)
    kept = take_snapshot("small", [PATH], samples, golden=store, keep=[keep]).as_baseline()
    area = replace(PATH, resize=Resize(OpenCVResizer("area"), (32, 32)))
    _, stages = compared(kept, area, samples, golden=store)
    for stage in ("resize", "crop", "quantise", "colour"):
        assert (stages[stage].changed, stages[stage].unmeasured) == (len(KINDS), 0)
        assert stages[stage].pixels.max_abs > 0
        same = stages["resize"].pixels.model_copy(update={"stage": stage})
        assert stages[stage].pixels == same
    _, stages = compared(kept, replace(area, colour=Colour("bgr")), samples, golden=store)
    gaps = [
        area.taps(samples.read(i)).last[..., ::-1].astype(int) - PATH.taps(samples.read(i)).last
        for i in range(len(KINDS))
    ]
    assert stages["colour"].pixels.max_abs == np.abs(gaps).max() > stages["crop"].pixels.max_abs


def test_a_stage_that_does_nothing_has_the_lower_bound_of_what_it_passes_on(approved, samples):
    area = replace(PATH, resize=Resize(OpenCVResizer("area"), (32, 32)))
    _, stages = compared(approved, area, samples)
    assert stages["colour"].at_least == stages["resize"].at_least
    assert stages["colour"].at_least["max_abs"] >= 1


def test_without_golden_tensors_the_lines_give_a_lower_bound(approved, samples):
    nearest = replace(PATH, decode=SimpleJPEGDecoder(chroma="nearest"))
    _, stages = compared(approved, nearest, samples)
    pairs = [
        (
            PillowDecoder().decode(samples.read(i)).image,
            nearest.decode.decode(samples.read(i)).image,
        )
        for i in range(len(KINDS))
    ]
    gaps = np.concatenate([np.abs(b.astype(int) - a.astype(int)).ravel() for a, b in pairs])
    bound = stages["decode"].at_least
    assert 0 < bound["mean_abs"] <= gaps.mean() + 1e-6
    assert 1 <= bound["max_abs"] <= gaps.max()


def test_new_and_gone_images_are_counted_and_not_compared(approved, samples):
    facts, stages = compared(approved, PATH, samples.take([0, 1]))
    assert (facts.new, facts.gone) == (0, 2)
    assert stages["decode"].images == 2
    other = Samples(("x",), (), (), lambda _: encoded(photo()), "f")
    facts, stages = compared(approved, PATH, other)
    assert (facts.new, facts.gone, stages) == (1, 4, {})


def test_an_image_that_is_no_longer_decoded_is_a_matter_of_coverage(approved, samples):
    cut = Samples(samples.ids, (), (), lambda i: samples.read(i) if i else b"", "f")
    facts, stages = compared(approved, replace(PATH, decode=OpenCVDecoder()), cut)
    (coverage,) = facts.coverage
    assert (coverage.only_reference, coverage.reference_examples) == (1, (KINDS[0],))
    assert coverage.candidate_examples == ()
    assert stages["decode"].images == len(KINDS) - 1


def test_a_file_that_is_another_file_is_named_as_the_cause(approved, samples):
    swapped = Samples(samples.ids, (), (), lambda i: samples.read((i + 1) % 3), "f")
    _, stages = compared(approved, PATH, swapped)
    assert "are others than before" in stages["decode"].cause
