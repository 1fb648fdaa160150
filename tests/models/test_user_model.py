"""Models the user brings: every kind of file, the wrong ones, and a run without training."""

from __future__ import annotations

import os
import pickle
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.torch import TorchBackend
from alignkit.engines.export import export_onnx
from alignkit.errors import AlignkitError, ConfigError, DataError
from alignkit.experiment import load_experiment
from alignkit.models.architectures import build_model, load_model, quiet_torchscript
from alignkit.models.checkpoint import Checkpoint
from alignkit.models.joined_graph import in_one_file
from alignkit.models.model_fit import faults_of, require_own_code
from alignkit.models.user_model import UserModel
from alignkit.plan import make_plan
from alignkit.plan.outlooks import outlooks
from alignkit.predict import open_session
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.places import UnknownPlaces
from alignkit.progress import NoProgress
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.runner import run_experiment
from alignkit.tasks.classification import Classification
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.judge.said import verdict_of

DIGITS = tuple("0123456789")
OWN = """
name: own
data: {{name: digits-on-photos, train: 10, eval: 30, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
models: {models}
evaluate: {{backends: [torch, onnxruntime], resamples: 200}}
report: {{worst: 1}}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """The same trained model as every kind of file."""
    folder = tmp_path_factory.mktemp("own")
    model = load_model(trained_model().checkpoint)
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, folder / "nested.pt")
    with pytest.warns(DeprecationWarning, match=r"torch.jit"):
        torch.jit.script(model).save(str(folder / "torchscript.ts"))
    samples = torch.export.Dim("samples")
    program = torch.export.export(
        model, (torch.zeros(2, 3, 32, 32),), dynamic_shapes=({0: samples},)
    )
    torch.export.save(program, folder / "exported.pt2")
    (folder / "onnx.onnx").write_bytes(trained_model().onnx.read_bytes())
    return {file.stem: file for file in folder.iterdir()}


def faults(given: UserModel, classes, size=(32, 32)) -> str:
    return "\n".join(each.message for each in faults_of(given, classes, size))


def checkpoint(kind: str, file: Path, classes=DIGITS, given=(), model="") -> Checkpoint:
    return UserModel("mine", "path", **{kind: file}, model=model, classes=given).checkpoint(
        classes, (32, 32)
    )


@pytest.mark.parametrize("kind", ["torchscript", "exported"])
def test_graph_files_give_the_logits_of_the_module_they_hold(files, kind, tmp_path):
    trained = trained_model()
    expected = trained.predict(TorchBackend(), "fp32")
    mine = checkpoint(kind, files[kind])
    session = TorchBackend().open(mine, None, "fp32")
    assert np.abs(session.predict(trained.batch)[0] - expected).max() < 1e-4
    assert session.effective()["layers return"] == "float32, verified"
    graph = export_onnx(mine, Workspace(tmp_path), trained.batch[:8])
    exported = ONNXRuntimeBackend().open(mine, graph, "fp32").predict(trained.batch)[0]
    assert np.abs(exported - expected).max() < 1e-4


@pytest.mark.parametrize("name", ["weights", "nested"])
def test_a_state_dict_gives_the_same_bits(files, name):
    mine = checkpoint("weights", files[name], model="small-cnn")
    expected = trained_model().predict(TorchBackend(), "fp32")
    found = TorchBackend().open(mine, None, "fp32").predict(trained_model().batch)[0]
    assert np.array_equal(found, expected)


def test_a_function_of_the_users_builds_the_module(files, tmp_path, monkeypatch):
    source = "from alignkit.models.architectures import small_cnn\ndef build(classes): return small_cnn(classes)\n"
    (tmp_path / "my_network.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = checkpoint("weights", files["weights"], model="my_network:build")
    assert len(list(load_model(mine).parameters())) > 4
    sys.modules.pop("my_network")
    with pytest.raises(ConfigError, match="no_such_module"):
        build_model("no_such_module:build", 10, 32, 32)


@pytest.mark.parametrize("call", [Path.touch, os.system])  # torch names the two differently
def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path, call):
    argument = tmp_path / "executed" if call is Path.touch else f"touch {tmp_path}/executed"

    class Malicious:
        def __reduce__(self):
            return call, (argument,)

    file = tmp_path / "weights.pt"
    file.write_bytes(pickle.dumps(Malicious(), protocol=2))
    torch.save({"state_dict": Malicious()}, tmp_path / "zipped.pt")
    for each in (file, tmp_path / "zipped.pt"):
        with pytest.raises(DataError, match=r"refused: .*state_dict\(\), FILE\)$"):
            load_model(checkpoint("weights", each, model="small-cnn"))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("kind", ["torchscript", "exported", "onnx"])
def test_a_damaged_file_is_told(kind, tmp_path):
    file = tmp_path / "broken"
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(AlignkitError, match=r"cannot be loaded|no ONNX file"), quiet_torchscript():
        load_model(checkpoint(kind, file))


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        (0, "it is empty: a download or copy was cut; fetch it again"),
        (1, r"it is damaged \(no file of torch.save\); fetch it again, or save it with torch.save"),
        (30_000, "it ends after 30000 bytes: a download or copy was cut; fetch it again"),
    ],
)
def test_weights_of_which_a_part_is_there_say_so(files, tmp_path, kept, reason):
    file = tmp_path / "cut.pt"
    torch.save({"weights": torch.rand(20_000)}, file)  # torch reads 30,000 bytes in another way
    file.write_bytes(file.read_bytes()[:kept])
    told = faults(UserModel("mine", "path", weights=file, model="small-cnn"), DIGITS)
    assert re.search(rf"cut.pt holds no weights of small-cnn: {reason}$", told)


def test_a_module_that_is_no_regular_file_is_refused_and_not_opened(files, tmp_path, monkeypatch):
    (tmp_path / "my_parts").mkdir()
    (tmp_path / "my_parts" / "__init__.py").touch()
    (tmp_path / "my_parts" / ".#open.py").symlink_to("nobody@nowhere")
    monkeypatch.chdir(tmp_path)
    given = UserModel("mine", "path", weights=files["weights"], model="my_parts:build")
    assert given.parts["source"]
    os.mkfifo(tmp_path / "my_parts" / "pipe.py")
    with pytest.raises(
        ConfigError, match=r"pipe.py, which it needs, .*\(not a regular file: a FIFO"
    ):
        replace(given).parts  # noqa: B018 - the property raises


def test_classes_in_another_order_are_brought_into_the_datas(files):
    trained = trained_model()
    theirs = tuple(reversed(DIGITS))  # what the model calls its outputs
    mine = checkpoint("onnx", files["onnx"], given=theirs)
    assert mine.order == tuple(range(9, -1, -1))
    runtime = make_runtime()
    with open_session(runtime, mine, mine.weights) as session:
        found = in_data_order(session.predict(trained.batch), mine)
    expected = trained.predict(ONNXRuntimeBackend(), "fp32")
    assert np.array_equal(found, expected[:, ::-1])


def in_data_order(outputs, given):
    """Decode as a cell does: the data's classes first."""
    data = tuple(map(str, range(given.classes - len(given.outside))))
    places = UnknownPlaces(len(outputs[0]))
    return AnswerDecoder.of(Classification(), given, data).records(outputs, places)


