"""Images that int8 takes its scales from: any folder's, and said where they are evaluated too."""

import shutil

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import AlignkitError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.record.document import read_record
from tests.cli.test_given_models import OUTPUTS, write_graph
from tests.judge.said import verdict_of

CLASSES = OUTPUTS[:4]
YAML = """
name: int8
data: {data}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
models: [{{name: mine, onnx: {folder}/ten.onnx, preprocess: opencv, classes: {classes}}}]
evaluate: {{backends: [{{name: onnxruntime, precision: {precision}}}], resamples: 200}}
gate: {{informational: true}}
{more}
"""
FOLDER = "{{name: folder, root: {0}/data{1}}}"
IMAGES = "{{name: images, root: {0}/data}}"
TRAINS = "train: {{epochs: 1}}"


@pytest.fixture
def folder(tmp_path):
    """24 evaluated images of four classes, one more class with an image, and 12 without a label."""
    rng = np.random.default_rng(1)
    write_graph(tmp_path / "ten.onnx", rng.normal(size=(10, 3, 16, 16)).astype(np.float32))
    for name in CLASSES:
        (tmp_path / "data" / "eval" / name).mkdir(parents=True)
    (tmp_path / "free").mkdir()
    places = [f"data/eval/{name}/{index}.png" for name in CLASSES for index in range(6)]
    for place in [*places, *(f"free/{index}.png" for index in range(12))]:
        pixels = rng.integers(0, 256, (20, 24, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / place)
    return tmp_path


def written(folder, data=FOLDER, more="", extra="", precision="[fp32, int8]"):
    file = folder / "int8.yaml"
    text = YAML.format(
        folder=folder, data=data.format(folder, extra), more=more.format(folder),
        precision=precision, classes=f"[{', '.join(OUTPUTS)}]",
    )  # fmt: skip
    if "train:" in more:
        text = "\n".join(line for line in text.splitlines() if not line.startswith("models:"))
    file.write_text(text)
    return file


NAMED = "calibration: {{root: {0}/free}}"
REFUSED = {
    # id: data, options of it, more keys, precision, words
    "the evaluated folder as that of training": (
        FOLDER, ", train_dir: eval", "", "[fp32, int8]", "calibration: {root: DIR}"),
    "the same by a link": (
        FOLDER, ", train_dir: link", "", "[fp32, int8]", "both the training and the evaluation"),
    "no training folder": (FOLDER, "", "", "[fp32, int8]", "'calibration: {root: DIR}'"),
    "other classes in training": (
        FOLDER, ", train_dir: other", "", "[fp32, int8]", "'calibration: {root: DIR}'"),
    "images without labels": (IMAGES, "", "", "[fp32, int8]", "calibration: {root: DIR}"),
    "nothing that is calibrated": (FOLDER, "", NAMED, "fp32", "nothing takes its scales"),
    "models that are trained here": (
        FOLDER, "", f"{NAMED}\n{TRAINS}", "[fp32, int8]", "for the user's own models"),
    "a path alone": (FOLDER, "", "calibration: {0}/free", "[fp32, int8]", "calibration"),
    "an option that does not exist": (
        FOLDER, "", "calibration: {{root: {0}/free, labels: x}}", "[fp32, int8]", "labels"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_calibration_that_cannot_be_is_refused_with_one_that_can(folder, name):
    data, extra, more, precision, words = REFUSED[name]
    (folder / "data" / "link").symlink_to(folder / "data" / "eval")
    for other in ("x", "y"):
        shutil.copytree(folder / "data" / "eval" / CLASSES[0], folder / "data" / "other" / other)
    if "train_dir" not in extra:
        (folder / "data" / "link").unlink()
        shutil.rmtree(folder / "data" / "other")
    with pytest.raises(AlignkitError) as caught:
        make_plan(load_experiment(written(folder, data, more, extra, precision)))
    assert words in str(caught.value)


RUNS = {
    # id: data, root of the calibration, images that calibrate, of which are evaluated
    "a folder without labels": (FOLDER, "free", 12, 0),
    "for images without labels": (IMAGES, "free", 12, 0),
    "the evaluated images themselves": (FOLDER, "data/eval", 24, 24),
    "copies of some of them": (FOLDER, "some", 5, 3),
    "a folder of classes": (FOLDER, "data/eval/" + CLASSES[0], 6, 6),
}


@pytest.mark.parametrize("name", RUNS)
def test_images_that_calibrate_are_counted_and_those_that_are_evaluated_said(
    alignkit, folder, name
):
    data, root, calibrated, evaluated = RUNS[name]
    shutil.copytree(folder / "free", folder / "some")
    for index in range(7):
        (folder / "some" / f"{index}.png").unlink()
    for index in range(7, 10):  # of the five left, three are copies
        shutil.copy(
            folder / "data" / "eval" / CLASSES[1] / f"{index - 7}.png",
            folder / "some" / f"{index}.png",
        )
    more = f"calibration: {{{{root: {folder / root}}}}}"
    file = written(folder, data, more)
    told = alignkit("run", file, "--reports", folder / "reports", "--no-open", "--quiet")
    (record,) = map(read_record, (folder / "reports" / "int8").glob("*/"))
    assert (record.data.calibration, record.data.calibration_evaluated) == (calibrated, evaluated)
    assert record.data.options["calibration"]["root"] == str(folder / root)
    cells = [each.effective["calibration"] for each in record.cells if each.precision == "int8"]
    assert cells == [f"{calibrated} of {calibrated} calibration images, random, own path"]
    said = f"he scales of int8 come from {calibrated} images, {evaluated} of which are evaluated"
    places = (
        told.out,
        verdict_of(record).sentence,
        next(folder.glob("reports/int8/*/*.html")).read_text(),
    )
    assert [said in each for each in places] == [evaluated > 0] * 3


def test_the_plan_says_which_images_calibrate_and_the_key_has_them(alignkit, folder):
    file = written(folder, more=NAMED)
    told = alignkit("plan", file, "--reports", folder / "reports").out
    assert "24 evaluated: all of" in told
    assert "int8 takes its scales from the 12 of 'calibration'" in told
    keys = {
        each.runtime.precision: each.key for each in make_plan(load_experiment(file)).evaluations
    }
    (folder / "free" / "0.png").unlink()
    again = {
        each.runtime.precision: each.key for each in make_plan(load_experiment(file)).evaluations
    }
    assert keys["int8"] != again["int8"]


@pytest.mark.parametrize("data", [FOLDER, IMAGES], ids=["with labels", "without"])
def test_a_gate_that_ends_early_records_the_data_of_its_file(alignkit, folder, data):
    file = written(folder, data, NAMED)
    serving = "preprocess.pillow={decode: pillow, resize: {name: pillow, size: 16}}"
    sets = ("--set", serving, "--set", "gate={rules: [{preset: strict}]}")
    reports = "--reports", folder / "reports", "--no-open", "--quiet"
    assert alignkit("gate", file, "--fail-fast", *sets, *reports).code == 1
    (record,) = map(read_record, (folder / "reports" / "int8").glob("*/"))
    assert "--fail-fast" in verdict_of(record).sentence
    assert record.data.name == data.partition("name: ")[2].partition(",")[0]
    roots = record.data.options["root"], record.data.options["calibration"]["root"]
    assert roots == (str(folder / "data"), str(folder / "free"))
