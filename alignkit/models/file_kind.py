"""The kind of a model's file, by its first bytes and its archive's names; nothing is loaded."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Literal
from zipfile import BadZipFile, ZipFile

from alignkit.stored_file import open_regular

FileKind = Literal[
    "empty", "cut", "weights", "torchscript", "exported", "onnx", "safetensors", "page", "pointer",
    "keras", "tflite", "other",
]  # fmt: skip
"""``weights`` is any other archive of ``torch.save``, ``cut`` the beginning of an archive."""

_WRITERS = {"weights": "torch.save", "torchscript": "torch.jit", "exported": "torch.export"}
_HEAD = 4096
_SAFETENSORS = 100_000_000
"""Bytes of a header: the format's own limit."""
_GIVE = {
    "weights": "it is a file of torch.save; give it as 'weights', with its 'model'",
    "torchscript": "it is a TorchScript file; give it as 'torchscript'",
    "exported": "it is an archive of torch.export; give it as 'exported'",
    "onnx": "it is an ONNX file; give it as 'onnx'",
    "safetensors": "it is a safetensors file; convert it: "
    "torch.save(safetensors.torch.load_file(FILE), 'weights.pt')",
    "page": "it is a web page, as a failed download leaves it; fetch the file again",
    "pointer": "it is a pointer of Git LFS; fetch the file: git lfs pull",
    "keras": "it is an HDF5 file, as Keras writes it; export the model to ONNX",
    "tflite": "it is a TensorFlow Lite file; convert the model to ONNX",
    "empty": "it is empty: a download or copy was cut; fetch it again",
}


def kind_of(file: Path) -> FileKind:
    """Return the kind of a file; raise `OSError` if it cannot be read."""
    with open_regular(file) as opened:
        head = opened.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _archive(file)
    signs: dict[FileKind, bool] = {
        "empty": not head,
        "page": head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")),
        "pointer": head.startswith(b"version https://git-lfs"),
        "keras": head.startswith(b"\x89HDF\r\n\x1a\n"),
        "tflite": head[4:8] == b"TFL3",
        # the size of its header, and the header
        "safetensors": head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= _SAFETENSORS,
        # an ONNX file begins with its field 1, a small version; a pickle with another byte
        "onnx": head[:1] == b"\x08" and head[1:2] < b"@",
    }
    return next((kind for kind, found in signs.items() if found), "other")


def _archive(file: Path) -> FileKind:
    try:
        with ZipFile(file) as archive:
            names = [name.partition("/")[2] or name for name in archive.namelist()]
    except (BadZipFile, OSError, ValueError):
        return "cut"
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        return "torchscript"
    exported = ("archive_format", "serialized_exported_program.json")
    return "exported" if any(name in exported for name in names) else "weights"


def mistaken(file: Path, wanted: FileKind) -> str:
    """Say that a file is of another kind than ``wanted``, and the next step; empty if unknown.

    Raise `OSError` if it cannot be read.
    """
    kind = kind_of(file)
    if kind == "cut":
        size = file.stat().st_size
        return f"it ends after {size} bytes: a download or copy was cut; fetch it again"
    return "" if kind == wanted else _GIVE.get(kind, "")


def damage(file: Path, error: Exception, wanted: FileKind) -> str:
    """Explain why torch cannot read a file that should be of a kind: the next step."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return f"it cannot be read ({error.strerror})"
    if reason := mistaken(file, wanted):
        return reason
    writer = _WRITERS[wanted]
    # of a file that is no archive, torch's text advises to load it unsafely
    reason = f"no file of {writer}"
    if kind_of(file) == wanted:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"it is damaged ({reason}); fetch it again, or save it with {writer}"