def make_runtime():
    from alignkit.plan.work import Runtime

    return Runtime("onnxruntime", ONNXRuntimeBackend(), "fp32", "")


def test_classes_that_are_not_the_datas_are_named(files):
    with pytest.raises(
        DataError,
        match=r"names 10 outputs \(0, 1, 2, …\), and the model has no output for 1 of the ",
    ):
        checkpoint("onnx", files["onnx"], given=(*DIGITS[:9], "nine"))


def test_more_outputs_than_the_data_has_classes_come_after_its_classes(files):
    trained = trained_model()
    mine = checkpoint("onnx", files["onnx"], classes=("2", "7"), given=DIGITS)
    assert (mine.classes, mine.order[:3], mine.outside[:2]) == (10, (2, 7, 0), ("0", "1"))
    with open_session(make_runtime(), mine, mine.weights) as session:
        found = in_data_order(session.predict(trained.batch), mine)
    expected = trained.predict(ONNXRuntimeBackend(), "fp32")
    assert np.array_equal(found, expected[:, [2, 7, 0, 1, 3, 4, 5, 6, 8, 9]])


@pytest.mark.parametrize(
    ("classes", "given", "message"),
    [
        (("a", "b", "c"), (), "has 10 outputs, and the data has 3 classes; name the 10 outputs in"),
        ((*DIGITS, "x"), (), "has 10 outputs, and the data has 11 classes; name its 10 outputs as"),
        (("1", "2"), DIGITS[:8], "has 10 outputs, and 'classes' names 8; name every output, in"),
    ],
)
def test_another_number_of_outputs_is_told_with_both_counts(files, classes, given, message):
    with pytest.raises(DataError, match=message):
        checkpoint("onnx", files["onnx"], classes=classes, given=given)
    mine = UserModel("mine", "path", weights=files["weights"], model="small-cnn", classes=given)
    assert message in faults(mine, classes)


