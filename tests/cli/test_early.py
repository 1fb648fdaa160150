"""Models and files that cannot work are refused by `alignkit check`, before any image is read."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image

from alignkit.models.architectures import small_cnn
from tests.models.test_headers import graph

CLASSES = [f"c{index}" for index in range(12)]
YAML = """\
name: mine
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 64}}}}
  pillow: {{decode: pillow, resize: {{name: pillow, size: 64}}}}
models:
{models}
evaluate: {{backends: [onnxruntime]}}
"""


@pytest.fixture
def root(tmp_path):
    for name in CLASSES:
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "data" / name / "0.png")
    return tmp_path


def written(root, *models, data="data"):
    lines = "\n".join(f"  - {{name: m{i}, preprocess: opencv, {m}}}" for i, m in enumerate(models))
    file = root / "mine.yaml"
    file.write_text(YAML.format(root=root / data, models=lines.replace("DIR", str(root))))
    return file


def weights(root, name, content):
    torch.save(content, root / name)
    return f"weights: DIR/{name}, model: small-cnn"


def whole(root):
    return weights(root, "whole.pt", small_cnn(12))


def wrapped(root):
    names = {f"module.{name}": each for name, each in small_cnn(12).state_dict().items()}
    return weights(root, "wrapped.pt", names)


def another(root):
    return weights(root, "another.pt", torch.nn.Linear(4, 12).state_dict())


def two_names(root):
    return weights(root, "right.pt", small_cnn(12).state_dict()) + ", classes: [c0, c1]"


def page(root):
    (root / "page.pt").write_text("<!DOCTYPE html>")
    return "weights: DIR/page.pt, model: small-cnn"


def torch_as_onnx(root):
    weights(root, "right.pt", small_cnn(12).state_dict())
    return "onnx: DIR/right.pt"


def text_as_onnx(root):
    (root / "text.onnx").write_text("nothing of the kind")
    return "onnx: DIR/text.onnx"


def detector(root):
    boxes = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 100, 4))]
    taken = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 64, 64))]
    node = helper.make_node("Identity", ["x"], ["y"])
    made = helper.make_model(helper.make_graph([node], "g", taken, boxes))
    (root / "boxes.onnx").write_bytes(made.SerializeToString())
    return "onnx: DIR/boxes.onnx"


def onnx(**options):
    def made(root):
        graph(root / "a.onnx", **{"side": 64, "outputs": 12, **options})
        return "onnx: DIR/a.onnx"

    return made


CASES = [
    (whole, "weights: .*it is a whole pickled module .*torch.save"),
    (wrapped, r"weights: .*its 26 names begin with 'module\.', .*torch.save\(model.module.state"),
    (another, "weights: .*: 0 of the model's 26 tensors fit; 26 missing .*; 2 not the model's "),
    (two_names, "classes: .*the model has no output for 10 of the data's 12 classes: c10, c11, c2 and 7 more;"),
    (two_names, "classes: .*has 12 outputs, and 'classes' names 2; name every output"),
    (page, "weights: .*it is a web page"),
    (torch_as_onnx, "onnx: .*it is a file of torch.save; give it as 'weights'"),
    (text_as_onnx, "onnx: .*text.onnx is no ONNX file"),
    (detector, r"onnx: .*it gives \w+ \(\?, 100, 4\), and a classifier a row of scores .* write 'task:'"),
    (onnx(side=96), r"onnx: .*takes inputs of .x3x96x96, and the path gives .x3x64x64; change"),
    (onnx(batch=2), "onnx: .*takes batches of exactly 2; export it with"),
    (onnx(outputs=7), "onnx: .*has 7 outputs, and the data has 12 classes"),
    (onnx(kind=TensorProto.INT64), "onnx: .*takes int64; export it with an input of float32"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "message"), CASES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_file_that_cannot_work_is_refused_at_its_line(alignkit, root, case, message):
    file = written(root, case(root))
    told = alignkit("check", file)
    assert (told.code, told.out) == (2, "")
    lines = [each for each in told.err.splitlines() if each.startswith(f"{file}:7:")]
    assert any(re.search(rf"models\.0\.{message}", line) for line in lines), told.err


def test_every_mistake_of_every_model_is_reported_in_one_pass(alignkit, root):
    models = [whole(root), wrapped(root), onnx(side=96, batch=2, outputs=7)(root)]
    file = written(root, *models)
    places = [
        line for line in alignkit("plan", file).err.splitlines() if line.startswith(f"{file}:")
    ]
    assert [line.split(": ")[1] for line in places] == [
        "models.0.weights", "models.1.weights", *["models.2.onnx"] * 3
    ]  # fmt: skip
    assert not (root / "reports").exists()


def test_what_needs_no_torch_is_found_without_it(root):
    file = written(root, whole(root), wrapped(root), onnx(batch=2)(root))
    code = (
        "import sys; from alignkit.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(*[each for each in ('torch', 'onnx', 'numpy') if each in sys.modules])"
    )
    command = [sys.executable, "-c", code, "check", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "\n"
    assert told.stderr.count("models.") == 3


def test_a_size_or_a_whole_pickle_is_found_where_the_data_are_elsewhere(alignkit, root):
    file = written(root, whole(root), onnx(side=96)(root), data="elsewhere")
    told = alignkit("check", file)
    assert "models.0.weights" in told.err
    assert "models.1.onnx" in told.err


def test_a_checkpoint_of_a_training_is_accepted_and_the_plan_says_its_key(alignkit, root):
    state = {"model": small_cnn(12).state_dict(), "epoch": 3}
    file = written(root, weights(root, "last.pt", state), onnx()(root))
    told = alignkit("check", file)
    read = "scores of classes; the greatest is the prediction"
    assert told.code == 0
    assert told.out.splitlines() == [
        f"{file} is right: 2 given models, 4 cells", f"  m0: output: {read}", f"  m1: y: 12 {read}"
    ]  # fmt: skip
    told = alignkit("plan", file, "--reports", root / "reports")
    assert f"m0: {root}/last.pt, 26 tensors under its key 'model', for small-cnn\n" in told.out
    assert f"m1: {root}/a.onnx, takes ?x3x64x64, gives 12 outputs\n" in told.out


def test_files_that_are_right_are_counted_and_absent_ones_named(alignkit, root, file):
    told = alignkit("check", file)
    assert told.out == f"{file} is right: 4 trainings, 8 cells\n"
    mine = written(root, "onnx: DIR/gone.onnx", data="elsewhere")
    told = alignkit("check", mine, file)
    absent = f"not here, and not checked: {root}/gone.onnx, the data"
    assert (
        told.out.splitlines()[0]
        == f"{mine}: 1 given model, 2 cells; no mistake in what is here; {absent}"
    )
    assert told.out.splitlines()[1] == f"{file} is right: 4 trainings, 8 cells"
