"""Graphs of a kilobyte that would take a machine: each is one refusal, in a stated time."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, load, numpy_helper, save

from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.errors import BackendError, DataError
from alignkit.models.checkpoint import Checkpoint
from alignkit.models.graph_bounds import bounded_run, require_bearable
from alignkit.models.model_fit import faults_of, output_names
from alignkit.models.onnx_header import read_onnx_header
from alignkit.models.user_model import UserModel

SIZE = (8, 8)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def constant(name, values, kind):
    return numpy_helper.from_array(np.array(values, kind), name)


def written(file, nodes, weights=(), outputs=((None, 3),)):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", FLOAT, (None, 3, *SIZE))],
        [helper.make_tensor_value_info(f"y{n}" if n else "y", FLOAT, each)
         for n, each in enumerate(outputs)],
        list(weights),
    )  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


MEANS = [
    helper.make_node("ReduceMean", ["image"], ["y"], axes=[2, 3], keepdims=0),
]


def honest(file):
    return written(file, MEANS)


def looped(trips, body, carried="start"):
    """Give the mean of what a loop makes of the channels' means; ``trips`` is an edge."""
    return [
        helper.make_node("ReduceMean", ["image"], ["start"], axes=[2, 3], keepdims=0),
        helper.make_node("Loop", [trips, "true", carried], ["end"], body=body),
        helper.make_node("ReduceSum", ["end", "axis"], ["sum"], keepdims=1),
        helper.make_node("Add", ["start", "sum"], ["y"]),
    ]


def body(nodes, sides):
    edge = helper.make_tensor_value_info
    return helper.make_graph(
        [*nodes, helper.make_node("Identity", ["going"], ["goes"])],
        "body",
        [edge("trip", INT64, ()), edge("going", BOOL, ()), edge("x", FLOAT, sides)],
        [edge("goes", BOOL, ()), edge("x2", FLOAT, sides)],
    )


COUNTING = body([helper.make_node("Add", ["x", "x"], ["x2"])], (None, 3))
DOUBLING = body([helper.make_node("Concat", ["x", "x"], ["x2"], axis=1)], (None, None))
KNOWN = [constant("true", True, np.bool_), constant("axis", [1], np.int64)]


def endless_loop(file):
    return written(file, looped("many", COUNTING), [*KNOWN, constant("many", 1 << 62, np.int64)])


def loop_by_the_image(file):
    """A black image takes no trip, and any other one 2**40."""
    nodes = [
        helper.make_node("ReduceMax", ["image"], ["max"], keepdims=0),
        helper.make_node("Mul", ["max", "much"], ["trips"]),
        helper.make_node("Cast", ["trips"], ["many"], to=INT64),
        *looped("many", COUNTING),
    ]
    return written(file, nodes, [*KNOWN, constant("much", 2.0**40, np.float32)])


def growing_loop(file):
    """It doubles its values forty times."""
    return written(file, looped("many", DOUBLING), [*KNOWN, constant("many", 40, np.int64)])


def growing_by_the_image(file):
    nodes = [
        helper.make_node("ReduceMax", ["image"], ["max"], keepdims=0),
        helper.make_node("Mul", ["max", "much"], ["trips"]),
        helper.make_node("Cast", ["trips"], ["many"], to=INT64),
        *looped("many", DOUBLING),
    ]
    return written(file, nodes, [*KNOWN, constant("much", 40.0, np.float32)])


def summed(node, *weights, file):
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["start"], axes=[2, 3], keepdims=0),
        *node,
        helper.make_node("ReduceMax", ["large"], ["max"], keepdims=0),
        helper.make_node("Add", ["start", "max"], ["y"]),
    ]
    return written(file, nodes, weights)


def folded_constant(file):
    """ONNX Runtime computes it as it loads the graph: eight gigabytes."""
    fill = helper.make_tensor("value", FLOAT, [1], [1.0])
    node = [helper.make_node("ConstantOfShape", ["sides"], ["large"], value=fill)]
    return summed(node, constant("sides", [1 << 31], np.int64), file=file)


def expanded(file):
    node = [helper.make_node("Expand", ["first", "sides"], ["large"])]
    first = helper.make_node("Reshape", ["start", "flat"], ["first"])
    return summed([first, *node], constant("sides", [1 << 28, 3], np.int64),
                  constant("flat", [1, -1], np.int64), file=file)  # fmt: skip


def tiled(file):
    node = [helper.make_node("Tile", ["image", "times"], ["large"])]
    return summed(node, constant("times", [1, 1, 1 << 11, 1 << 11], np.int64), file=file)


def resized(file):
    node = [helper.make_node("Resize", ["image", "", "scales"], ["large"], mode="nearest")]
    return summed(node, constant("scales", [1, 1, 2048, 2048], np.float32), file=file)


def padded(file):
    node = [helper.make_node("Pad", ["image", "pads"], ["large"])]
    return summed(node, constant("pads", [0, 0, 0, 0, 0, 0, 15_000, 15_000], np.int64), file=file)


GRAPHS = {
    endless_loop: "timed out: no result after 1 s",
    growing_loop: "out of memory",
    folded_constant: "out of memory",
    expanded: "out of memory",
    tiled: "out of memory",
    resized: "out of memory",
    padded: "out of memory",
}


@pytest.fixture(autouse=True)
def low(monkeypatch):
    monkeypatch.setenv("ALIGNKIT_MODEL_SECONDS", "1")
    monkeypatch.setenv("ALIGNKIT_MODEL_BYTES", f"{400 << 20}")


