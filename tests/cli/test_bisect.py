"""`alignkit bisect`."""

import json
import re

import onnx
import pytest
import torch

from alignkit.studies.bisect.layer_graph import cut, layers_of, load_graph
from tests.backends.model import trained_model
from tests.photos import encoded, photo


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for index, name in enumerate(("china", "flower")):
        (folder / f"{name}.jpg").write_bytes(encoded(photo(name, 60 + index, 80)))
    return folder


def test_an_onnx_file_and_images_are_enough(alignkit, images, tmp_path):
    out = tmp_path / "deep" / "bisect.json"
    graph = load_graph(trained_model().onnx)
    onnx.save(cut(graph, layers_of(graph)[1].tensor), tmp_path / "two-layers.onnx")
    told = alignkit(
        "bisect", "--model", tmp_path / "two-layers.onnx", "--images", images, "--tolerance", "1e-6",
        "--out", f"json={out}", "-q",
    )  # fmt: skip
    assert told.code == 0
    assert "onnxruntime fp32 against onnxruntime fp16" in told.out
    assert "it starts at /0/Conv (Conv)" in told.out
    stored = json.loads(out.read_text())
    assert (stored["first"], stored["images"]) == ("/0/Conv", 2)
    assert stored["layers"][-1]["shape"] == [2, 16, 32, 32]


def test_json_is_all_that_is_printed(alignkit, images):
    told = alignkit(
        "bisect", "--model", trained_model().onnx, "--images", images, "--json", "-q",
        "--candidate", "onnxruntime optimisation=disabled",
    )  # fmt: skip
    assert json.loads(told.out)["first"] is None


def test_a_cell_of_an_experiment_has_torch_as_its_reference(alignkit, file, tmp_path):
    evaluate = "evaluate.backends=[torch, onnxruntime]"
    arguments = ("bisect", file, "--set", evaluate, "--set", "train.seeds=[0]",
                 "--reports", tmp_path / "reports", "-q")  # fmt: skip
    told = alignkit(*arguments, "--cell", "opencv/pillow/onnxruntime/fp32")
    assert told.code == 0
    assert "train opencv seed 0 on pillow" in told.out
    assert "torch fp32 against onnxruntime fp32" in told.out
    assert "no layer differs by more than 0.001" in told.out
    told = alignkit(*arguments, "--cell", "opencv/pillow/torch/fp32")
    assert (told.code, "bisect follows the layers" in told.err) == (2, True)
    told = alignkit(*arguments, "--cell", "opencv/pilow/onnxruntime/fp32")
    assert told.code == 2
    assert "opencv/pillow/onnxruntime/fp32" in told.err


def test_a_model_that_cannot_be_had_says_why(alignkit, file, tmp_path):
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pt")
    model = f"{{name: m, weights: {tmp_path}/other.pt, model: small-cnn, preprocess: opencv}}"
    text = re.sub(r"(?m)^train:.*\n(?: .*\n)*", f"models: [{model}]\n", file.read_text())
    file.write_text(text)
    told = alignkit("bisect", file, "--set", "evaluate.backends=[torch, onnxruntime]", "-q",
                    "--reports", tmp_path / "reports")  # fmt: skip
    assert (told.code, "1 not the model's (other)" in told.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give an experiment file, or --model"),
        (("--model", "none.onnx"), "--model needs --images DIR"),
        (("--model", "none.onnx", "--images", "."), "none.onnx is not a file"),
        (("x.yaml", "--against", "y.onnx"), "need --model"),
        (("--out", "html=x", "x.yaml"), "no kind 'html'"),
    ],
)
def test_a_mistake_ends_with_what_to_give(alignkit, arguments, message):
    told = alignkit("bisect", *arguments)
    assert told.code == 2
    assert message in told.err


def test_a_graph_for_a_fixed_number_of_images_says_how_many(alignkit, images, tmp_path):
    graph = onnx.load(trained_model().onnx)
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(graph, tmp_path / "two.onnx")
    told = alignkit("bisect", "--model", tmp_path / "two.onnx", "--images", images)
    assert (told.code, "give --count 2" in told.err) == (2, True)


def test_a_graph_of_open_size_asks_for_one(alignkit, images, tmp_path):
    graph = onnx.load(trained_model().onnx)
    for dimension in graph.graph.input[0].type.tensor_type.shape.dim[2:]:
        dimension.dim_param = "side"
    onnx.save(graph, tmp_path / "open.onnx")
    arguments = "bisect", "--model", tmp_path / "open.onnx", "--images", images
    told = alignkit(*arguments)
    assert (told.code, "give --size" in told.err) == (2, True)
    told = alignkit(
        *arguments, "--size", "32", "--candidate", "onnxruntime optimisation=basic", "-q"
    )
    assert (told.code, "no layer differs" in told.out) == (0, True)


def test_a_path_of_another_size_is_refused(alignkit, images, tmp_path):
    config = tmp_path / "paths.yaml"
    config.write_text("decode: opencv\nresize: {name: opencv, size: 48}\n")
    told = alignkit(
        "bisect", "--model", trained_model().onnx, "--images", images, "--preprocess", config
    )
    assert told.code == 2
    assert "the model takes 32x32" in told.err
