"""`alignkit check`, `plan` and `run` of given models: images without labels, one path, two files."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from alignkit.compare.predictions import Predictions
from alignkit.experiment import load_experiment
from alignkit.models.architectures import quiet_torchscript
from alignkit.models.onnx_header import read_onnx_header
from alignkit.record.document import read_record
from alignkit.samples import NO_LABELS
from tests.cli.test_given_models import OUTPUTS, folder, write_graph  # noqa: F401 - a fixture

YAML = """
name: mine
data: {data}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
{second}
models: [{{name: mine, {model}, preprocess: opencv}}]
evaluate: {{backends: {backends}, resamples: 200}}
gate: {{{gate}}}
"""
SECOND = "  tensor: {decode: opencv, resize: {name: torch, align_corners: true, size: 16}}"
UNLABELLED = (
    "the images have no labels: no recall, precision or top-1 accuracy; "
    "outputs read as class scores; alignkit measures image classifiers"
)


@pytest.fixture
def write(folder):  # noqa: F811
    def written(
        data="images", second="", model="", backends="[onnxruntime]", gate="informational: true"
    ):
        data = f"{{name: {data}, root: {folder / 'data' / 'eval'}}}"
        model = model or f"onnx: {folder / 'ten.onnx'}"
        text = YAML.format(data=data, second=second, model=model, backends=backends, gate=gate)
        (folder / "mine.yaml").write_text(text)
        return folder / "mine.yaml"

    written.folder = folder
    return written


def run_of(folder):  # noqa: F811
    (run,) = (folder / "reports" / "mine").iterdir()
    return run, read_record(run)


def predictions_of(run, cell) -> Predictions:
    return Predictions.from_parquet(run / cell.predictions.path)


def tensors_of(root, predictions):
    """The images as the path ``opencv`` gives them, in the order of the predictions."""
    (path,) = load_experiment(root / "mine.yaml").paths
    files = (root / "data" / "eval" / each for each in predictions.ids)
    taps = (path.taps(each.read_bytes()) for each in files)
    return np.stack([path.normalise(each.last) for each in taps])


def test_models_predict_images_without_labels(alignkit, write):
    model = f"onnx: {write.folder / 'ten.onnx'}, classes: {write.folder / 'outputs.txt'}"
    file = write(second=SECOND, model=model, gate="rules: [{metric: churn, fail: 0.001}]")
    told = alignkit("check", file)
    assert f"1 given model, 2 cells; {UNLABELLED}" in told.out
    told = alignkit("plan", file, "--reports", write.folder / "reports")
    assert f"images     80 evaluated; {UNLABELLED}" in told.out
    assert told.out.count("outputs read as class scores") == 1
    told = alignkit("run", file, "--reports", write.folder / "reports", "--progress", "none")
    run, record = run_of(write.folder)
    # its only file stands beside no other
    assert not any("not an export" in note for note in record.data.notes)
    assert not any("graph" in each.effective for each in record.cells)
    aligned, served = record.cells
    before, after = (predictions_of(run, each) for each in (aligned, served))
    churn = float((before.logits.argmax(axis=1) != after.logits.argmax(axis=1)).mean())
    assert (before.outputs, len(before), before.labelled) == (OUTPUTS, 80, False)
    drift = record.matrix[1].drift
    assert drift.churn.value == pytest.approx(churn) != 0
    # the rule without labels is judged, and fails
    assert (told.code, record.verdict.state) == (1, "fail")
    assert {each.metric for each in record.verdict.rules} == {"churn"}
    # what needs labels is empty with its reason, in the record and for programs
    results = json.loads((run / "results.json").read_text())
    recall = results["matrix"][1]["drift"]["metrics"]["recall.macro"]
    assert (recall["value"], recall["reason"]) == (None, NO_LABELS)
    assert results["matrix"][1]["drift"]["right_to_wrong"] is None
    assert set(aligned.metrics.values()) == {None}
    shares = {each.metric: each for each in record.attributions if each.backend}
    assert shares["recall.macro"].reason == NO_LABELS
    assert shares["churn"].total.value == pytest.approx(churn)
    # the images that changed, by the names of the outputs, on every surface
    first = drift.moved[0]
    place = before.ids.index(first.id)
    named = (OUTPUTS[before.predicted[place]], OUTPUTS[after.predicted[place]])
    assert (first.before, first.after) == named
    words = f"{first.before} → {first.after}"
    page, short = ((run / each).read_text() for each in ("index.html", "summary.md"))
    for surface in (told.out, page, short):
        assert words in surface
        assert UNLABELLED in surface.lower().replace("\n", " ")
        assert "macro recall 0" not in surface.lower()
    controls = {each.name: each for each in record.controls}
    assert controls["the reference models learned"].passed is None
    assert controls["A/A: the same path twice"].passed
    assert controls["planted fault: inverted levels, predictions"].passed
    assert "not made: 'the reference models learned' (the images have no labels)" in told.out


def test_a_model_that_gives_every_image_one_class_is_no_evidence(alignkit, write):
    patterns = np.zeros((3, 3, 16, 16), np.float32)
    write_graph(write.folder / "flat.onnx", patterns)
    file = write(second=SECOND, model=f"onnx: {write.folder / 'flat.onnx'}")
    told = alignkit("run", file, "--reports", write.folder / "reports", "--progress", "none")
    _, record = run_of(write.folder)
    assert (record.verdict.state, told.code) == ("error", 5)
    assert "nothing was compared: all 80 images are output 0 on both sides" in told.out
    assert "no prediction of opencv (model mine) changes when the levels of 80 images" in told.out
    # the outputs of a file without names are numbered
    assert record.cells[0].predictions is not None
    assert "check that the file holds trained weights" in told.out


def test_one_path_is_enough_for_two_precisions_and_each_has_its_line(alignkit, write):
    model = f"onnx: {write.folder / 'ten.onnx'}, classes: {write.folder / 'outputs.txt'}"
    backends = "[{name: onnxruntime, precision: [fp32, fp16]}]"
    file = write(data="folder", model=model, backends=backends)
    told = alignkit("run", file, "--reports", write.folder / "reports", "--progress", "none")
    _, record = run_of(write.folder)
    # nothing is trained, so that all labelled images of the flat folder are evaluated
    assert [each.n for each in record.cells] == [80, 80]
    assert record.data.train == 0
    (line,) = (
        each for each in told.out.splitlines() if "onnxruntime fp16" in each and " lost" in each
    )
    assert line.split()[-1] == f"{record.matrix[1].drift.logits.max_abs:.3g}"
    assert (
        "compares the pixels of two paths"
        in alignkit(
            "check",
            write(
                model=model, backends=backends, gate="rules: [{metric: decode.max_abs, fail: 1}]"
            ),
        ).err
    )


def test_a_torch_file_is_compared_with_its_onnx_file_as_it_is(alignkit, write):
    ten = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 10, bias=False))
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(768, 10)).astype(np.float32)
    with quiet_torchscript(), torch.no_grad():
        ten[1].weight.copy_(torch.from_numpy(weights.T.copy()))
        torch.jit.trace(ten, torch.zeros(2, 3, 16, 16)).save(write.folder / "ten.ts")
    # another model than the export would be, so that only the given file gives these logits
    other = weights + 0.3 * rng.normal(size=weights.shape).astype(np.float32)
    exported = write.folder / "given.onnx"
    write_graph(exported, other.T.reshape(10, 3, 16, 16))
    model = f"torchscript: {write.folder / 'ten.ts'}, onnx: {exported}"
    file = write(model=model, backends="[torch, onnxruntime]")
    told = alignkit("plan", file, "--reports", write.folder / "reports")
    assert f"the ONNX runtimes run {exported} as it is" in told.out
    told = alignkit("run", file, "--reports", write.folder / "reports", "--progress", "none")
    run, record = run_of(write.folder)
    assert [each.reason for each in record.cells] == ["", ""]
    by_torch, by_onnx = (predictions_of(run, cell) for cell in record.cells)
    expected = onnxruntime.InferenceSession(exported).run(
        None, {"images": tensors_of(write.folder, by_onnx)}
    )
    assert (by_onnx.logits == expected[0]).all()
    churn = (by_torch.logits.argmax(axis=1) != by_onnx.logits.argmax(axis=1)).mean()
    assert 0 < record.matrix[1].drift.churn.value == pytest.approx(float(churn))
    assert record.cells[1].effective["graph"] == "given.onnx, as given"
    assert "graph" not in record.cells[0].effective
    assert "the runtime or the ONNX file is the cause" in told.out
    assert any("given.onnx as it is, not an export" in note for note in record.data.notes)
    # a stored cell depends on the file's content, and its name may be another one today
    exported.rename(write.folder / "renamed.onnx")
    file.write_text(file.read_text().replace("given.onnx", "renamed.onnx") + "report: {worst: 3}\n")
    alignkit("run", file, "--reports", write.folder / "reports", "--progress", "none")
    (again,) = {*(write.folder / "reports" / "mine").iterdir()} - {run}
    assert read_record(again).cells[1].effective["graph"] == "renamed.onnx, as given"


def test_two_files_of_one_model_must_have_the_same_outputs(alignkit, write):
    from alignkit.models.architectures import build_model

    write_graph(write.folder / "four.onnx", np.zeros((4, 3, 32, 32), np.float32))
    graph = onnx.load(write.folder / "four.onnx")
    for dimension in graph.graph.input[0].type.tensor_type.shape.dim[2:]:
        dimension.dim_value = 32
    onnx.save(graph, write.folder / "four.onnx")
    torch.save(build_model("small-cnn", 10, 32, 32).state_dict(), write.folder / "ten.pt")
    model = f"weights: {write.folder / 'ten.pt'}, model: small-cnn"
    file = write(
        model=f"{model}, onnx: {write.folder / 'four.onnx'}", backends="[torch, onnxruntime]"
    )
    file.write_text(file.read_text().replace("size: 16", "size: 32"))
    header = read_onnx_header(write.folder / "four.onnx")
    assert header.outputs[0].shape[1] == 4
    told = alignkit("check", file)
    assert told.code == 2
    assert "four.onnx has 4 outputs, and" in told.err
    assert "ten.pt has 10; export it again" in told.err


def test_another_onnx_file_beside_the_weights_is_another_model(alignkit, write):
    from alignkit.models.user_model import UserModel

    one, two = (write.folder / f"{name}.onnx" for name in ("one", "two"))
    write_graph(one, np.zeros((10, 3, 16, 16), np.float32))
    write_graph(two, np.ones((10, 3, 16, 16), np.float32))
    shutil.copy(one, write.folder / "as_weights.pt")
    file = write.folder / "as_weights.pt"
    keys = [UserModel("m", "path", torchscript=file, onnx=each).parts for each in (None, one, two)]
    assert len({json.dumps(each, sort_keys=True) for each in keys}) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "rules: [{metric: recall.macro, margin: 0.01}]",
            "recall.macro needs labels, and the images have no labels; churn and logits.* need none",
        ),
        ("rules: [{preset: mlperf-99}]", "gate.rules.0.preset: top1 needs labels"),
        ("rules: [{metric: 'precision[cat]', fail: 0.1}]", "precision[cat] needs labels"),
    ],
)
def test_rules_that_need_labels_are_refused_at_their_line(alignkit, write, change, message):
    file = write(second=SECOND, gate=change)
    told = alignkit("check", file)
    assert told.code == 2
    assert f"{file}:9:" in told.err
    assert message in told.err


def test_training_and_int8_are_refused_without_labels(alignkit, write):
    file = write(second=SECOND, backends="[{name: onnxruntime, precision: [fp32, int8]}]")
    told = alignkit("check", file)
    assert "int8 takes its scales from training images" in told.err
    text = file.read_text().replace(file.read_text().split("models:")[1].split("\n")[0], "")
    file.write_text(text.replace("models:", "train: {epochs: 1}"))
    assert "train: the images have no labels to train with" in alignkit("check", file).err


def test_one_path_and_one_runtime_compare_nothing(alignkit, write):
    told = alignkit("check", write())
    assert told.code == 2
    assert "one is enough where models run in two runtimes or precisions" in told.err