@pytest.mark.parametrize("make", GRAPHS, ids=lambda each: each.__name__)
def test_a_graph_is_tried_where_it_can_be_killed(make, tmp_path, monkeypatch):
    if make is not endless_loop:  # a busy machine fills memory slowly
        monkeypatch.setenv("ALIGNKIT_MODEL_SECONDS", "10")
    began = time.monotonic()
    with pytest.raises(BackendError, match=GRAPHS[make]) as caught:
        require_bearable(make(tmp_path / "x.onnx"), SIZE)
    assert "ALIGNKIT_MODEL_SECONDS and ALIGNKIT_MODEL_BYTES" in str(caught.value)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("make", [endless_loop, folded_constant], ids=lambda each: each.__name__)
def test_a_graph_whose_outputs_must_be_counted_is_tried_first(make, tmp_path, monkeypatch):
    file = make(tmp_path / "x.onnx")
    model = load(file)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    save(model, file)
    if make is not endless_loop:
        monkeypatch.setenv("ALIGNKIT_MODEL_SECONDS", "10")
    with pytest.raises(DataError, match=f"was tried on one black image: .*{GRAPHS[make]}"):
        faults_of(UserModel("m", "path", onnx=file), (), SIZE)


def test_an_honest_graph_passes_and_a_damaged_one_is_told_by_its_backend(tmp_path):
    require_bearable(honest(tmp_path / "x.onnx"), SIZE)
    (tmp_path / "y.onnx").write_bytes(b"no graph")
    require_bearable(tmp_path / "y.onnx", SIZE)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (loop_by_the_image, "on 2 images the graph takes more than .* ALIGNKIT_MODEL_SECONDS"),
        (growing_by_the_image, "ALIGNKIT_MODEL_(SECONDS|BYTES)|Failed to allocate|bad_alloc"),
    ],
)
def test_what_a_graph_does_only_with_some_images_ends_too(make, said, tmp_path, monkeypatch):
    monkeypatch.setattr("alignkit.models.graph_bounds.available_bytes", lambda: 1 << 20)
    monkeypatch.setenv("ALIGNKIT_MODEL_SECONDS", "0.5")
    file = make(tmp_path / "x.onnx")
    checkpoint = Checkpoint("m", 3, *SIZE, file, "k", format="onnx")
    session = ONNXRuntimeBackend().open(checkpoint, file, "fp32")
    assert session.predict(np.zeros((2, 3, *SIZE), np.float32))[0].shape == (2, 3)
    began = time.monotonic()
    with pytest.raises((BackendError, Exception), match=said):
        session.predict(np.ones((2, 3, *SIZE), np.float32))
    assert time.monotonic() - began < 20
    # the session goes on
    assert session.predict(np.zeros((1, 3, *SIZE), np.float32))[0].shape == (1, 3)


def test_runs_of_several_threads_are_watched_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_MODEL_SECONDS", "0.5")
    file = loop_by_the_image(tmp_path / "x.onnx")
    session = ONNXRuntimeBackend().open(
        Checkpoint("m", 3, *SIZE, file, "k", format="onnx"), file, "fp32"
    )
    ended = []

    def hang():
        try:
            bounded_run(session.session, ["y"], {"image": np.ones((1, 3, *SIZE), np.float32)})
        except BackendError as error:
            ended.append(str(error))

    thread = threading.Thread(target=hang)
    thread.start()
    for _ in range(50):
        bounded_run(session.session, ["y"], {"image": np.zeros((1, 3, *SIZE), np.float32)})
    thread.join(20)
    assert len(ended) == 1


def declared(file, *outputs):
    """Declare outputs that the graph does not give."""
    return written(file, MEANS, outputs=outputs)


@pytest.mark.parametrize("width", [1_000_001, 100_000_000, 2**40, 2**62])
def test_outputs_are_counted_before_they_are_named(width, tmp_path):
    file = declared(tmp_path / "x.onnx", (None, width))
    given = UserModel("m", "path", onnx=file)
    (fault,) = faults_of(given, (), SIZE)
    assert "more than 1,000,000 outputs; ALIGNKIT_MODEL_OUTPUTS" in fault.message
    with pytest.raises(DataError, match="more than 1,000,000 outputs"):
        output_names(given, SIZE)


def test_as_many_outputs_as_the_largest_classifiers_have_are_named(tmp_path):
    given = UserModel("m", "path", onnx=declared(tmp_path / "x.onnx", (None, 21_843)))
    assert not faults_of(given, (), SIZE)
    assert len(output_names(given, SIZE)) == 21_843


def varint(number):
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def test_graphs_within_graphs_without_an_end_are_no_onnx_file(tmp_path):
    graph = b""
    for _ in range(3000):  # a node with an attribute that is a graph
        graph = field(1, field(5, field(6, graph)))
    (tmp_path / "x.onnx").write_bytes(b"\x08\x08" + field(7, graph))
    with pytest.raises(DataError, match="no ONNX file, or it is damaged"):
        read_onnx_header(tmp_path / "x.onnx")


def test_a_model_of_millions_of_fields_is_not_walked_whole(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"\x08\x08" + b"\x10\x00" * 3_000_000)
    began = time.monotonic()
    with pytest.raises(DataError, match="it holds no graph"):
        read_onnx_header(tmp_path / "x.onnx")
    assert time.monotonic() - began < 5
