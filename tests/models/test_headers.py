"""Headers of models' files, against onnx and torch; nothing in a pickle is executed."""

import argparse
import pickle

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from alignkit.errors import DataError
from alignkit.models.architectures import read_weights
from alignkit.models.file_headers import kind_of, read_weights_header, wrapper
from alignkit.models.onnx_header import read_onnx_header


def graph(file, *, batch="n", side=8, outputs=3, kind=TensorProto.FLOAT, **options):
    weights = np.zeros((3 * side * side, outputs), np.float32)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["y"]),
    ]
    taken = [helper.make_tensor_value_info("x", kind, (batch, 3, side, side))]
    # older exporters list the weights among the inputs
    taken.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, weights.shape))
    given = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", outputs))]
    made = helper.make_graph(
        nodes, "g", taken, given, [numpy_helper.from_array(weights, "weights")]
    )
    onnx.save(helper.make_model(made), file, **options)
    return file


@pytest.mark.parametrize("options", [{}, {"batch": 1, "side": 12}, {"batch": -1, "outputs": 7}])
@pytest.mark.parametrize("beside", [False, True])
def test_the_header_of_a_graph_is_that_which_onnx_reads(tmp_path, options, beside):
    stored = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
    file = graph(tmp_path / "a.onnx", **options, **(stored if beside else {}))
    if beside:
        (tmp_path / "w.data").unlink()  # the weights are not read
    header = read_onnx_header(file)
    whole = onnx.load(file, load_external_data=False).graph
    (taken,) = header.inputs
    dimensions = whole.input[0].type.tensor_type.shape.dim
    assert taken.name == whole.input[0].name
    assert taken.type == whole.input[0].type.tensor_type.elem_type
    assert [each or 0 for each in taken.shape] == [max(0, each.dim_value) for each in dimensions]
    assert header.outputs[0].shape[1] == whole.output[0].type.tensor_type.shape.dim[1].dim_value
    assert header.beside == (("w.data",) if beside else ())


def kept_beside(name):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=f"{name}.data")
    return tensor


@pytest.mark.parametrize("place", ["attribute", "branch", "sparse", "function"])
def test_weights_are_found_beside_a_graph_wherever_it_has_a_tensor(tmp_path, place):
    model = onnx.load(graph(tmp_path / "a.onnx"))
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute("value", kept_beside("w")))
    if place == "attribute":
        model.graph.node.append(constant)
    elif place == "branch":
        branch = helper.make_graph([constant], "branch", [], [])
        model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch))
    elif place == "sparse":
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(kept_beside("w"))
    else:
        sets = [helper.make_opsetid("", 17)]
        model.functions.append(helper.make_function("own", "f", [], ["c"], [constant], sets))
    (tmp_path / "b.onnx").write_bytes(model.SerializeToString())
    header = read_onnx_header(tmp_path / "b.onnx")
    assert header.beside == ("w.data",)
    assert (header.outputs[0].shape[1], len(header.inputs)) == (3, 1)


@pytest.mark.parametrize("kept", [1, 3, 60, 200, 700])
def test_a_graph_that_is_cut_is_no_onnx_file(tmp_path, kept):
    file = graph(tmp_path / "a.onnx")
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"a\.onnx is no ONNX file"):
        read_onnx_header(file)


def tensors():
    weight = torch.nn.Parameter(torch.zeros(4, 3, 2, 2))
    return {"a.weight": weight, "a.bias": torch.zeros(4).half(), "n": torch.tensor(1)}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("key", ["", "state_dict", "model_state_dict", "model"])
def test_the_header_of_weights_has_the_names_and_shapes_that_torch_reads(tmp_path, archive, key):
    file = tmp_path / "a.pt"
    stored = {key: tensors(), "epoch": 3} if key else tensors()
    torch.save(stored, file, _use_new_zipfile_serialization=archive)
    header = read_weights_header(file)
    known = {name: tuple(each.shape) for name, each in read_weights(file, "m").items()}
    assert {name: each.shape for name, each in header.tensors.items()} == known
    assert header.key == key


@pytest.mark.parametrize("archive", [True, False])
def test_weights_below_another_key_are_refused_with_the_line_that_saves_them(tmp_path, archive):
    file = tmp_path / "a.pt"
    stored = {"net": tensors(), "ema": dict([*tensors().items()][:1]), "optimizer": {"state": {}}}
    torch.save(stored, file, _use_new_zipfile_serialization=archive)
    line = "torch.save(torch.load(FILE, weights_only=True)['net'], 'weights.pt')"
    for read in (read_weights_header, lambda each: read_weights(each, "m")):
        with pytest.raises(DataError) as told:
            read(file)
        assert "the weights lie below 'net' (others: 'ema')" in str(told.value)
        assert line in str(told.value)
    paste = line.replace("FILE", repr(str(file))).replace("'weights.pt'", repr(str(file)))
    exec(paste, {"torch": torch})
    assert [*read_weights_header(file).tensors] == [*tensors()]


