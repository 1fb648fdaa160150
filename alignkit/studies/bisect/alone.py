"""One layer out of its graph, fed what the reference computed: its own error, not what came in.

A backend's session takes one array, (samples, 3, height, width). So the layer's inputs are laid
side by side in one of (samples, 3, 1, width), and the graph begins by taking them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.studies.bisect.graph import leading_to, rebuilt

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.studies.bisect.activations import Activations

PACKED = "alignkit_packed"


def layer_alone(
    model: Any, tensor: str, shapes: Mapping[str, tuple[int, ...]], images: int
) -> tuple[Any, tuple[str, ...]]:
    """The graph from known tensors to ``tensor``, and the names of those it is fed.

    ``shapes`` are those of the known tensors; one without an axis that the images divide is not
    fed. What leads to the layer and is not fed, such as a computed shape, stays in the graph. The
    names are empty if nothing known leads there.
    """
    usable = {
        name: shape
        for name, shape in shapes.items()
        if name != tensor and shape and shape[0] and shape[0] % images == 0
    }
    nodes, read = leading_to(model, tensor, usable)
    fed = tuple(name for name in usable if name in read)
    apart, constants = _taken_apart({name: usable[name] for name in fed}, images)
    return rebuilt(model, [*apart, *nodes], [_input()], tensor, constants), fed


def packed(held: Activations, names: tuple[str, ...], images: int) -> Batch:
    """(images, 3, 1, width) float32: the tensors side by side, zeros at the end."""
    flat = [np.reshape(held.read(name), (images, -1)) for name in names]
    columns = sum(each.shape[1] for each in flat)
    flat.append(np.zeros((images, -columns % 3), np.float32))
    return np.concatenate(flat, axis=1, dtype=np.float32).reshape(images, 3, 1, -1)


def _input() -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(PACKED, TensorProto.FLOAT, ["samples", 3, 1, "columns"])


def _taken_apart(shapes: Mapping[str, tuple[int, ...]], images: int) -> tuple[list[Any], list[Any]]:
    """Nodes that give each tensor its name and shape again, and the constants they read."""
    from onnx import helper, numpy_helper

    constants = {"axes": [1], "flat": [0, -1]}
    nodes = [helper.make_node("Reshape", [PACKED, f"{PACKED}_flat"], [f"{PACKED}_rows"])]
    start = 0
    for number, (name, shape) in enumerate(shapes.items()):
        end = start + int(np.prod(shape)) // images
        constants |= {f"{number}_start": [start], f"{number}_end": [end]}
        constants[f"{number}_shape"] = [-1, *shape[1:]]
        bounds = [f"{PACKED}_{each}" for each in (f"{number}_start", f"{number}_end", "axes")]
        columns = f"{PACKED}_{number}_columns"
        nodes += [
            helper.make_node("Slice", [f"{PACKED}_rows", *bounds], [columns]),
            helper.make_node("Reshape", [columns, f"{PACKED}_{number}_shape"], [name]),
        ]
        start = end
    arrays = {f"{PACKED}_{name}": np.array(each, np.int64) for name, each in constants.items()}
    return nodes, [numpy_helper.from_array(each, name) for name, each in arrays.items()]
