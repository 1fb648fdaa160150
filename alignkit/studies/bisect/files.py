"""ONNX files and a folder of images → the inputs of a bisection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from alignkit.errors import ConfigError, NothingCompared
from alignkit.models.checkpoint import Checkpoint
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.studies.bisect.cell import BisectInputs
from alignkit.studies.bisect.graph import inputs_of, layers_of, load_graph
from alignkit.studies.bisect.onnx_side import ONNXSide
from alignkit.workspace import file_sha256

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Pixels
    from alignkit.plan.runtime import Runtime
    from alignkit.preprocess import Preprocess


def inputs_from_files(
    model: Path,
    against: Path | None,
    images: Sequence[Path],
    preprocess: str,
    *,
    reference: Runtime,
    candidate: Runtime,
    count: int,
    size: int | None = None,
) -> BisectInputs:
    """Prepare one graph in two runtimes, or two graphs whose tensors have the same names.

    ``against`` is the second graph. ``preprocess`` is an argument of
    `alignkit.match.target.preprocess_of`; ``size`` is the input's side in pixels where the graph
    leaves it open.
    """
    graph = load_graph(model)
    height, width = _size(model, graph, size, count)
    batch = _batch(_path(preprocess, height, width), images, count)
    other = against or model
    labels = (f"({model.name})", f"({other.name})") if against else ("", "")
    sides = [
        ONNXSide(
            runtime,
            Checkpoint(file.stem, 0, height, width, file, file_sha256(file), "onnx"),
            file,
            batch,
            label=label,
        )
        for runtime, file, label in zip((reference, candidate), (model, other), labels, strict=True)
    ]
    return BisectInputs(sides[0], sides[1], layers_of(graph), str(model), len(batch))


def _size(file: Path, graph: Any, asked: int | None, count: int) -> tuple[int, int]:
    """Return the graph's (height, width); ``asked`` where it leaves them open."""
    inputs = inputs_of(graph)
    shape = [each.dim_value for each in inputs[0].type.tensor_type.shape.dim] if inputs else []
    if len(inputs) != 1 or len(shape) != 4 or shape[1] not in (0, 3):
        raise ConfigError(f"{file}: an image classifier with one input, Nx3xHxW, is needed")
    if shape[0] not in (0, count):
        raise ConfigError(
            f"{file} takes exactly {shape[0]} images at a time; give --count {shape[0]}"
        )
    height, width = shape[2] or asked, shape[3] or asked
    if not height or not width:
        raise ConfigError(f"{file} leaves the size of its input open; give --size")
    return height, width


def _path(text: str, height: int, width: int) -> Preprocess:
    from alignkit.match.target import preprocess_of

    path = preprocess_of(text, height)
    if path.size != (height, width):
        prepared = "x".join(map(str, path.size))
        raise ConfigError(
            f"--preprocess {text} prepares {prepared}, and the model takes {height}x{width}; name "
            "a path of a file, FILE.yaml:NAME"
        )
    return path


def _batch(path: Preprocess, images: Sequence[Path], count: int) -> Batch:
    from alignkit.datasets.unlabelled_images import Images

    samples = Images(tuple(images)).evaluation()
    taken: list[Pixels] = []
    for (found,) in take_pixels([path], encoded_images(samples)):
        if found.pixels is not None:
            taken.append(found.pixels)
        if len(taken) == count:
            break
    if not taken:
        raise NothingCompared(f"{path.name} decodes none of {len(samples)} images")
    return np.ascontiguousarray(path.normalise(cast("Pixels", np.stack(taken))))
