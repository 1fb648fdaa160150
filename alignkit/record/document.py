"""Reading and writing of `record.json`, and reading of any stored document that has a format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from alignkit.errors import AlignkitError, RecordError
from alignkit.record import RunRecord
from alignkit.record.stored import Stored
from alignkit.workspace import write_atomically

Document = TypeVar("Document", bound=Stored)


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write ``record.json`` into a run's folder, atomically, and return its path."""
    path = folder / "record.json"
    write_atomically(path, record.model_dump_json(indent=1))
    return path


def read_record(folder: Path) -> RunRecord:
    """Read a run's record, upgraded to this format.

    Raises `RecordError` if it is missing, damaged or of a newer format.
    """
    path = folder if folder.is_file() else folder / "record.json"  # a user may name the file itself
    missing = f"no record.json in {folder}; give the folder of a finished run"
    return stored_document(path, RunRecord, missing=missing, again="run the experiment again")


def existing(folder: Path, path: str) -> Path:
    """Find a file that a run's record names; raises `RecordError` if it is not in ``folder``."""
    file = folder / path
    if not file.is_file():
        raise RecordError(
            f"{file} is missing, which record.json names; copy the whole folder of the run"
        )
    return file


def stored_document(
    path: Path, model: type[Document], *, missing: str, again: str = "make it again"
) -> Document:
    """Read a JSON file of a type whose fields ``format`` and, if any, ``kind`` tell it apart.

    Raises `RecordError` if it is missing (with the words of ``missing``), unreadable (with
    ``again`` as the next step), of another kind, of a newer format or damaged.
    """
    try:
        stored: Any = json.loads(path.read_text())  # the format is checked before any field
    except FileNotFoundError:
        raise RecordError(missing) from None
    except (ValueError, OSError) as error:  # no JSON, no UTF-8, no right to read
        raise RecordError(f"{path} cannot be read ({error}); {again}") from None
    fields = stored if isinstance(stored, dict) else {}
    kind = model.model_fields.get("kind")
    if kind is not None and fields.get("kind") != kind.default:
        raise RecordError(f"{path} is not a record of alignkit {kind.default}")
    # "damaged" would mislead who only has to update
    refuse_newer(path, fields.get("format"), model, RecordError)
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        raise RecordError(f"{path} is damaged: {error.errors()[0]['msg']}; run it again") from None


def refuse_newer(
    path: Path, found: object, model: type[Stored], error: type[AlignkitError]
) -> None:
    """Raise ``error`` if a format is above the one that the model is of."""
    own = model.model_fields["format"].default
    if isinstance(found, int) and found > own:
        raise error(f"{path} has format {found}, this alignkit reads up to {own}; update alignkit")