def test_weights_that_fit_are_accepted_before_anything_is_prepared(files):
    mine = UserModel("mine", "path", weights=files["nested"], model="small-cnn", classes=DIGITS)
    state = torch.get_rng_state()
    assert not faults(mine, ("3", "4"))
    assert torch.equal(torch.get_rng_state(), state)
    wrong = faults(replace(mine, model="resnet18"), ("3", "4"))
    assert "holds no weights of resnet18: 0 of the model's 122 tensors fit; 122 missing (c" in wrong
    assert wrong.endswith("name the model that it was saved from")
    assert "small-cnn takes inputs of 32x32 or more" in faults(mine, ("3", "4"), (31, 40))


@pytest.mark.parametrize("kind", ["torchscript", "exported"])
def test_the_outputs_of_a_graph_that_is_code_are_known_when_a_run_begins(files, tmp_path, kind):
    mine = UserModel("mine", "path", **{kind: files[kind]}, classes=DIGITS[:9])
    with pytest.raises(DataError, match="has 10 outputs, and 'classes' names 9"):
        require_own_code(mine, ("1", "2"), (32, 32))
    with pytest.raises(DataError, match="does not run on inputs of 8x8"):
        require_own_code(replace(mine, classes=DIGITS), ("1", "2"), (8, 8))
    file = tmp_path / "own.yaml"
    models = f"[{{name: mine, {kind}: {files[kind]}, preprocess: opencv, classes: [a, b]}}]"
    file.write_text(
        OWN.format(models=models).replace("[a, b]", f"[{', '.join(map(repr, DIGITS))}, x]")
    )
    with pytest.raises(ConfigError, match=r"models: mine: .* 10 outputs, and 'classes' names 11"):
        run_experiment(load_experiment(file), Context(Workspace(tmp_path / "new"), NoProgress()))
    assert not list(tmp_path.glob("new/**/*prepared*"))


@pytest.mark.parametrize("edited", ["my_network.py", "my_package/layers.py"])
def test_the_source_of_a_function_belongs_to_the_key_of_its_model(
    files, tmp_path, monkeypatch, edited
):
    (tmp_path / "my_package").mkdir()
    for name in ("my_network.py", "my_package/__init__.py", "my_package/layers.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')  # a plan runs no code\n")
    monkeypatch.chdir(tmp_path)
    model = f"{edited.removesuffix('.py').replace('/', '.')}:build"

    def key() -> str:
        given = UserModel("mine", "path", weights=files["weights"], model=model)
        return given.checkpoint(DIGITS, (32, 32)).key

    before = key()
    assert key() == before
    (tmp_path / edited).write_text("def build(): ...\n")
    assert key() != before
    with pytest.raises(ConfigError, match="no module named 'my_netwrok'; start alignkit in the"):
        _ = UserModel("mine", "path", weights=files["weights"], model="my_netwrok:build").parts