def test_a_state_dict_of_a_module_keeps_its_names(tmp_path):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    torch.save(module.state_dict(), tmp_path / "a.pt")
    header = read_weights_header(tmp_path / "a.pt")
    assert [*header.tensors] == [*module.state_dict()]


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("key", ["", "model", "net"])
def test_a_whole_module_is_called_so_with_the_line_that_saves_its_weights(tmp_path, archive, key):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    stored = {key: module, "epoch": 1} if key else module
    torch.save(stored, tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    with pytest.raises(DataError) as told:
        read_weights_header(tmp_path / "a.pt")
    assert "it is a whole pickled module (torch.nn.modules.container.Sequential)" in str(told.value)
    inside = f"[{key!r}]" if key else ""
    line = f"torch.save(torch.load(FILE, weights_only=False){inside}.state_dict(), 'weights.pt')"
    assert line in str(told.value)
    (tmp_path / "b.pt").write_bytes((tmp_path / "a.pt").read_bytes())
    paste = line.replace("FILE", repr(str(tmp_path / "b.pt")))
    exec(paste.replace("'weights.pt'", repr(str(tmp_path / "b.pt"))), {"torch": torch})
    assert [*read_weights_header(tmp_path / "b.pt").tensors] == ["0.weight", "0.bias"]


def test_another_object_beside_the_tensors_is_named(tmp_path):
    for other, name in ((argparse.Namespace(), "argparse.Namespace"), (np.float64(1), "numpy.")):
        torch.save({"state_dict": tensors(), "best": other}, tmp_path / "a.pt")
        with pytest.raises(
            DataError, match=f"other than tensors \\({name}.*save the weights alone"
        ):
            read_weights_header(tmp_path / "a.pt")
        with pytest.raises(DataError):  # and torch refuses it when it would read the values
            read_weights(tmp_path / "a.pt", "m")


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("other", [{1, 2}, 1 + 2j, bytearray(b"ab")])
def test_plain_values_beside_the_tensors_are_read(tmp_path, archive, other):
    file = tmp_path / "a.pt"
    stored = {"state_dict": tensors(), "other": other}
    torch.save(stored, file, _use_new_zipfile_serialization=archive)
    assert [*read_weights_header(file).tensors] == [*read_weights(file, "m")]


class Malicious:
    """Touches a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_reading_a_header_executes_nothing(tmp_path):
    touched = tmp_path / "executed"
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Malicious(touched)))
    torch.save({"model": Malicious(touched)}, tmp_path / "zipped.pt")
    for name in ("plain.pt", "zipped.pt"):
        with pytest.raises(DataError, match=r"would run code .*io\.open"):
            read_weights_header(tmp_path / name)
    assert not touched.exists()


def test_names_of_a_wrapper_come_with_the_line_that_saves_the_module_inside():
    told = wrapper(["module.a.weight", "module.a.bias"])
    assert told.startswith("all of its 2 names begin with 'module.', which DataParallel adds")
    assert told.endswith("torch.save(model.module.state_dict(), FILE)")
    assert wrapper(["_orig_mod.a"]).endswith("torch.save(model._orig_mod.state_dict(), FILE)")
    assert not wrapper(["module.a", "b"])
    assert not wrapper([])


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>", "page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer"),
        (b"\x89HDF\r\n\x1a\n" + bytes(9), "keras"),
        (b"\x1c\0\0\0TFL3" + bytes(9), "tflite"),
        ((20).to_bytes(8, "little") + b'{"a":{}}', "safetensors"),
        (b"PK\x03\x04" + bytes(90), "cut"),
        (b"nothing of the kind", "other"),
    ],
)
def test_a_file_of_another_kind_is_known_by_its_first_bytes(tmp_path, content, kind):
    (tmp_path / "x").write_bytes(content)
    assert kind_of(tmp_path / "x") == kind


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_files_of_torch_are_told_apart_by_their_archives(tmp_path):
    module = torch.nn.Linear(2, 2)
    torch.save(module.state_dict(), tmp_path / "weights")
    torch.jit.script(module).save(str(tmp_path / "torchscript"))
    program = torch.export.export(module, (torch.zeros(1, 2),))
    torch.export.save(program, tmp_path / "exported.pt2")
    graph(tmp_path / "onnx")
    for name in ("weights", "torchscript", "exported.pt2", "onnx"):
        assert kind_of(tmp_path / name) == name.removesuffix(".pt2")
