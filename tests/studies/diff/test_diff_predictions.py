"""A model's predictions along two paths, against the same by hand."""

import numpy as np
import onnxruntime
import pytest

from alignkit.errors import ConfigError
from alignkit.experiment.yaml_argument import named_paths
from alignkit.predict.given_model import given_model, open_given, own_size
from alignkit.progress import NoProgress
from alignkit.studies.diff import DiffRequest, diff
from alignkit.studies.diff.diff_summary import diff_summary
from tests.cli.test_match import linear_model
from tests.studies.diff.test_diff import FILES, samples_of

PATHS = ("pillow-train", "{name: nearest, preset: opencv-train, resize: {interpolation: nearest}}")
SIZE = 32


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.onnx"
    linear_model(file, SIZE)
    return file


def compared(model, *paths, files=FILES):
    named = named_paths(paths, size=SIZE)
    request = DiffRequest(named, samples_of(files), "files", model=given_model(str(model)))
    return diff(request, NoProgress())


@pytest.fixture(scope="module")
def record(model):
    return compared(model, *PATHS)


@pytest.fixture(scope="module")
def logits(model):
    """Path → (images, outputs) of the images that both paths decode."""
    session = onnxruntime.InferenceSession(str(model))
    paths = [each.preprocess for each in named_paths(PATHS, size=SIZE)]
    rows = []
    for data in FILES.values():
        taps = [path.taps(data).last for path in paths]
        if all(each is not None for each in taps):
            batch = [path.normalise(each)[None] for path, each in zip(paths, taps, strict=True)]
            name = session.get_inputs()[0].name
            rows.append([session.run(None, {name: each})[0][0] for each in batch])
    return np.moveaxis(np.array(rows), 1, 0)


def test_flips_and_distances_are_those_by_hand(record, logits):
    drift = record.pairs[0].predictions
    before, after = logits.argmax(axis=2)
    assert drift.n == len(before)
    assert drift.flips == (before != after).sum() > 0
    assert drift.churn.value == pytest.approx((before != after).mean())
    assert drift.logits.mean_abs == pytest.approx(np.abs(logits[1] - logits[0]).mean(), rel=1e-4)
    pairs = {(each.before, each.after): each.images for each in drift.classes}
    assert sum(pairs.values()) == drift.flips
    first = int(np.flatnonzero(before != after)[0])
    assert pairs[f"output {before[first]}", f"output {after[first]}"] >= 1
    assert sum(each.before != each.after for each in drift.moved) == drift.flips


def test_each_stage_is_taken_alone_and_a_stage_of_equal_pixels_changes_nothing(record):
    drift = record.pairs[0].predictions
    stages = {each.factor: each for each in drift.stages}
    assert list(stages) == ["decode", "orient", "resize"]
    assert (stages["decode"].flips, stages["decode"].mean_abs) == (0, 0)
    assert stages["orient"].flips > 0
    assert stages["resize"].mean_abs > 0
    assert stages["decode"].churn.low is None
    assert "may show in none of" in stages["decode"].churn.reason


def test_a_path_against_itself_changes_nothing_and_says_what_so_few_images_can_miss(model):
    (pair,) = compared(model, "opencv-train", "opencv-train").pairs
    drift = pair.predictions
    assert (drift.flips, drift.logits.max_abs, drift.stages, drift.moved) == (0, 0, (), ())
    assert pair.causes == ()
    assert "may show in none of 7" in pair.matter[0]


def test_images_that_a_path_cannot_prepare_are_counted(model):
    nearest = "{name: chroma, preset: opencv-train, decode: {name: simplejpeg, chroma: nearest}}"
    drift = compared(model, "opencv-train", nearest).pairs[0].predictions
    # the PNG is no JPEG
    assert (drift.n, drift.left_out) == (6, 1)
    assert drift.left_out_reason


def test_a_model_of_another_size_is_refused_before_any_image_is_read(model):
    def read(index):
        raise AssertionError("an image was read")

    samples = samples_of(FILES)
    unread = type(samples)(samples.ids, (), (), read, "fingerprint")
    paths = named_paths(PATHS, size=48)
    request = DiffRequest(paths, unread, "files", model=given_model(str(model)))
    with pytest.raises(ConfigError, match=r"takes inputs of 32x32, .* prepare 48x48; .*--size 32"):
        diff(request, NoProgress())
    assert own_size(given_model(str(model))) == (32, 32)


def test_files_are_known_by_their_content(tmp_path, model):
    (tmp_path / "renamed.bin").write_bytes(model.read_bytes())
    assert given_model(str(tmp_path / "renamed.bin")).format == "onnx"
    entry = given_model(f"{{onnx: {model}, name: mine, preprocess: a, classes: [a, b]}}")
    assert (entry.name, entry.classes) == ("mine", ("a", "b"))
    with (
        pytest.raises(ConfigError, match="has 40 outputs, and 'classes' names 2"),
        open_given(entry, (SIZE, SIZE)),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("absent.onnx", "no such file; give a file of ONNX"),
        ("{onnx: absent.onnx}", "there is no file absent.onnx"),
        ("{weights: a.pt}", r"--model:1:1: .*'model' belongs to 'weights'"),
        ("{onnx: a.onnx, batch: 3}", "batch: unknown key"),
        ("{onnx: a.onnx", "not valid YAML"),
    ],
)
def test_mistakes_are_told(text, message):
    with pytest.raises(ConfigError, match=message):
        given_model(text)


def test_weights_need_an_architecture_and_run_with_it(tmp_path):
    import torch

    from alignkit.models.architectures import small_cnn

    file = tmp_path / "weights.pt"
    torch.save(small_cnn(7).state_dict(), file)
    with pytest.raises(ConfigError, match=r"needs its architecture: --model '\{weights: "):
        given_model(str(file))
    with open_given(given_model(f"{{weights: {file}, model: small-cnn}}"), (SIZE, SIZE)) as opened:
        assert len(opened.outputs) == 7
        assert opened.runtime.startswith("torch ")
        assert opened.session.predict(np.zeros((2, 3, SIZE, SIZE), np.float32))[0].shape == (2, 7)


def test_copies_of_a_file_are_one_file_of_an_interval(record, model):
    """Of each file twice: the same shares, and intervals as wide as those of the files."""
    twice = {f"{at}-{name}": data for at in range(2) for name, data in FILES.items()}
    copied = compared(model, *PATHS, files=twice)
    one, two = (each.pairs[0].predictions for each in (record, copied))
    assert (copied.data.copies, record.data.copies) == (one.n, 0)  # one file has no pixels
    assert (two.n, two.flips, two.churn.value) == (2 * one.n, 2 * one.flips, one.churn.value)
    assert [two.churn.low, two.churn.high] == pytest.approx([one.churn.low, one.churn.high], 0.2)
    none = {each.factor: each.churn.reason for each in two.stages}["decode"]
    assert f"none of {one.n}\N{NO-BREAK SPACE}different images" in none
    assert f"{one.n} of {len(twice)}" in diff_summary(copied).splitlines()[0]
    assert "have the pixels" not in diff_summary(record)
