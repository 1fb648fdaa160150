"""An ONNX graph and the files beside it in which exporters may keep its weights.

Backends take the bytes of one file, so such a graph is joined with its weights once.
"""

from __future__ import annotations

from pathlib import Path

from alignkit.errors import DataError
from alignkit.models.onnx_header import OnnxHeader, read_onnx_header
from alignkit.stored_file import file_sha256
from alignkit.workspace import Workspace

_LARGEST = 2**31
"""Bytes of weights in one file: protobuf's limit for a message."""


def missing_weights(file: Path, header: OnnxHeader) -> list[str]:
    """Name each file in which the graph keeps weights, and which is not there."""
    return [
        f"{file} keeps its weights in {location}, which is not beside it; move both together"
        for location in header.beside
        if not (file.parent / location).is_file()
    ]


def weights_beside(file: Path) -> dict[str, str]:
    """Map each file in which the graph keeps weights to its SHA-256; empty if it holds its own.

    Raise `DataError` if one of them is not there, or the file is no ONNX file.
    """
    header = read_onnx_header(file)
    for reason in missing_weights(file, header):
        raise DataError(reason)
    return {location: file_sha256(file.parent / location) for location in header.beside}


def in_one_file(file: Path, workspace: Workspace) -> Path:
    """Return the file, or, if its weights lie beside it, a stored file with all of them.

    Raise `DataError` if one file cannot hold the weights, or they cannot be read.
    """
    import onnx

    beside = weights_beside(file)
    if not beside:
        return file
    size = sum((file.parent / each).stat().st_size for each in beside)
    if size > _LARGEST:
        raise DataError(
            f"{file} has {size / 2**30:.1f} GiB of weights; backends take graphs of one file, "
            f"which holds at most {_LARGEST / 2**30:g} GiB"
        )

    def put_together(folder: Path) -> None:
        try:
            onnx.save(onnx.load(file), graph_in(folder))
        except Exception as error:
            raise DataError(f"{file}: its weights cannot be read ({error})") from error

    parts = {"graph": file_sha256(file), "weights": beside}
    label = f"put {file.name} together"
    return workspace.keep("exports", parts, label, put_together, graph_in)


def graph_in(folder: Path) -> Path:
    """Return the file of a stored graph."""
    return folder / "model.onnx"
