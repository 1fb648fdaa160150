"""Models whose answer for an image is not of that image alone are refused before any number."""

from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.controls import check_alone
from alignkit.errors import ConfigError
from alignkit.experiment.yaml_argument import named_paths
from alignkit.outcome import Measured
from alignkit.predict.check_batches import dependence, require_independent
from alignkit.predict.given_model import given_model, open_given
from alignkit.progress import NoProgress
from alignkit.record import BatchCheck
from alignkit.search.configurations import Framing
from alignkit.search.match_request import MatchRequest, answer, own_pixels
from alignkit.search.target import Target
from alignkit.studies.diff import DiffRequest, diff
from tests.predict.test_given_answers import FLOAT, SCORES, SIDE, node, written
from tests.studies.diff.test_diff import FILES, samples_of

PATHS = named_paths(["pillow-train", "opencv-train"], size=SIDE)
AXIS = {"zero": np.int64(0), "some": np.float32(0.01)}
ALONE = "an image alone and in a batch of 4"
MODELS = {
    # name: the nodes that turn the scores z to y, and what a refusal says
    "each by itself": ([node("Neg", "z", "y")], ""),
    "softmax over classes": ([node("Softmax", "z", "y", axis=1)], ""),
    "the mean of the batch": (
        [node("ReduceMean", "z", "m", axes=[0]), node("Sub", "z m", "y")], ALONE),
    "the deviation of the batch": (
        [node("ReduceL2", "z", "m", axes=[0]), node("Div", "z m", "y")], ALONE),
    "softmax over images": ([node("Softmax", "z", "y", axis=0)], ALONE),
    "the images before it": ([node("CumSum", "z zero", "y")], ALONE),
    "a hundredth of another image": (
        [node("ReduceMax", "z", "m", axes=[0]), node("Mul", "m some", "s"), node("Add", "z s", "y")],
        ALONE),
    "noise": ([node("RandomNormalLike", "z", "n"), node("Add", "z n", "y")], "the same images twice"),
}  # fmt: skip


BAD = {f"bad {number}.jpg": FILES["bad.jpg"] for number in range(5)}
"""More than are probed: what cannot be read proves nothing."""


def asked_diff(model, files):
    """Return how many images a diff compared."""
    request = DiffRequest(PATHS, samples_of(files), "files", model=given_model(model))
    return diff(request, NoProgress()).pairs[0].predictions.n


def asked_match(model, files):
    """Return how many images a match compared."""
    plugins = {"decoders": ["opencv"], "resizers": ["opencv"]}
    path = PATHS[0].preprocess
    found = answer(MatchRequest(path, samples_of(files), model=model, **plugins), NoProgress())
    assert found.match.winner.churn.value is not None
    return found.match.images


def asked_recorded(model, files):
    """Do as `asked_match` of recorded levels, of which some images have none."""
    path, samples = PATHS[0].preprocess, samples_of(files)
    taps = [path.taps(each).last for each in files.values()]
    target = Target(
        "recorded",
        lambda row: "none was recorded" if taps[row] is None else taps[row].astype(np.float32),
        Framing.of(path),
        path.normalise,
    )
    rows = range(len(samples))
    with open_given(given_model(model), (SIDE, SIDE)) as opened:
        require_independent(opened, own_pixels(target, samples, rows), target.normalise)
    return sum(each is not None for each in taps)


@pytest.mark.parametrize("asked", [asked_diff, asked_match, asked_recorded])
@pytest.mark.parametrize("name", MODELS)
def test_what_depends_on_the_batch_is_refused(name, asked, tmp_path):
    nodes, said = MODELS[name]
    file = tmp_path / "model.onnx"
    written(file, [*SCORES, *nodes], {"y": (FLOAT, [5])}, AXIS)
    if not said:
        assert asked(str(file), FILES) > 1
        return
    with pytest.raises(ConfigError, match=said) as caught:
        asked(str(file), FILES)
    assert "model.eval()" in str(caught.value)


@pytest.mark.parametrize("asked", [asked_diff, asked_match, asked_recorded])
def test_images_that_cannot_be_read_hide_no_dependence(asked, tmp_path):
    file = tmp_path / "model.onnx"
    nodes, said = MODELS["softmax over images"]
    written(file, [*SCORES, *nodes], {"y": (FLOAT, [5])}, AXIS)
    with pytest.raises(ConfigError, match=said):
        asked(str(file), BAD | FILES)


def outputs(*rows):
    return (np.stack(rows).astype(np.float32),)


def test_dependence_is_of_the_greatest_output():
    one, two = np.array([100.0, 0.0]), np.array([0.0, 50.0])
    alone = [outputs(one), outputs(two + np.array([0, 1]))]
    assert dependence(outputs(one, two), alone) == pytest.approx(0.01)
    assert dependence(outputs(one, two), [outputs(one), outputs(two)]) == 0
    assert dependence(outputs(one, two), []) is None
    lost = np.full(2, np.nan)
    assert dependence(outputs(lost, lost), [outputs(lost), outputs(lost)]) is None


def test_objects_that_change_places_are_no_dependence():
    rows = np.random.default_rng(0).random((3, 10, 6))
    alone = [outputs(row[::-1]) for row in rows]
    assert dependence(outputs(*rows), alone) == 0
    moved = [outputs(row * 1.1) for row in rows]
    assert dependence(outputs(*rows), moved) == pytest.approx(0.1, rel=0.1)


def cell(relative, precision="fp32", *, live=False):
    evaluation = SimpleNamespace(
        runtime=SimpleNamespace(precision=precision), live=live, label=f"a in {precision}"
    )
    return SimpleNamespace(
        evaluation=evaluation,
        ended=Measured(SimpleNamespace(batch=BatchCheck(images=4, batch=4, relative=relative))),
    )


@pytest.mark.parametrize(
    ("cells", "passed"),
    [
        ([cell(1e-6), cell(2e-2, "fp16")], True),
        ([cell(0.0)], True),
        ([cell(5e-3, live=True)], True),
        ([cell(1e-6), cell(5e-3)], False),
        ([cell(0.3, "int8"), cell(1e-6)], False),
        ([cell(0.4, live=True)], False),
    ],
)
def test_a_run_fails_the_control_where_it_is_more_than_rounding(cells, passed):
    (control,) = check_alone(cells)
    assert control.passed is passed
    assert control.failing == "error"
    assert ("batch_size: 1" in control.observed) is not passed


def test_batches_of_one_image_have_no_control():
    assert check_alone([cell(None)]) == ()
