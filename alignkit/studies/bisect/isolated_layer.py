"""One layer isolated from its graph and fed the reference's activations, to measure its own error.

A backend's session takes one array, (samples, 3, height, width). So the layer's inputs are packed
side by side into one array of (samples, 3, 1, width), and the graph begins by unpacking them.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.studies.bisect.graph import leading_to, rebuilt

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.studies.bisect import Values

_INPUT = "alignkit_packed"


class Activations:
    """Name of a tensor → its values, on disk: a model's activations are many times its weights.

    The files are removed with the object.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="alignkit-"))
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        weakref.finalize(self, shutil.rmtree, self._folder)

    def keep(self, tensor: str, values: Values) -> None:
        """Write the values of a tensor, in place of those kept before."""
        file = self._files.setdefault(tensor, self._folder / f"{len(self._files)}.npy")
        self.shapes[tensor] = values.shape
        np.save(file, values)

    def read(self, tensor: str) -> Values:
        """Return the values of a tensor; raises `KeyError` if none were kept."""
        values: Values = np.load(self._files[tensor])
        return values


def isolated_graph(
    model: Any, tensor: str, shapes: Mapping[str, tuple[int, ...]], images: int
) -> tuple[Any, tuple[str, ...]]:
    """Return the graph from known tensors to ``tensor``, and the names of those it is fed.

    ``shapes`` are those of the known tensors. A tensor whose first axis is no multiple of the
    images is not fed. Nodes that lead to the layer from tensors that are not fed, such as a
    computed shape, stay in the graph. The names are empty if no known tensor leads to the layer.
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
    """Lay the tensors side by side: (images, 3, 1, width) float32, padded with zeros."""
    flat = [np.reshape(held.read(name), (images, -1)) for name in names]
    columns = sum(each.shape[1] for each in flat)
    flat.append(np.zeros((images, -columns % 3), np.float32))
    return np.concatenate(flat, axis=1, dtype=np.float32).reshape(images, 3, 1, -1)


def _input() -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, ["samples", 3, 1, "columns"])


def _taken_apart(shapes: Mapping[str, tuple[int, ...]], images: int) -> tuple[list[Any], list[Any]]:
    """Return nodes that restore each tensor's name and shape, and the constants they read."""
    from onnx import helper, numpy_helper

    constants = {"axes": [1], "flat": [0, -1]}
    nodes = [helper.make_node("Reshape", [_INPUT, f"{_INPUT}_flat"], [f"{_INPUT}_rows"])]
    start = 0
    for number, (name, shape) in enumerate(shapes.items()):
        end = start + int(np.prod(shape)) // images
        constants |= {f"{number}_start": [start], f"{number}_end": [end]}
        constants[f"{number}_shape"] = [-1, *shape[1:]]
        bounds = [f"{_INPUT}_{each}" for each in (f"{number}_start", f"{number}_end", "axes")]
        columns = f"{_INPUT}_{number}_columns"
        nodes += [
            helper.make_node("Slice", [f"{_INPUT}_rows", *bounds], [columns]),
            helper.make_node("Reshape", [columns, f"{_INPUT}_{number}_shape"], [name]),
        ]
        start = end
    arrays = {f"{_INPUT}_{name}": np.array(each, np.int64) for name, each in constants.items()}
    return nodes, [numpy_helper.from_array(each, name) for name, each in arrays.items()]
