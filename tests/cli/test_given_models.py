"""`alignkit check`, `plan` and `run` of a model whose outputs are more than the data's classes."""

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn import metrics as sklearn_metrics

from alignkit.compare.predictions import Predictions
from alignkit.experiment import load_experiment
from alignkit.record.document import read_record
from tests.photos import encoded

OUTPUTS = ("emu", "dog", "fox", "cat", "gnu", "bee", "hen", "ant", "jay", "owl")
CLASSES = ("ant", "bee", "cat", "dog")
YAML = """
name: ten
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
  tensor: {{decode: opencv, resize: {{name: torch, align_corners: true, size: 16}}}}
models: [{{name: mine, onnx: {onnx}, preprocess: opencv{classes}}}]
evaluate: {{backends: [onnxruntime], resamples: 200}}
gate: {{informational: true}}
"""


@cache
def half_known() -> dict[str, bytes]:
    """A graph of ten outputs and 80 photographs of four of its classes: noise that it half knows."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(10, 3, 16, 16)).astype(np.float32)
    patterns /= np.sqrt((patterns**2).sum(axis=(1, 2, 3), keepdims=True))
    files = {"ten.onnx": graph_of(patterns)}
    for name in CLASSES:
        pattern = patterns[OUTPUTS.index(name)].transpose(1, 2, 0).repeat(3, 0).repeat(3, 1)
        for index in range(20):
            pixels = 128 + 150 * pattern + rng.normal(scale=70, size=pattern.shape)
            image = encoded(pixels.clip(0, 255).astype(np.uint8), "PNG")
            files[f"data/eval/{name}/{index:02}.png"] = image
    return files


@pytest.fixture
def folder(tmp_path) -> Path:
    """The files of `half_known`, and the names of the graph's outputs."""
    for name in CLASSES:
        (tmp_path / "data" / "eval" / name).mkdir(parents=True)
    for name, data in half_known().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "outputs.txt").write_text("\n".join(OUTPUTS) + "\n")
    return tmp_path


def write_graph(file: Path, patterns: np.ndarray) -> None:
    file.write_bytes(graph_of(patterns))


def graph_of(patterns: np.ndarray) -> bytes:
    weights = patterns.reshape(len(patterns), -1).T.copy()
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        ],
        "ten",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 16, 16))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("n", len(patterns)))],
        [numpy_helper.from_array(weights, "weights")],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def written(folder: Path, classes: str = "", root: Path | None = None) -> Path:
    file = folder / "ten.yaml"
    classes = f", classes: {classes}" if classes else ""
    file.write_text(
        YAML.format(root=root or folder / "data", onnx=folder / "ten.onnx", classes=classes)
    )
    return file


def listed(*names: str) -> str:
    return f"[{', '.join(names)}]"


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_unnamed_outputs_are_refused_before_any_work(alignkit, folder, command):
    file = written(folder)
    reports = [] if command == "check" else ["--reports", folder / "reports"]
    told = alignkit(command, file, *reports)
    assert told.code == 2
    assert told.err == (
        f"{file}:7:29: models.0.onnx: {folder}/ten.onnx has 10 outputs, and the data has 4 "
        "classes; name the 10 outputs in order as the model's 'classes', a list or a file with one "
        f"name a line\n    models: [{{name: mine, onnx: {folder}/ten.onnx, preprocess: opencv}}]\n"
        f"    {' ' * 28}{'^' * len(f'{folder}/ten.onnx')}\n"
    )
    assert not (folder / "reports").exists()


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (listed(*OUTPUTS[:8], "yak", "zho"), ""),
        (listed("null", *OUTPUTS[1:4], "N/A", *OUTPUTS[5:8], "N/A", "null"), ""),
        (
            listed(*OUTPUTS[:8]),
            "has 10 outputs, and 'classes' names 8; name every output, in order",
        ),
        (
            listed(*OUTPUTS[:9], "emu"),
            "ten.yaml:7:10: models.0: 'classes': 'emu' stands there twice",
        ),
        (
            listed(*OUTPUTS[:7], "cow", *OUTPUTS[8:]),
            "no output for 1 of the data's 4 classes: ant; name",
        ),
        ("missing.txt", "missing.txt cannot be read (No such file or directory); give a file with"),
    ],
)
def test_names_that_do_not_fit_are_refused_by_check(alignkit, folder, classes, message):
    told = alignkit("check", written(folder, classes))
    assert told.code == (2 if message else 0)
    assert message in told.err


def test_an_empty_line_in_a_file_of_names_is_told(alignkit, folder):
    (folder / "outputs.txt").write_text("\ufeffemu\r\n\r\ndog\r\n")
    told = alignkit("check", written(folder, folder / "outputs.txt"))
    assert "line 2 of" in told.err
    assert "is empty: it names no output" in told.err


