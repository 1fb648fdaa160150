"""Outputs and inputs of every kind that an ONNX file declares: read as they are, or refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import alignkit
from alignkit.errors import AlignkitError
from tests.photos import encoded, scene

AREA = "{name: area, decode: opencv, resize: {name: opencv, interpolation: area, size: 32}}"
PLAIN = "{name: plain, decode: opencv, resize: {name: opencv, size: 32}}"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for at in range(9):
        (folder / f"{at}.png").write_bytes(encoded(scene(at, 60, 80), "PNG"))
    return folder


def graph(file, sides, *, last=False, output=TensorProto.FLOAT):
    """Means of the channels, projected; the input declared with ``sides``."""
    weights = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32) * 9
    axes = [1, 2] if last else [2, 3]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["means"], axes=axes, keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["scores"], to=output),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, sides)
    found = helper.make_tensor_value_info("scores", output, ["n", 5])
    held = [numpy_helper.from_array(weights, "weights")]
    made = helper.make_graph(nodes, "g", [given], [found], held)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, file)
    return file


def told(file, images):
    """The number of images predicted, or the message; any other error ends the test."""
    try:
        return alignkit.diff(images, PLAIN, AREA, model=file).record.pairs[0].predictions.n
    except AlignkitError as error:
        return str(error)


@pytest.mark.parametrize(
    ("sides", "last", "answer"),
    [
        (("n", "c", "h", "w"), False, 9),
        (("n", 3, "h", "w"), False, 9),
        ((None, None, None, None), False, 9),
        (("n", "h", "w", 3), True, 9),
        (("n", 32, 32, 3), True, 9),
        (("n", "h", "w", "c"), True, "declare them as ?xHxWx3"),
        ((None, None, None, None), True, "declare them as ?xHxWx3"),
        (("n", 32, "w", "c"), True, "takes inputs of ?x32x?x?"),
        (None, False, "does not say how many sides"),
        (("n", 3, 32), False, "takes inputs of ?x3x32"),
    ],
)
def test_an_input_of_open_sides_runs_or_is_refused(tmp_path, images, sides, last, answer):
    found = told(graph(tmp_path / "m.onnx", sides, last=last), images)
    assert found == answer if isinstance(answer, int) else answer in str(found)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("DOUBLE", "float64"), ("BFLOAT16", "bfloat16"), ("STRING", "string"),
        ("FLOAT8E4M3FN", "float8"), ("FLOAT8E5M2", "float8"),
        *((name, "whole numbers") for name in
          ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "BOOL")),
    ],
)  # fmt: skip
def test_an_output_that_float32_does_not_hold_is_refused_by_its_type(tmp_path, images, kind, said):
    file = graph(tmp_path / "m.onnx", ("n", 3, 32, 32), output=getattr(TensorProto, kind))
    assert said in str(told(file, images))