def test_shapes_that_do_not_fit_are_told(files, tmp_path):
    given = UserModel("mine", "path", onnx=files["onnx"])
    with pytest.raises(DataError, match=r"takes inputs of .x3x32x32, and the path gives .x3x48x48"):
        given.checkpoint(DIGITS, (48, 48))
    import onnx

    graph = onnx.load(files["onnx"])
    dimensions = graph.graph.input[0].type.tensor_type.shape.dim
    for dimension, size in zip(dimensions, (1, 32, 32, 3), strict=True):
        dimension.dim_value = size
    onnx.save(graph, tmp_path / "last.onnx")
    dimensions[0].dim_value = 2
    for dimension, size in zip(dimensions[1:], (3, 32, 32), strict=True):
        dimension.dim_value = size
    onnx.save(graph, tmp_path / "two.onnx")
    with pytest.raises(DataError, match="batches of exactly 2; export it with a free first"):
        UserModel("mine", "path", onnx=tmp_path / "two.onnx").checkpoint(DIGITS, (32, 32))
    assert UserModel("mine", "path", onnx=tmp_path / "last.onnx").checkpoint(DIGITS, (32, 32))


@pytest.fixture
def in_two_files(files, tmp_path) -> Path:
    """The graph with its weights beside it, as newer exporters write it."""
    import onnx

    file = tmp_path / "theirs" / "two.onnx"
    file.parent.mkdir()
    onnx.save(
        onnx.load(files["onnx"]), file, save_as_external_data=True, location="two.data",
        size_threshold=0,
    )  # fmt: skip
    return file


def test_weights_beside_a_graph_are_found_wherever_alignkit_is_started(in_two_files, tmp_path):
    workspace = Workspace(tmp_path)
    whole = in_one_file(in_two_files, workspace)
    assert in_one_file(in_two_files, workspace) == whole
    found = ONNXRuntimeBackend().open(checkpoint("onnx", in_two_files), whole, "fp32")
    expected = trained_model().predict(ONNXRuntimeBackend(), "fp32")
    assert np.array_equal(found.predict(trained_model().batch)[0], expected)


def test_weights_beside_a_graph_belong_to_its_key(in_two_files):
    before = checkpoint("onnx", in_two_files).key
    weights = bytearray(in_two_files.with_name("two.data").read_bytes())
    weights[100] ^= 1
    in_two_files.with_name("two.data").write_bytes(weights)
    assert checkpoint("onnx", in_two_files).key != before


def test_weights_that_are_missing_or_too_many_are_told(in_two_files, tmp_path, monkeypatch):
    monkeypatch.setattr("alignkit.models.joined_graph._LARGEST", 1000)
    with pytest.raises(DataError, match="GiB of weights; backends take graphs of one file"):
        in_one_file(in_two_files, Workspace(tmp_path))
    in_two_files.with_name("two.data").unlink()
    with pytest.raises(DataError, match=r"keeps its weights in two\.data, which is not beside it"):
        checkpoint("onnx", in_two_files)


