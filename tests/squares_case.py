"""Squares on noise with their boxes as YOLO has them, and a detector that finds them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.photos import encoded

COUNT, SIDE, STEP, PATCH = 16, 96, 8, 24
HEIGHT, WIDTH = 96, 128


def write_images(folder, first=0) -> None:
    """Dark and bright squares of 32 px on grey noise, in a letterbox 24 px wide.

    ``first`` is the class of the dark ones.
    """
    draw = np.random.default_rng(0)
    for index in range(COUNT):
        image = draw.normal(114, 12, (HEIGHT, WIDTH, 3))
        lines = []
        for across in (0, 64)[: 1 + index % 2]:
            top, left = draw.integers(0, HEIGHT - 32), across + draw.integers(0, 32)
            of_class = int(draw.integers(0, 2))
            image[top : top + 32, left : left + 32] = (10, 245)[of_class]
            centre = (left + 16) / WIDTH, (top + 16) / HEIGHT
            lines.append(f"{of_class ^ first} {centre[0]} {centre[1]} {32 / WIDTH} {32 / HEIGHT}")
        for kind, content in (
            ("images", encoded(image.clip(0, 255).astype(np.uint8))),
            ("labels", "\n".join(lines).encode()),
        ):
            file = folder / kind / "val" / f"{index}.{'jpg' if kind == 'images' else 'txt'}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def write_detector(file, **metadata) -> None:
    """Boxes of one size at every eighth pixel, scored by the mean of the pixels inside."""
    steps = (SIDE - PATCH) // STEP + 1
    middles = np.arange(steps) * STEP + PATCH / 2
    down, across = np.meshgrid(middles, middles, indexing="ij")
    places = np.stack([across.ravel(), down.ravel(), *np.full((2, steps**2), PATCH)])[None]
    mean = np.full((2, 3, PATCH, PATCH), 40 / (3 * PATCH**2))
    weights = {
        "kernel": mean * np.array([-1, 1])[:, None, None, None], "bias": np.array([10, -30]),
        "places": places, "none": np.zeros(1),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["images", "kernel", "bias"], ["means"], strides=[STEP, STEP]),
        helper.make_node("Sigmoid", ["means"], ["shares"]),
        helper.make_node("Reshape", ["shares", "flat"], ["scores"]),
        helper.make_node("Concat", ["scores", "scores"], ["two"], axis=1),
        helper.make_node("Mul", ["two", "none"], ["nothing"]),
        helper.make_node("Add", ["nothing", "places"], ["boxes"]),
        helper.make_node("Concat", ["boxes", "scores"], ["output0"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "patches",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, ["n", 6, steps**2])],
        [
            *(numpy_helper.from_array(e.astype(np.float32), name) for name, e in weights.items()),
            numpy_helper.from_array(np.array([0, 2, steps**2], np.int64), "flat"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.save(model, file)