@pytest.mark.parametrize("mark", ["\u2028", "\f", "\x85", "\x1c"])
def test_a_mark_within_a_name_of_a_file_ends_no_line(alignkit, folder, mark):
    write = [*OUTPUTS[:8], f"yak{mark}zho", "owl"]
    (folder / "outputs.txt").write_text("\r\n".join(write) + "\r\n", "utf-8", newline="")
    assert alignkit("check", written(folder, folder / "outputs.txt")).code == 0


def test_a_nul_in_a_name_is_refused_with_its_place(alignkit, folder):
    (folder / "outputs.txt").write_text("emu\nd\0g\n")
    told = alignkit("check", written(folder, folder / "outputs.txt"))
    assert told.code == 2
    assert "outputs.txt holds a NUL character; save it as UTF-8 text" in told.err
    for file in (written(folder, r'"a\0b"'), written(folder, root=r'"a\0b"')):
        told = alignkit("check", file)
        assert told.code == 2
        assert "a NUL character, which no name or path can hold" in told.err


@pytest.mark.parametrize(("kind", "said"), [("pipe", "a FIFO"), ("folder", "a folder")])
def test_a_model_that_is_no_regular_file_is_named(alignkit, folder, kind, said):
    file = written(folder)
    (folder / "ten.onnx").unlink()
    (os.mkfifo if kind == "pipe" else os.mkdir)(folder / "ten.onnx")
    told = alignkit("plan", file)
    assert told.code == 2
    assert f"ten.onnx is not a regular file: {said}; name another file" in told.err


def test_a_file_of_names_that_is_no_file_does_not_hang_check(alignkit, folder):
    os.mkfifo(folder / "pipe.txt")
    told = alignkit("check", written(folder, folder / "pipe.txt"))
    assert "pipe.txt cannot be read (not a regular file: a FIFO)" in told.err


def test_a_model_or_data_that_are_elsewhere_are_left_to_the_plan(alignkit, folder):
    file = written(folder, root=folder / "elsewhere")
    assert alignkit("check", file).code == 0
    assert "does not exist" in alignkit("plan", file).err
    file = written(folder)
    (folder / "ten.onnx").unlink()
    assert alignkit("check", file).code == 0
    assert f"no file {folder}/ten.onnx" in alignkit("plan", file).err


def test_plan_says_how_many_images_are_evaluated_and_why(alignkit, folder):
    file = written(folder, folder / "outputs.txt")
    reports = ["--reports", folder / "reports"]
    line = f"images     80 evaluated: all of {folder}/data/eval, as nothing is trained\n"
    assert line in alignkit("plan", file, *reports).out
    flat = f"data.root={folder}/data/eval"
    assert line in alignkit("plan", file, *reports, "--set", flat).out
    int8 = "evaluate.backends=[{name: onnxruntime, precision: [fp32, int8]}]"
    told = alignkit("plan", file, *reports, "--set", flat, "--set", int8).out
    share = "0.25 of each class, drawn by seed 0"
    assert (
        f"20 evaluated: {share}; the other 60 are for 'advise' and the calibration of int8\n"
        in told
    )
    told = alignkit("plan", file, *reports, "--set", int8)
    assert "has no train/; name the training folder" in told.err


@pytest.mark.slow
def test_outputs_outside_the_classes_count_as_wrong_and_flip_as_any_other(alignkit, folder):
    file = written(folder, folder / "outputs.txt")
    told = alignkit("run", file, "--reports", folder / "reports", "--no-open", "--quiet")
    assert told.code == 0, told.err
    run = next((folder / "reports" / "ten").iterdir())
    record = read_record(run)
    assert record.data.classes == CLASSES
    assert (record.data.train, record.data.eval) == (0, 80)
    (note,) = record.data.notes
    assert note.startswith("mine: 6 of its 10 outputs are classes that the data has not; a pred")
    session = onnxruntime.InferenceSession(str(folder / "ten.onnx"))
    cells = {cell.evaluated_with: cell for cell in record.cells}
    labels, predicted = {}, {}
    for name, cell in cells.items():
        stored = Predictions.from_parquet(run / cell.predictions.path)
        assert stored.outputs == (*CLASSES, *(each for each in OUTPUTS if each not in CLASSES))
        labels[name] = [stored.ids[index].split("/")[-2] for index in range(80)]
        predicted[name] = [stored.outputs[index] for index in stored.predicted]
        scores = {"labels": CLASSES, "average": "macro", "zero_division": np.nan}
        (entry,) = (each for each in record.matrix if each.evaluated_with == name)
        for metric, score in (
            ("recall.macro", sklearn_metrics.recall_score),
            ("precision.macro", sklearn_metrics.precision_score),
            ("f1.macro", sklearn_metrics.f1_score),
        ):
            assert entry.metrics[metric] == pytest.approx(
                score(labels[name], predicted[name], **scores), abs=1e-12
            )
        right = np.mean(np.array(labels[name]) == predicted[name])
        assert entry.metrics["top1"] == pytest.approx(right)
        confusion = sklearn_metrics.confusion_matrix(labels[name], predicted[name], labels=OUTPUTS)
        for each in cell.counts:
            place = OUTPUTS.index(each.name)
            assert each.true_positive == confusion[place, place]
            assert each.true_positive + each.false_negative == confusion[place].sum()
            assert each.true_positive + each.false_positive == confusion[:, place].sum()
    # the pixels as OpenCV gives them, straight into the runtime
    expected = session.run(None, {"images": opencv_inputs(folder)})[0].argmax(axis=1)
    assert predicted["opencv"] == [OUTPUTS[index] for index in expected]
    before, after, truth = map(
        np.array, (predicted["opencv"], predicted["tensor"], labels["opencv"])
    )
    (drift,) = (each.drift for each in record.matrix if each.drift)
    assert drift.churn.value == pytest.approx(np.mean(before != after))
    assert drift.right_to_wrong == np.sum((before == truth) & (after != truth)) > 0
    assert drift.wrong_to_wrong == np.sum((before != truth) & (after != truth) & (before != after))
    assert {*before, *after} - {*CLASSES}  # some predictions are outside
    shown = json.loads((run / "data" / "run.js").read_text().partition("=")[2].rstrip(";\n"))
    assert shown["classes"][:4] == [*CLASSES]
    assert {*shown["classes"]} == {*OUTPUTS}