def test_a_state_dict_of_another_model_says_how_it_differs(files, tmp_path):
    weights = torch.load(files["weights"])
    first, *_, last = weights
    wrapped = {f"module.{name}": each for name, each in weights.items()}
    short = {name: each for name, each in weights.items() if name != first}
    shaped = {**weights, last: torch.zeros(12)}
    for given, message in (
        (wrapped, r"missing .*; its names begin with 'module\.': save the state_dict of the"),
        (short, rf"tensors fit; 1 missing \({first}\)$"),
        (shaped, rf"1 of another shape \({last} is 12, the model's 10\)$"),
        ([1, 2], "it holds a list, no state_dict$"),
    ):
        torch.save(given, tmp_path / "theirs.pt")
        with pytest.raises(DataError, match=message):
            load_model(checkpoint("weights", tmp_path / "theirs.pt", model="small-cnn"))


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("[{name: a, preprocess: opencv}]", "give one of weights"),
        ("[{name: a, preprocess: opencv, onnx: none.onnx}]", "no file none.onnx"),
        ("[{name: a, preprocess: opencw, onnx: FILE}]", "did you mean 'opencv'"),
        ("[{name: a, preprocess: opencv, weights: FILE}]", "'model' belongs to 'weights' or"),
        ("[{name: a, preprocess: opencv, onnx: FILE, model: resnet18}]", "'model' belongs to"),
        ("[{name: a, preprocess: opencv, model: resnet18, pretrained: a.pt}]", "a file as 'weights'"),
        ("[{name: a, preprocess: opencv, model: 'my:net', pretrained: x}]", "'model' is neither's"),
        ("[{name: a, preprocess: opencv, model: resnet18, pretrained: IMAGENET1K_V3}]", "IMAGENET1K_V1"),
        ("[{name: a, preprocess: opencv, model: resnet18, pretrained: DEFAULT}]",
         "resnet18 DEFAULT has 1000 outputs, and the data has 10 .*; 'classes: imagenet' names those"),
        ("[{name: a, preprocess: opencv, weights: FILE, model: resnet19}]", "did you mean"),
        ("[{name: a, preprocess: opencv, onnx: FILE}, {name: a, preprocess: opencv, onnx: FILE}]", "once"),
        ("[{name: a, preprocess: opencv, onnx: FILE}]\ntrain: {epochs: 1}", "in place of 'train'"),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_anything_runs(files, tmp_path, models, message):
    file = tmp_path / "own.yaml"
    file.write_text(OWN.format(models=models.replace("FILE", str(files["onnx"]))))
    with pytest.raises(ConfigError, match=message):
        make_plan(load_experiment(file))


def test_a_run_with_an_onnx_file_trains_nothing_and_measures_every_cell_it_can(files, tmp_path):
    file = tmp_path / "own.yaml"
    models = f"[{{name: mine, onnx: {files['onnx']}, preprocess: opencv}}]"
    file.write_text(OWN.format(models=models))
    experiment = load_experiment(file)
    assert {str(each.row) for each in make_plan(experiment).trainings} == {"opencv (model mine)"}
    record, _ = run_experiment(experiment, Context(Workspace(tmp_path / "reports"), NoProgress()))
    states = {(cell.backend, cell.state, cell.unsuited) for cell in record.cells}
    assert states == {("torch", "skipped", True), ("onnxruntime", "measured", False)}
    assert {each.backend for each in record.matrix if each.unsuited} == {"torch"}
    assert {rule.backend for rule in record.verdict.rules} == {"onnxruntime"}
    aligned = [cell for cell in record.cells if cell.aligned]
    assert [(cell.backend, cell.evaluated_with) for cell in aligned] == [("onnxruntime", "opencv")]
    drifted = [
        each.drift for each in record.matrix if each.state == "measured" and not each.aligned
    ]
    assert [drift.n for drift in drifted] == [30]
    held = {control.name: control.passed for control in record.controls}
    assert held.pop("the reference models learned") is False  # its weights are random
    assert all(held.values())
    assert verdict_of(record).sentence.startswith(
        "No conclusion can be drawn: opencv (model mine) "
    )
    assert {row.split for row in record.coverage} == {"eval"}


