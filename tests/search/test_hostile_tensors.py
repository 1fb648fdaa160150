"""Damaged images, files that hold no tensor, and tones that a fit takes in: nothing is invented."""

import os
from dataclasses import replace

import numpy as np
import pytest

from alignkit.errors import ConfigError, DataError
from alignkit.predict.given_model import given_model, open_given
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_text import headline, paste
from alignkit.search.recorded_target import recorded_target
from alignkit.search.stored_tensors import stored_tensors
from alignkit.search.target import preprocess_of, preprocess_target
from alignkit.search.target_facts import TargetFact, _fact
from tests.cli.test_match import linear_model
from tests.search.test_match_result import PLAIN, result
from tests.search.test_search import photographs
from tests.stacks import samples_of

FEW = {"decoders": ("opencv",), "resizers": ("opencv",)}


def test_lost_images_and_nan_are_left_out_with_their_reason(tmp_path):
    path = preprocess_of("opencv-train", 32)
    good = photographs(6)
    for row in range(6):
        tensor = path.normalise(path.taps(good.read(row)).last)
        tensor[0, 0, 1] = np.nan if row == 2 else tensor[0, 0, 1]
        np.save(tmp_path / f"{row}.npy", tensor)
    samples = samples_of([b"junk", *(good.read(row) for row in range(1, 6))])
    target, rows = recorded_target(tmp_path, samples, **FEW)
    found = match(target, samples, rows, configurations(target.geometry, **FEW))
    assert found.state == "found"
    reasons = dict(found.left_out)
    assert set(reasons) == {"0.jpg", "2.jpg"}
    assert "may be damaged" in reasons["0.jpg"]
    assert "NaN" in reasons["2.jpg"]


@pytest.mark.parametrize("seed", range(3))
def test_lost_images_of_a_first_rung_are_replaced_by_others(seed):
    samples = samples_of([b"junk"] * 5 + [photographs().read(0)])
    target = preprocess_target(preprocess_of("opencv-train", 32))
    found = match(target, samples, range(6), [PLAIN], seed=seed)
    assert (found.state, found.images, len(found.left_out)) == ("found", 1, 5)


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_that_holds_no_tensor_is_named(tmp_path, content, suffix):
    (tmp_path / f"0.{suffix}").write_bytes(content)
    with pytest.raises(DataError, match=rf"0\.{suffix} holds no tensor: .*; record it again"):
        [each.shape() for each in stored_tensors(tmp_path).values()]


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"0.{suffix}")
    with pytest.raises(DataError, match="not a regular file: a FIFO"):
        [each.shape() for each in stored_tensors(tmp_path).values()]


def test_numbers_that_are_not_real_are_refused(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((3, 8, 8), complex))
    with pytest.raises(DataError, match="dtype complex128, expected real ones"):
        recorded_target(tmp_path, photographs(1), **FEW)
    np.save(tmp_path / "0.npy", np.zeros((3, 0, 0)))
    with pytest.raises(DataError, match="no RGB images"):
        recorded_target(tmp_path, photographs(1), **FEW)


def test_a_header_is_believed_as_far_as_its_bytes_go(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((3, 8, 8)))
    content = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "0.npy").write_bytes(content[:-8])
    with pytest.raises(DataError, match="ends after 1528 of 1536 bytes"):
        stored_tensors(tmp_path)["0.npy"].read()
    np.savez(tmp_path / "all.npz", a=np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert stored_tensors(tmp_path)["a.npy"].read().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("remains", "fitted_on", "why"),
    [
        (0.0, 1, "cannot tell a normalisation from a change of tone"),
        (0.79, 8, "none that is known, and fits only to 0.79 levels"),
        (0.2, 3, ""),
        (0.79, None, ""),
    ],
)
def test_an_unknown_normalisation_needs_a_close_fit_on_three_images(remains, fitted_on, why):
    found = result(remains, remains, PLAIN, fitted_on=fitted_on)
    # no image is equal where anything remains
    assert found.state == ("not found" if why else "near")
    assert why in headline(found, {})
    if why:
        assert paste(found, "matched") == ""


@pytest.mark.parametrize(
    ("remains", "fitted_on", "state"),
    [(0.0, 8, "near"), (0.9, 3, "near"), (1.1, 8, "not found"), (0.9, 2, "not found")],
)
def test_a_known_normalisation_in_place_of_the_fitted_one_is_never_more_than_near(
    remains, fitted_on, state
):
    found = result(remains, remains, PLAIN, fitted_on=fitted_on, stand_in="-1..1")
    assert found.state == state
    named = "with -1..1 as normalisation" if state == "near" else "normalisation is none that is"
    assert named in headline(found, {})


def test_flat_images_tell_nothing(tmp_path):
    from tests.photos import encoded

    samples = samples_of([encoded(np.full((40, 40, 3), 60 * n + 30, np.uint8)) for n in range(3)])
    for row in range(3):
        np.save(tmp_path / f"{row}.npy", np.full((3, 16, 16), row, np.float32))
    with pytest.raises(DataError, match="too flat to tell"):
        recorded_target(tmp_path, samples, **FEW)


def test_facts_that_cannot_be_seen_or_were_not_found_say_so():
    same = _fact("channel order", "RGB", 0.0001, 0.0002)
    assert str(same).startswith("channel order: cannot be seen in these images, taken as RGB")
    advised = TargetFact("colour", "BT.709", "residual 2", advice="; correct it where it serves")
    assert str(advised) == "colour: BT.709 (residual 2); correct it where it serves"
    assert str(advised.unsettled()) == "colour: not found, taken as BT.709 (residual 2)"
    assert advised.settled() == advised
    assert advised.unsettled().settled() == replace(advised, advice="")
    # a name of a stack may hold our words
    named = TargetFact("geometry", "not found, taken as a name")
    assert named.settled() == named.unsettled() == named


def test_coarse_numbers_are_no_unlimited_tolerance(tmp_path):
    path, samples = preprocess_of("opencv-train", 32), photographs(3)
    for row in range(3):
        levels = np.moveaxis(np.asarray(path.taps(samples.read(row)).last, np.float64), -1, 0)
        np.save(tmp_path / f"{row}.npy", (levels / 255 + 100).astype(np.float16))
    assert recorded_target(tmp_path, samples, **FEW)[0].tolerance <= 0.5


def test_a_model_without_one_value_for_each_class_is_refused_when_it_is_opened(tmp_path):
    import onnx

    linear_model(tmp_path / "model.onnx", 8)
    model = onnx.load(tmp_path / "model.onnx")
    model.graph.node[1].output[0] = "flat_logits"
    axes = onnx.numpy_helper.from_array(np.array([2, 3]), "axes")
    model.graph.initializer.append(axes)
    model.graph.node.append(onnx.helper.make_node("Unsqueeze", ["flat_logits", "axes"], ["logits"]))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for size in (0, 40, 2, 1):
        dimension = model.graph.output[0].type.tensor_type.shape.dim.add()
        if size:
            dimension.dim_value = size
    onnx.save(model, tmp_path / "model.onnx")
    with (
        pytest.raises(ConfigError, match=r"it gives logits \(\?, 40, 2, 1\), and a classifier"),
        open_given(given_model(str(tmp_path / "model.onnx")), (8, 8)),
    ):
        pass
