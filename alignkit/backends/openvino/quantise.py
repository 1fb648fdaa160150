"""Post-training quantisation of a graph for OpenVINO, by NNCF."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError
from alignkit.plugins import Plugin
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

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
        # nncf prints progress bars, and stdout is for data
        with quiet(TORCH_EXTENSIONS), redirect_stdout(StringIO()):
            made = nncf.quantize(graph, single, subset_size=len(images))
    except (RuntimeError, nncf.ValidationError) as error:
        raise BackendError(f"NNCF cannot quantise the graph: {refusal(error)}") from error
    openvino.save_model(made, folder / "model.xml", compress_to_fp16=False)
