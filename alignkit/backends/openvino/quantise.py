"""Post-training quantisation of a graph for OpenVINO, by NNCF."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError
from alignkit.library_logs import TOOLKIT, quiet
from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch

NNCF = Plugin("", distributions=("nncf",), module="nncf", extra="nncf")


def quantise(onnx: Path, images: Batch, folder: Path) -> None:
    """Write ``model.xml`` and ``model.bin``: NNCF's ``quantize`` with its defaults but the images.

    ``images`` are (n, 3, height, width) float32, normalised. Raises `BackendError` if NNCF or
    OpenVINO cannot read or quantise the graph.
    """
    import nncf
    import openvino

    single = nncf.Dataset([image[None] for image in images])
    try:
        graph = openvino.Core().read_model(onnx)
        graph.reshape([-1, *images.shape[1:]])
        with quiet(TOOLKIT), redirect_stdout(StringIO()):  # progress bars; stdout is for data
            made = nncf.quantize(graph, single, subset_size=len(images))
    except (RuntimeError, nncf.ValidationError) as error:
        raise BackendError(f"NNCF cannot quantise the graph: {refusal(error)}") from error
    openvino.save_model(made, folder / "model.xml", compress_to_fp16=False)
