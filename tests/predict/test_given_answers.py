"""What a given model's outputs are taken for: read rightly, or refused before any number.

Every graph is made here. The right answers are counted by ONNX Runtime on the graph as it is, with
NumPy alone before and after it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from alignkit.errors import AlignkitError, BackendError, ConfigError
from alignkit.models.architectures import quiet_torchscript
from alignkit.models.model_fit import faults_of
from alignkit.predict.given_model import given_model, given_task, open_given
from alignkit.preprocess import Preprocess
from alignkit.preprocess.normalise import Normalise
from tests.task_case import samples_of, squash

SIDE, IMAGES, CLASSES = 8, 24, 5
FLOAT, HALF, BYTE, WHOLE = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.UINT8,
    TensorProto.INT64,
)
LUMA = np.array([0.299, 0.587, 0.114], np.float32).reshape(3, 1, 1)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3 * SIDE * SIDE, CLASSES)).astype(np.float32)
BEFORE = RNG.integers(0, 256, (IMAGES, 3, SIDE, SIDE)).astype(np.float32)
AFTER = np.clip(BEFORE + RNG.integers(-60, 61, BEFORE.shape), 0, 255).astype(np.float32)
LEVELS = [each / 255 - 0.5 for each in (BEFORE, AFTER)]


def node(operator, given, gives, **options):
    return helper.make_node(operator, given.split(), gives.split(), **options)


def written(
    file, nodes, outputs, weights=(), *, kind=FLOAT, image=(3, SIDE, SIDE), inputs=(), **metadata
):
    """Write a graph of the input ``x``; ``outputs`` map names to (type, sides behind the images)."""
    held = {"W": WEIGHTS, **dict(weights)}
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", kind, ("n", *image)), *inputs],
        [
            helper.make_tensor_value_info(name, of, None if sides is None else ("n", *sides))
            for name, (of, sides) in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.save(model, file)
    return file


SCORES = [node("Flatten", "x", "flat"), node("MatMul", "flat W", "z")]
ONE = {"W": WEIGHTS[:, :1]}
NARROW = {"W": WEIGHTS.astype(np.float16)}
THIRD = {"third": np.float32(3)}
GREY = {"W": WEIGHTS[: SIDE * SIDE]}
MAP = [node("ReduceMean", "x", "mean", axes=[1], keepdims=1), node("Mul", "mean ten", "m")]
TEN = {"ten": np.float32(10)}
LAST = [
    node("Transpose", "x", "first", perm=[0, 3, 1, 2]),
    node("Flatten", "first", "flat"),
    SCORES[1],
]
BYTES = [node("Cast", "x", "wide", to=FLOAT), node("Flatten", "wide", "flat"), SCORES[1]]


def same(batch):
    return batch


def last(batch):
    return batch.transpose(0, 2, 3, 1)


def grey(batch):
    return (batch * LUMA).sum(axis=1, keepdims=True, dtype=np.float32)


def half(batch):
    return batch.astype(np.float16)


def byte(batch):
    return np.rint(batch).astype(np.uint8)


def greatest(found):
    return found[0].reshape(IMAGES, -1).argmax(axis=1)


def above(limit):
    return lambda found: found[0].reshape(IMAGES) > limit


def label(limit):
    return lambda found: found[0] > limit


def identity(found):
    return found[0].reshape(IMAGES).astype(int)


AS_IS, SIGMOID = "{name: classification, scores: as-is}", "{name: classification, scores: sigmoid}"
IDS = node("ArgMax", "z", "i", axis=1, keepdims=0)
READ = {
    # name: nodes, outputs, further options of `written`; task; input by hand, answer by hand
    "a row of logits": (SCORES, {"z": (FLOAT, [5])}, {}, "", same, greatest),
    "a row of open width": (SCORES, {"z": (FLOAT, [None])}, {}, "", same, greatest),
    "a row of unknown shape": (SCORES, {"z": (FLOAT, None)}, {}, "", same, greatest),
    "a convolution's row": (
        [*SCORES, node("Reshape", "z s", "y")], {"y": (FLOAT, [5, 1, 1])},
        {"weights": {"s": np.array([-1, 5, 1, 1])}}, "", same, greatest,
    ),
    "softmax": ([*SCORES, node("Softmax", "z", "y", axis=1)], {"y": (FLOAT, [5])}, {}, "", same, greatest),
    "one logit": (SCORES, {"z": (FLOAT, [1])}, {"weights": ONE}, "", same, above(0)),
    "one logit with a bias": (
        [*SCORES, node("Add", "z b", "y")], {"y": (FLOAT, [1])},
        {"weights": {**ONE, "b": np.float32([2])}}, "", same, above(0),
    ),
    "one probability": (
        [*SCORES, node("Sigmoid", "z", "y")], {"y": (FLOAT, [1])}, {"weights": ONE}, "", same, above(0.5),
    ),
    "one probability, reshaped": (
        [*SCORES, node("Sigmoid", "z", "p"), node("Reshape", "p s", "y")], {"y": (FLOAT, [1, 1, 1])},
        {"weights": {**ONE, "s": np.array([-1, 1, 1, 1])}}, "", same, above(0.5),
    ),
    "one probability of open width": (
        [*SCORES, node("Sigmoid", "z", "y")], {"y": (FLOAT, [None])}, {"weights": ONE}, "", same, above(0.5),
    ),
    "one value said to be a logit": (
        [*SCORES, node("Div", "z third", "y")], {"y": (FLOAT, [1])}, {"weights": {**ONE, **THIRD}},
        SIGMOID, same, above(0),
    ),
    "one value said to be a probability": (
        [*SCORES, node("Sigmoid", "z", "p"), node("Min", "p one", "y")], {"y": (FLOAT, [1])},
        {"weights": {**ONE, "one": np.float32(1)}}, AS_IS, same, above(0.5),
    ),
    "labels read as classes on demand": (
        [*SCORES, node("Sigmoid", "z", "y")], {"y": (FLOAT, [5])}, {}, AS_IS, same, greatest,
    ),
    "ids of classes": ([*SCORES, IDS], {"i": (WHOLE, [])}, {}, "", same, identity),
    "ids in a column": (
        [*SCORES, node("ArgMax", "z", "i", axis=1, keepdims=1)], {"i": (WHOLE, [1])}, {}, "", same, identity,
    ),
    "ids in floats": (
        [*SCORES, IDS, node("Cast", "i", "y", to=FLOAT)], {"y": (FLOAT, [])}, {}, "", same, identity,
    ),
    "logits and ids": ([*SCORES, IDS], {"z": (FLOAT, [5]), "i": (WHOLE, [])}, {}, "", same, greatest),
    "ids and logits": ([*SCORES, IDS], {"i": (WHOLE, []), "z": (FLOAT, [5])}, {}, "", same, identity),
    "channels last": (LAST, {"z": (FLOAT, [5])}, {"image": (SIDE, SIDE, 3)}, "", last, greatest),
    "channels last of open sides": (LAST, {"z": (FLOAT, [5])}, {"image": (None, None, 3)}, "", last, greatest),
    "float16": (SCORES, {"z": (HALF, [5])}, {"weights": NARROW, "kind": HALF}, "", half, greatest),
    "float16, channels last": (
        LAST, {"z": (HALF, [5])}, {"weights": NARROW, "kind": HALF, "image": (SIDE, SIDE, 3)}, "",
        lambda batch: last(half(batch)), greatest,
    ),
    "one channel": (SCORES, {"z": (FLOAT, [5])}, {"weights": GREY, "image": (1, SIDE, SIDE)}, "", grey, greatest),
    "one channel, last": (
        LAST, {"z": (FLOAT, [5])}, {"weights": GREY, "image": (SIDE, SIDE, 1)}, "",
        lambda batch: last(grey(batch)), greatest,
    ),
    "bytes": (BYTES, {"z": (FLOAT, [5])}, {"kind": BYTE}, "", byte, greatest),
    "bytes, channels last": (
        [node("Cast", "x", "wide", to=FLOAT), node("Transpose", "wide", "first", perm=[0, 3, 1, 2]),
         node("Flatten", "first", "flat"), SCORES[1]],
        {"z": (FLOAT, [5])}, {"kind": BYTE, "image": (SIDE, SIDE, 3)}, "",
        lambda batch: last(byte(batch)), greatest,
    ),
    "bytes of one channel": (
        BYTES, {"z": (FLOAT, [5])}, {"weights": GREY, "kind": BYTE, "image": (1, SIDE, SIDE)}, "",
        lambda batch: np.floor(grey(batch) + 0.5).astype(np.uint8), greatest,
    ),
    "labels by logits": (SCORES, {"z": (FLOAT, [5])}, {}, "multi-label", same, label(0)),
    "a map of probabilities": (
        [*MAP, node("Sigmoid", "m", "y")], {"y": (FLOAT, [1, SIDE, SIDE])}, {"weights": TEN},
        "segmentation", same, label(0.5),
    ),
    "a map of logits": (
        [*MAP, node("Conv", "m three", "y")], {"y": (FLOAT, [1, SIDE, SIDE])},
        {"weights": {**TEN, "three": np.full((1, 1, 1, 1), 3, np.float32)}}, "segmentation", same, label(0),
    ),
    "scores of pixels, channels last": (
        [node("Transpose", "x", "y", perm=[0, 2, 3, 1])], {"y": (FLOAT, [SIDE, SIDE, 3])}, {},
        "segmentation", same, lambda found: found[0].argmax(axis=3),
    ),
    "scores of pixels, channels first": (
        [node("Identity", "x", "y")], {"y": (FLOAT, [3, SIDE, SIDE])}, {},
        "segmentation", same, lambda found: found[0].argmax(axis=1),
    ),
    "labels by probabilities": (
        [*SCORES, node("Sigmoid", "z", "y")], {"y": (FLOAT, [5])}, {}, "multi-label", same, label(0.5),
    ),
}  # fmt: skip


def opened(file, task=""):
    return open_given(given_model(str(file), given_task(task) if task else None), (SIDE, SIDE))


def answers(opened, batch):
    """Answer a batch as a run does, which goes through `AnswerDecoder` alone."""
    samples = samples_of([f"{index}.png" for index in range(len(batch))])
    places = [squash(SIDE, SIDE, SIDE, SIDE)] * len(batch)
    records = opened.decoder.records(opened.session.predict(batch), places)
    return opened.decoder.unlabelled(samples.ids, opened.decoder.kept(records, samples), samples)


def refused_alone(opened, batch):
    """Answer a batch that is all there is; raise as a run of one cell does."""
    if reason := answers(opened, batch).misread():
        raise BackendError(reason)


def by_hand(file, batch):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": batch})


@pytest.mark.parametrize("case", READ)
def test_answers_change_where_the_graph_itself_says_so(case, tmp_path):
    nodes, outputs, options, task, given, answer = READ[case]
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    sides = (BEFORE, AFTER) if options.get("kind") == BYTE else LEVELS
    was, now = (answer(by_hand(file, given(np.ascontiguousarray(each)))) for each in sides)
    with opened(file, task) as model:
        found = [answers(model, each) for each in sides]
        assert model.recognised
    changed = (was != now).reshape(IMAGES, -1).any(axis=1)
    assert 0 < changed.sum() < IMAGES + (task == "segmentation")
    assert found[0].changed(found[1]).tolist() == changed.tolist()
    assert found[0].one_answer(found[1]) == ""


def box_rows(*behind, anchors=600):
    """Rows of an Ultralytics-shaped output (n, 4 + rows, anchors): a box, and what is behind it."""
    rows = np.concatenate([np.float32([4, 4, 4, 4]), np.float32(behind)])
    held = {"rows": rows.reshape(1, -1, 1), "sides": np.array([1, len(rows), anchors]),
            "nought": np.zeros((1, 1, 1), np.float32)}  # fmt: skip
    nodes = [
        node("GlobalAveragePool", "x", "mean"),
        node("ReduceMean", "mean", "one", axes=[1, 2], keepdims=0),
        node("Reshape", "one three", "column"),
        node("Mul", "column nought", "nothing"),
        node("Add", "nothing rows", "row"),
        node("Expand", "row sides", "output0"),
    ]
    shape = {"output0": (FLOAT, [len(rows), anchors])}
    return nodes, shape, {"weights": {**held, "three": np.array([-1, 1, 1])}}


def two_outputs():
    nodes, shape, options = box_rows(*[0.1] * 112, anchors=8400)
    return (
        [*nodes, node("ReduceMean", "x", "mean1", axes=[1], keepdims=1), node("Expand", "mean1 map", "output1")],
        {**shape, "output1": (FLOAT, [32, SIDE, SIDE])},
        {"weights": {**options["weights"], "map": np.array([1, 32, 1, 1])}},
    )  # fmt: skip


def with_metadata(made, **metadata):
    return made[0], made[1], {**made[2], **metadata}


ROW = box_rows(0.5, *[100.0] * 51)
NAMES = {"names": str({index: f"class_{index}" for index in range(80)})}
REAL = {"names": str({index: f"kind {index}" for index in range(80)})}
REFUSED = {
    "pose by its task": (with_metadata(ROW, task="pose"), "detection", "its task is pose: .*keypoints"),
    "pose by its keypoints": (with_metadata(ROW, kpt_shape="[17, 3]"), "detection", "its task is pose"),
    "pose taken for classes": (with_metadata(ROW, task="pose"), "", "its task is pose"),
    "pose that says nothing": (ROW, "detection", r"class scores reach from 0\.5 to 100"),
    "angles by their task": (
        with_metadata(box_rows(0.5, 0.4, 0.3), task="obb"), "detection", "its task is obb: .*angle",
    ),
    "angles that say nothing": (box_rows(0.5, 0.4, -0.7), "detection", r"class scores reach from −0\.7"),
    "coefficients of masks": (box_rows(0.5, *[-0.3] * 32), "detection", r"class scores reach from −0\.3"),
    "prototypes by their task": (
        with_metadata(two_outputs(), task="segment"), "segmentation", "its task is segment: .*prototypes",
    ),
    "boxes of a segmenter": (with_metadata(two_outputs(), task="segment"), "detection", "its task is segment"),
    "prototypes that say nothing": (two_outputs(), "segmentation", "output1 like the prototypes"),
    "a detector taken for classes": (
        with_metadata(box_rows(0.5), task="detect"), "", "its task is detect; write the task detection",
    ),
    "131 classes with 80 names": (
        with_metadata(box_rows(*[0.5] * 131), **REAL), "detection", "131 classes, and 80 are named",
    ),
    "131 classes with 80 numbered names": (
        with_metadata(box_rows(*[0.5] * 131), **NAMES), "detection", "131 classes, and 80 are named",
    ),
    "logits of a detector": (box_rows(-3, 4), "detection", "for logits, write the task's 'scores: sigmoid'"),
    "labels taken for classes": (
        ([*SCORES, node("Sigmoid", "z", "y")], {"y": (FLOAT, [5])}, {}), "", "'{name: multi-label, scores: as-is}'",
    ),
    "an embedding taken for classes": (
        ([*SCORES, node("LpNormalization", "z", "y", axis=1, p=2)], {"y": (FLOAT, [5])}, {}), "",
        "has the length 1, as an embedding",
    ),
    "features by their name": (
        ([*SCORES, node("Identity", "z", "image_features")], {"image_features": (FLOAT, [5])}, {}), "",
        "is called image_features, which names no scores of classes",
    ),
    **{
        f"numbers by the name {name}": (
            ([*SCORES, node("Identity", "z", name)], {name: (FLOAT, [2])}, {"weights": {"W": WEIGHTS[:, :2]}}),
            "", f"is called {name}, which names no scores of classes; .* 'score' with a function",
        )
        for name in ("age", "xy", "regression_head", "pitch_yaw", "coords", "head/offsets")
    },
    **{
        f"numbers by their {key}, {task}": (
            (SCORES, {"z": (FLOAT, [2])}, {"weights": {"W": WEIGHTS[:, :2]}, key: task}),
            "", f"its task is {task}: it gives numbers",
        )
        for key, task in (
            ("task", "regression"), ("task", "image-regression"), ("problem_type", "regression"),
            ("task_type", "depth-estimation"), ("task", "keypoint-detection"),
        )
    },
    "one value": (
        ([*SCORES, node("Div", "z third", "y")], {"y": (FLOAT, [1])}, {"weights": {**ONE, **THIRD}}), "",
        "gives one value an image",
    ),
    "one logit taken for a probability": (
        (SCORES, {"z": (FLOAT, [1])}, {"weights": ONE}), AS_IS, "set the task's 'scores: sigmoid'",
    ),
    "two rows of scores": (
        ([*SCORES, node("Softmax", "z", "p", axis=1)], {"p": (FLOAT, [5]), "z": (FLOAT, [5])}, {}), "",
        r"as in '\{onnx: FILE, outputs: \[p\]\}'",
    ),
    "boxes and their classes": (
        ([*SCORES, IDS, node("Identity", "z", "boxes")], {"boxes": (FLOAT, [5]), "i": (WHOLE, [])}, {}), "",
        "the model has 2 outputs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_answer_that_means_nothing_is_refused_before_a_number(case, tmp_path):
    (nodes, outputs, options), task, message = REFUSED[case]
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    with pytest.raises(AlignkitError, match=message), opened(file, task) as model:
        refused_alone(model, LEVELS[0])


TWO = {"weights": {"W": WEIGHTS[:, :2]}}


@pytest.mark.parametrize(
    ("nodes", "metadata", "assumed"),
    [(SCORES, {}, True), (SCORES, {"names": "['cat', 'dog']"}, False),
     (SCORES, {"task": "classify"}, True), (SCORES, {"task": "image-classification"}, True),
     ([*SCORES, node("Softmax", "z", "y", axis=1)], {}, False)],
)  # fmt: skip
def test_that_two_numbers_are_classes_is_said_where_nothing_shows_it(
    nodes, metadata, assumed, tmp_path
):
    name = nodes[-1].output[0]
    file = written(tmp_path / "a.onnx", nodes, {name: (FLOAT, [2])}, **TWO, **metadata)
    with opened(file) as model:
        assert ("for a regression write the task 'score'" in model.recognised) == assumed
    classes = given_model(str(file)).recognised(("cat", "dog"))
    assert "regression" not in classes


def test_more_labels_than_two_contradict_two_outputs(tmp_path):
    file = written(tmp_path / "a.onnx", SCORES, {"z": (FLOAT, [2])}, **TWO)
    (fault,) = faults_of(given_model(str(file)), ("a", "b", "c"), (SIDE, SIDE))
    assert "has 2 outputs, and the data has 3 classes" in fault.message


def test_one_of_two_rows_of_scores_is_named_as_the_message_says(tmp_path):
    nodes = [*SCORES, node("Softmax", "z", "p", axis=1)]
    file = written(tmp_path / "a.onnx", nodes, {"p": (FLOAT, [5]), "z": (FLOAT, [5])})
    with opened(f"{{onnx: {file}, outputs: [p]}}") as model:
        assert (
            answers(model, LEVELS[0]).predicted.tolist()
            == greatest(by_hand(file, LEVELS[0].astype(np.float32))).tolist()
        )


def test_a_second_input_is_made_constant_by_the_command_that_the_message_gives(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sizes = helper.make_tensor_value_info("orig_target_sizes", WHOLE, ("n", 2))
    nodes = [*SCORES, node("Cast", "orig_target_sizes", "wide", to=FLOAT),
             node("ReduceMean", "wide", "mean", keepdims=0), node("Mul", "z mean", "y")]  # fmt: skip
    file = written("two.onnx", nodes, {"y": (FLOAT, [5])}, inputs=[sizes])
    with pytest.raises(ConfigError, match="has 2 inputs") as refused, opened(file):
        pass
    command = shlex.split(str(refused.value).partition(": python ")[2])
    subprocess.run([sys.executable, *command], check=True)
    session = onnxruntime.InferenceSession(file)
    expected = session.run(None, {"x": LEVELS[0].astype("f"), "orig_target_sizes": [[SIDE, SIDE]]})
    with opened("two-constant.onnx") as model:
        assert np.allclose(model.session.predict(LEVELS[0].astype("f"))[0], expected[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("normalise", "message"),
    [(Normalise(), "takes bytes, 0 to 255"), (Normalise((0, 0, 0), (1, 1, 1)), "takes bytes"),
     (Normalise((0, 0, 0), (1 / 255,) * 3), "")],
)  # fmt: skip
def test_bytes_need_a_path_that_keeps_levels(normalise, message, tmp_path):
    file = written(tmp_path / "a.onnx", BYTES, {"z": (FLOAT, [5])}, kind=BYTE)
    path = Preprocess("mine", None, None, normalise=normalise)
    found = given_model(str(file)).unlike_bytes(path)
    assert message in found if message else found == ""
    if message:
        assert str(1 / 255) in found


class Net(torch.nn.Module):
    def __init__(self, outputs, last=""):
        super().__init__()
        self.linear, self.last = torch.nn.Linear(3 * SIDE * SIDE, outputs), last

    def forward(self, x):
        z = self.linear(x.flatten(1))
        if self.last == "ids":
            return z.argmax(1)
        return z.sigmoid() if self.last == "sigmoid" else z


TRACED = {
    # name: network, model entry, task; the message of a refusal, or the answer by hand
    "one value": (Net(1), "{torchscript: FILE}", "", "gives one value an image"),
    "one logit": (Net(1), "{torchscript: FILE}", SIGMOID, lambda z: z[:, 0] > 0),
    "one probability": (Net(1, "sigmoid"), "{torchscript: FILE}", AS_IS, lambda z: z[:, 0] > 0.5),
    "labels": (Net(5, "sigmoid"), "{torchscript: FILE}", "", "'{name: multi-label, scores: as-is}'"),
    "ids": (Net(5, "ids"), "{torchscript: FILE, classes: [a, b, c, d, e]}", "", "logits: none"),
    "ids said so": (
        Net(5, "ids"), "{torchscript: FILE, classes: [a, b, c, d, e]}",
        "{name: classification, logits: none}", lambda z: z,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRACED)
def test_code_of_torchs_is_read_as_it_is_said_to_be(case, tmp_path):
    network, entry, task, expected = TRACED[case]
    file, batch = tmp_path / "a.ts", LEVELS[0].astype(np.float32)
    with quiet_torchscript():
        torch.jit.trace(network.eval(), torch.zeros(2, 3, SIDE, SIDE)).save(file)
    entry = entry.replace("FILE", str(file))
    if isinstance(expected, str):
        with pytest.raises(AlignkitError, match=expected), opened(entry, task) as model:
            refused_alone(model, batch)
        return
    with torch.inference_mode():
        right = expected(network(torch.from_numpy(batch)).numpy())
    with opened(entry, task) as model:
        assert answers(model, batch).predicted.tolist() == right.astype(int).tolist()


def test_keypoints_are_compared_by_the_task_that_the_message_names(tmp_path):
    nodes, outputs, options = with_metadata(ROW, task="pose")
    nodes = [*nodes[:3], node("Mul", "column tenth", "nothing"), *nodes[4:]]
    options["weights"] = {**options["weights"], "tenth": np.float32(0.1)}
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    (tmp_path / "own.py").write_text(
        "def best(outputs, sample):\n    return float(outputs['output0'][4].max())\n"
    )
    task = f"{{name: score, score: {tmp_path}/own.py:best, outputs: [output0]}}"
    with opened(file, task) as model:
        found = [answers(model, each.astype(np.float32)) for each in LEVELS]
    was, now = (by_hand(file, each.astype(np.float32))[0][:, 4].max(axis=1) for each in LEVELS)
    assert found[0].changed(found[1]).tolist() == (was != now).tolist()
    assert (was != now).any()