def opencv_inputs(folder: Path) -> np.ndarray:
    import cv2

    files = sorted((folder / "data" / "eval").glob("*/*.png"))
    images = [cv2.resize(cv2.imread(str(each))[..., ::-1], (16, 16)) for each in files]
    pixels = np.stack(images).astype(np.float32) / 255
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return ((pixels - mean) / std).transpose(0, 3, 1, 2).astype(np.float32)


def test_a_model_too_deep_for_its_input_is_refused_by_check(alignkit, file):
    deep = ["--set", "train.model=alexnet"]
    told = alignkit("check", file, *deep)
    assert told.code == 2
    assert told.err == (
        "--set train.model=alexnet: train.model: alexnet takes inputs of 63x63 or more, not 48x48; "
        "set another size in 'resize', or choose another model\n"
        f"    train.model=alexnet\n{' ' * 16}^^^^^^^\n"
    )
    assert alignkit("run", file, *deep).code == 2


@pytest.mark.parametrize("command", ["run", "gate"])
def test_a_model_that_answers_all_images_alike_has_compared_nothing(alignkit, folder, command):
    write_graph(folder / "ten.onnx", np.zeros((10, 3, 16, 16), np.float32))
    file = written(folder, folder / "outputs.txt")
    told = alignkit(command, file, "--reports", folder / "reports", "--no-open", "--quiet")
    assert told.code == 5
    assert "nothing was compared: all 80 images are ant on both sides" in told.out
    assert " 0 lost" not in told.out


@pytest.mark.parametrize("command", ["check", "plan", "run", "gate"])
def test_a_model_of_another_task_by_its_own_words_is_refused_by_every_command(
    alignkit, folder, command
):
    model = onnx.load(folder / "ten.onnx")
    helper.set_model_props(model, {"task": "pose", "kpt_shape": "[17, 3]"})
    onnx.save(model, folder / "ten.onnx")
    reports = [] if command == "check" else ["--reports", folder / "reports"]
    told = alignkit(command, written(folder, folder / "outputs.txt"), *reports)
    assert told.code == 2
    assert "says of itself that its task is pose" in told.out + told.err


def test_one_output_tells_the_datas_two_classes_apart(alignkit, folder):
    rng = np.random.default_rng(0)
    write_graph(folder / "ten.onnx", rng.normal(size=(1, 3, 16, 16)).astype(np.float32))
    for name in CLASSES[2:]:
        (folder / "data" / "eval" / name).rename(folder / name)
    file = written(folder)
    assert (
        "one output of two classes; it is the second above 0, a logit"
        in alignkit("check", file).out
    )
    told = alignkit("run", file, "--reports", folder / "reports", "--no-open", "--quiet")
    run = next((folder / "reports" / "ten").iterdir())
    record = read_record(run)
    session = onnxruntime.InferenceSession(folder / "ten.onnx")
    changed = []
    paths = load_experiment(file).paths
    for image in sorted((folder / "data" / "eval").rglob("*.png")):
        taps = [each.normalise(each.taps(image.read_bytes()).last)[None] for each in paths]
        was, now = (session.run(None, {"images": each})[0][0, 0] > 0 for each in taps)
        changed.append(was != now)
    churn = next(each.drift.churn for each in record.matrix if each.drift)
    assert told.code in (0, 1)
    assert churn.value == pytest.approx(np.mean(changed))
    assert churn.value > 0
