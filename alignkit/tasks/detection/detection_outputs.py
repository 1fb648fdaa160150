"""The format of a detector's outputs: chosen by names and shapes, or by the task's ``outputs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.errors import BackendError, ConfigError
from alignkit.tasks.detection.box_formats import (
    BoxFormat,
    DetrFormat,
    EndToEndFormat,
    TorchvisionFormat,
    UltralyticsFormat,
    Yolov5Format,
)
from alignkit.tasks.one_output import described

if TYPE_CHECKING:
    from alignkit.tasks import Outputs, OutputShape

BOX_FORMATS: dict[str, BoxFormat] = {
    "torchvision": TorchvisionFormat(),
    "detr": DetrFormat(),
    # before the other format of one output, which (n, 6, 6) would fit
    "end-to-end": EndToEndFormat(),
    "ultralytics": UltralyticsFormat(),
    "yolov5": Yolov5Format(),
}
_BY_NAME = "yolov5"
"""The format that is never guessed: exports of YOLOX have its shape, and boxes in other units."""
ONE_OUTPUT = ("ultralytics", "end-to-end", _BY_NAME)
"""Formats of one output, between which only its sides decide."""
_MOST_ROWS = 1000
"""Rows of an end-to-end model: they are its boxes, by default 300."""
_ANCHORS = 63
"""YOLOv5's anchors of 32x32 pixels: three in each place of three scales."""


def recognised(outputs: Sequence[OutputShape], asked: str) -> tuple[str, tuple[str, ...]]:
    """Return the first format that fits, and its outputs; ``asked`` is ``auto`` or a format.

    Raise `ConfigError` if none does.
    """
    for name in _tried(asked):
        if found := BOX_FORMATS[name].find(outputs):
            if name != asked and (reason := _unsure(name, outputs[0].shape)):
                raise ConfigError(f"its output ({described(outputs)}) {reason}")
            return name, found
    if _open(outputs):
        if asked in ONE_OUTPUT:  # the first batch shows whether it fits
            return asked, (outputs[0].name,)
        raise ConfigError(
            f"its file leaves the sides of its output open ({described(outputs)}); name its format "
            f"as the task's 'outputs': {', '.join(ONE_OUTPUT)}, or declare them by "
            "onnx.shape_inference.infer_shapes(model, data_prop=True)"
        )
    other = asked == "auto" and BOX_FORMATS[_BY_NAME].find(outputs)
    raise ConfigError(
        f"its outputs ({described(outputs)}) are none that detection can decode; "
        + f"if it is YOLOv5's, write the task's 'outputs: {_BY_NAME}'; or " * bool(other)
        + f"export it with {expected(asked)}"
    )


def _tried(asked: str) -> tuple[str, ...]:
    """Return the formats that outputs are compared with, the first that fits is theirs."""
    if asked != "auto":
        return (asked,)
    return tuple(name for name in BOX_FORMATS if name != _BY_NAME)


def _unsure(name: str, shape: tuple[int | None, ...] | None) -> str:
    """Say that rows of six numbers may be YOLOv5's of one class; empty if they are not."""
    rows = shape[1] if name == "end-to-end" and shape else None
    if rows is None or (rows <= _MOST_ROWS and rows % _ANCHORS):
        return ""
    return (
        f"has {rows} rows of six numbers, boxes of an end-to-end model or YOLOv5's anchors of one "
        f"class; name its format as the task's 'outputs': end-to-end or {_BY_NAME}"
    )


def _open(outputs: Sequence[OutputShape]) -> bool:
    """Tell whether there is one output, of a shape that may be either of `ONE_OUTPUT`."""
    shape = outputs[0].shape if len(outputs) == 1 else ()
    return shape is None or (len(shape) == 3 and shape[1:] == (None, None))


def expected(asked: str) -> str:
    """Describe all formats, or the one that was asked for."""
    names = _tried(asked)
    return "; or ".join(f"{BOX_FORMATS[name].words} ({name})" for name in names)


def format_of(shapes: Sequence[tuple[int, ...]], asked: str) -> BoxFormat:
    """Return the format of a batch's outputs; raise `BackendError` if none fits."""
    for name in _tried(asked):
        if BOX_FORMATS[name].fits(shapes):
            if name != asked and (reason := _unsure(name, shapes[0])):
                raise BackendError(f"its output {reason}")
            return BOX_FORMATS[name]
    given = ", ".join(map(str, shapes))
    raise BackendError(f"its outputs are of shape {given}, expected {expected(asked)}")


def require_images(outputs: Outputs, images: int) -> None:
    """Raise `BackendError` if the outputs' first axis is not that of the images."""
    if any(each.shape[:1] != (images,) for each in outputs):
        given = ", ".join(str(each.shape) for each in outputs)
        raise BackendError(
            f"its outputs for {images} images are of shape {given}; the first side must be that "
            "of the images. Export it for one image (an input of 1x3xHxW), or for batches"
        )