def test_models_of_several_kinds_are_measured_on_one_path_and_shown(files, tmp_path):
    file = tmp_path / "own.yaml"
    kinds = {"torchscript": "torchscript", "exported": "exported", "onnx": "onnx"}
    models = [f"{{name: {name}, {kind}: {files[kind]}, preprocess: opencv}}"
              for name, kind in kinds.items()]  # fmt: skip
    models.append(
        f"{{name: weights, weights: {files['weights']}, model: small-cnn, preprocess: pillow}}"
    )
    file.write_text(OWN.format(models=f"[{', '.join(models)}]"))
    experiment = load_experiment(file, ["evaluate.backends=[onnxruntime]"])
    workspace = Workspace(tmp_path / "reports")
    record, folder = run_experiment(experiment, Context(workspace, NoProgress()))
    assert {cell.state for cell in record.cells} == {"measured"}
    drift = {each.trained_with: each.drift for each in record.matrix if not each.aligned}
    assert set(drift) == {*(f"opencv (model {name})" for name in kinds), "pillow (model weights)"}
    same = [drift[f"opencv (model {name})"] for name in kinds]
    counts = {(each.n, each.right_to_wrong, each.wrong_to_right) for each in same}
    assert len(counts) == 1  # it is one model
    assert record.training_sizes == ()  # nothing was trained: several models are no shares of data
    write_report(folder, ReportOptions())
    page = (folder / "index.html").read_text()
    assert all(f"model {name}" in page for name in kinds)


def test_a_model_is_described_by_its_own_path_where_the_reference_decodes_nothing(files, tmp_path):
    text = OWN.format(models=f"[{{name: mine, onnx: {files['onnx']}, preprocess: pillow}}]")
    text = text.replace("decode: opencv,", "decode: opencv, max_pixels: 9,")
    third = "  torchvision: {decode: torchvision, resize: {name: torchvision, size: 32}}\nmodels:"
    file = tmp_path / "own.yaml"
    file.write_text(text.replace("models:", third, 1))
    experiment = load_experiment(file, ["evaluate.backends=[onnxruntime]"])
    record, _ = run_experiment(experiment, Context(Workspace(tmp_path / "reports"), NoProgress()))
    (found,) = record.flipped
    assert (found.reference, found.candidate) == ("pillow", "torchvision")
    assert found.images == 30


def test_a_cell_of_a_given_model_depends_on_the_data_and_not_on_where_its_file_lies(
    files, tmp_path
):
    def keys(onnx: Path, *overrides: str) -> list[str]:
        file = tmp_path / "own.yaml"
        file.write_text(OWN.format(models=f"[{{name: mine, onnx: {onnx}, preprocess: opencv}}]"))
        return [each.key for each in make_plan(load_experiment(file, overrides)).evaluations]

    first = keys(files["onnx"])
    assert not {*first} & {*keys(files["onnx"], "data.seed=1")}  # other images, of the same size
    copied = tmp_path / "copied.onnx"
    copied.write_bytes(files["onnx"].read_bytes())
    assert keys(copied) == first
    copied.write_bytes(copied.read_bytes() + b"\x32\x01x")  # its doc string
    assert not {*keys(copied)} & {*first}


def test_what_a_run_did_with_a_given_model_is_cached_for_the_plan_and_done_again_afresh(
    files, tmp_path
):
    file = tmp_path / "own.yaml"
    models = f"[{{name: mine, onnx: {files['onnx']}, preprocess: opencv}}]"
    file.write_text(OWN.format(models=models))
    experiment = load_experiment(file, ["evaluate.backends=[onnxruntime]"])
    workspace = Workspace(tmp_path / "reports")
    run_experiment(experiment, Context(workspace, NoProgress()))
    plan = make_plan(experiment)
    assert [each.state for each in outlooks(plan, workspace).cells] == ["cached"] * 2
    before = {each.folder: each.stored for each in workspace.finished("cells")}
    run_experiment(experiment, Context(workspace, NoProgress()), fresh=True)
    after = {each.folder: each.stored for each in workspace.finished("cells")}
    assert before.keys() == after.keys()
    assert all(after[folder] > before[folder] for folder in before)
