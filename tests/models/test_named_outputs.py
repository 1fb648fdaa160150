"""Names of classes that a model's file holds, as Ultralytics and YOLOv5 write them."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from alignkit.errors import DataError
from alignkit.models.entry_faults import entry_faults
from alignkit.models.model_fit import faults_of, given_checkpoint, output_names
from alignkit.models.named_outputs import names_in
from alignkit.models.onnx_header import read_onnx_header
from alignkit.models.user_model import UserModel
from alignkit.tasks.detection import Detection

SIZE = (32, 32)
OURS = ("bird", "cat", "dog")


def detector(file, classes=3, **metadata):
    """One output (1, 4 + classes, 20) that no image changes."""
    rows = np.zeros((1, 4 + classes, 20), np.float32)
    nodes = [
        helper.make_node("ReduceSum", ["images"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "none"], ["nothing"]),
        helper.make_node("Add", ["nothing", "rows"], ["output0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, *SIZE])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, rows.shape)],
        [
            numpy_helper.from_array(rows, "rows"),
            numpy_helper.from_array(np.float32(0), "none"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.save(model, file)
    return file


def script(file, **configuration):
    with pytest.warns(DeprecationWarning, match=r"torch.jit"):
        module = torch.jit.trace(torch.nn.Identity(), torch.zeros(1, 3, *SIZE))
    with pytest.warns(DeprecationWarning, match=r"torch.jit"):
        torch.jit.save(module, file, _extra_files={"config.txt": json.dumps(configuration)})
    return file


def given(file, **more):
    return UserModel("mine", "path", onnx=file, task=Detection(), **more)


def faults(model, classes):
    return [(each.key, each.message) for each in entry_faults(model, classes, SIZE)]


def test_metadata_is_that_which_onnx_reads(tmp_path):
    file = detector(tmp_path / "a.onnx", names="{0: 'a'}", stride="32", empty="", kind="détection")
    expected = [(each.key, each.value) for each in onnx.load(file).metadata_props]
    assert [*read_onnx_header(file).metadata] == expected
    assert len(expected) == 4


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{0: 'dog', 1: 'traffic light'}", ("dog", "traffic light")),
        ("{1: 'cat', 0: 'dog'}", ("dog", "cat")),
        ("['dog', \"cat's\"]", ("dog", "cat's")),
        ("{'0': 'dog', '1': 'cat'}", ("dog", "cat")),
        ("", ()),
        ("{0: '0', 1: '1'}", ()),
        ("{0: 'class0', 1: 'class1'}", ()),
        ("['class_0', 'class_1']", ()),
        ("{0: '1', 1: '0'}", ("1", "0")),
        ("{0: 'dog', 2: 'cat'}", ()),
        ("{0: 'dog', 1: 'dog'}", ()),
        ("{0: 'dog', 'x': 'cat'}", ()),
        ("{0: 1, 1: 2}", ()),
        ("dog,cat", ()),
        ("__import__('os').getcwd()", ()),
        ("[" * 5000, ()),
        ("{[]: 1}", ()),
    ],
)
def test_names_are_read_in_the_order_of_the_outputs(tmp_path, text, names):
    assert names_in(detector(tmp_path / "a.onnx", names=text), "onnx") == names


def test_a_damaged_graph_holds_no_names_and_is_a_fault(tmp_path):
    file = detector(tmp_path / "a.onnx", names="{0: 'dog', 1: 'bird', 2: 'cat'}")
    file.write_bytes(file.read_bytes()[:-20])
    assert names_in(file, "onnx") == ()
    ((key, message),) = [(e.key, e.message) for e in faults_of(given(file), OURS, SIZE)]
    assert (key, "is no ONNX file, or it is damaged" in message) == ("onnx", True)


def test_a_torchscript_file_holds_names_too(tmp_path):
    file = script(tmp_path / "a.ts", names={"0": "dog", "1": "cat"}, stride=32)
    assert names_in(file, "torchscript") == ("dog", "cat")
    assert names_in(script(tmp_path / "b.ts", stride=32), "torchscript") == ()
    assert names_in(script(tmp_path / "c.ts", names=7), "torchscript") == ()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert names_in(file, "torchscript") == ()


def test_outputs_are_brought_into_the_datas_order_by_their_names(tmp_path):
    model = given(detector(tmp_path / "a.onnx", names="{0: 'dog', 1: 'bird', 2: 'cat'}"))
    checkpoint = given_checkpoint(model, OURS, SIZE)
    assert (checkpoint.order, checkpoint.outside) == ((1, 2, 0), ())
    said = model.recognised(OURS)
    assert said.endswith(
        "; the file names its classes, in another order, and they are matched by name"
    )
    fewer = given_checkpoint(model, ("cat",), SIZE)
    assert (fewer.order, fewer.outside, fewer.classes) == ((2, 0, 1), ("dog", "bird"), 3)
    assert "with 2 that the data has not" in model.recognised(("cat",))
    assert output_names(model, SIZE) == ("dog", "bird", "cat")
    # a file without names has the data's, in their order
    bare = given(detector(tmp_path / "b.onnx"))
    assert given_checkpoint(bare, OURS, SIZE).order == ()


def test_names_that_lack_a_class_of_the_data_are_a_fault_until_classes_name_them(tmp_path):
    file = detector(tmp_path / "a.onnx", names="{0: 'Dog', 1: 'Bird', 2: 'Cat'}")
    ((key, message),) = faults(given(file), OURS)
    assert key == "onnx"
    assert message == (
        f"{file} names its 3 outputs (Dog, Bird, Cat), and the model has no output for 3 of the "
        "data's 3 classes: bird, cat, dog; if they have other names there, write the model's "
        "'classes': the data's, in order of the outputs"
    )
    named = given(file, classes=("dog", "bird", "cat"))
    assert not faults(named, OURS)
    assert given_checkpoint(named, OURS, SIZE).order == (1, 2, 0)


def test_classes_in_another_order_than_the_files_are_a_fault(tmp_path):
    file = detector(tmp_path / "a.onnx", names="{0: 'dog', 1: 'bird', 2: 'cat'}")
    ((key, message),) = faults(given(file, classes=OURS), OURS)
    assert key == "classes"
    assert message == (
        f"{file} names its outputs in another order: 0 is dog, 1 is bird, 2 is cat; remove "
        "'classes', or correct the file's 'names'"
    )
    with pytest.raises(DataError, match="0 is dog"):
        given(file, classes=OURS).checkpoint(OURS, SIZE)
    assert not faults(given(file, classes=("dog", "bird", "feline")), ("bird", "feline"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{0: 'dog', 1: 'cat', 2: 'cat'}", "names two outputs 'cat'"),
        ("{0: 'dog', 2: 'bird', 3: 'cat'}", "numbers the names of its outputs 0, 2, 3"),
    ],
)
def test_names_that_leave_the_order_open_are_a_fault_until_classes_name_the_outputs(
    tmp_path, text, said
):
    file = detector(tmp_path / "a.onnx", names=text)
    ((key, message),) = faults(given(file), OURS)
    assert key == "onnx"
    assert message == f"{file} {said}; name every output, in order, as the model's 'classes'"
    assert not faults(given(file, classes=OURS), OURS)


def test_another_number_of_names_than_outputs_is_a_fault(tmp_path):
    file = detector(tmp_path / "a.onnx", names="{0: 'dog', 1: 'bird'}")
    ((key, message),) = faults(given(file), ("dog",))
    assert key == "onnx"
    assert "it has scores of 3 classes, and 2 are named" in message
