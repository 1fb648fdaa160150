"""An ONNX file the user brings: whether its input and output fit the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alignkit.errors import BackendError, DataError


def require_shapes(file: Path, *, classes: int, height: int, width: int) -> None:
    """Raise unless the graph maps (samples, 3, height, width) float32 to (samples, classes).

    A dimension the file leaves open fits. Raises `DataError` if it is no ONNX file, `BackendError`
    if its shapes do not fit. Weights are not read.
    """
    import onnx

    try:
        graph = onnx.load(file, load_external_data=False).graph
    except Exception as error:
        raise DataError(f"{file} is no ONNX file ({error})") from error
    weights = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    if len(inputs) != 1 or not graph.output:
        raise BackendError(
            f"{file} has {len(inputs)} inputs and {len(graph.output)} outputs; an image classifier "
            "with one input is needed"
        )
    if inputs[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise BackendError(f"{file} takes no float32; export it with a float32 input")
    _require_input(file, _shape(inputs[0]), (height, width))
    given = _shape(graph.output[0])
    if given and (len(given) != 2 or given[1] not in (None, classes)):
        raise BackendError(
            f"{file} gives outputs of {_told(given)}, and the data has {classes} classes"
        )


def _require_input(file: Path, taken: list[int | None], size: tuple[int, int]) -> None:
    wanted = (3, *size)
    if len(taken) == 4 and taken[3] == 3 and taken[1] != 3:
        raise BackendError(
            f"{file} takes {_told(taken)}: channels last; export it with channels first"
        )
    fits = len(taken) == 4 and all(
        has in (None, want) for has, want in zip(taken[1:], wanted, strict=True)
    )
    if not fits:
        raise BackendError(
            f"{file} takes inputs of {_told(taken)}, and the path gives "
            f"{_told([None, *wanted])}; change the path's size, or export the model again"
        )
    if taken[0] not in (None, 1):
        raise BackendError(
            f"{file} takes batches of exactly {taken[0]}; export it with a free first dimension"
        )


def _shape(value: Any) -> list[int | None]:
    dimensions = value.type.tensor_type.shape.dim
    return [each.dim_value if each.HasField("dim_value") else None for each in dimensions]


def _told(shape: list[int | None]) -> str:
    return "x".join("?" if each is None else str(each) for each in shape)
