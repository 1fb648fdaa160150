"""Reading and writing of stored documents, of which `record.json` is the first.

Every document that alignkit reads back begins with its seal; see `alignkit.stored_file`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from alignkit.errors import AlignkitError, DamagedRecord, RecordError
from alignkit.record import RunRecord
from alignkit.record.stored import Stored
from alignkit.stored_file import (
    DamagedError,
    NoSealError,
    read_bytes,
    read_sealed,
    sealed,
    write_atomically,
)

Document = TypeVar("Document", bound=Stored)
RUN_AGAIN = "run the experiment again: it takes up its stored work"


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write ``record.json`` into a run's folder, atomically, and return its path."""
    path = folder / "record.json"
    write_atomically(path, document_text(record))
    return path


def document_text(document: Stored) -> str:
    """Return a document's JSON with its seal."""
    return sealed(document.model_dump_json(indent=1) + "\n")


def read_record(folder: Path) -> RunRecord:
    """Read a run's record.

    Raises `RecordError` if it is missing or of a newer format, `DamagedRecord` if it is damaged or
    of an older one, which only the run can make again.
    """
    path = folder if folder.is_file() else folder / "record.json"  # a user may name the file itself
    missing = f"no record.json in {folder}; give the folder of a finished run"
    return stored_document(path, RunRecord, missing=missing, again=RUN_AGAIN)


def stored_document(path: Path, model: type[Document], *, missing: str, again: str) -> Document:
    """Read a JSON file of a type whose fields ``format`` and, if any, ``kind`` tell it apart.

    Raises `RecordError` if it is missing (with the words of ``missing``), of another kind or of a
    newer format, and `DamagedRecord`, with ``again`` as the next step, if it is unreadable, has no
    seal, is not what was sealed, or has other fields.
    """
    try:
        return model.model_validate_json(read_sealed(path))
    except FileNotFoundError:
        raise RecordError(missing) from None
    except OSError as error:  # no right to read
        raise RecordError(f"{path} cannot be read ({error.strerror})") from None
    except DamagedError as error:
        if isinstance(error, NoSealError):
            _refuse_other(path, model, is_sealed=False)
        raise DamagedRecord(f"{path} is damaged: {error}", again) from None
    except ValidationError as error:
        _refuse_other(path, model, is_sealed=True)
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise DamagedRecord(f"{path} is damaged ({place}: {wrong['msg']})", again) from None


def _refuse_other(path: Path, model: type[Stored], *, is_sealed: bool) -> None:
    """Raise `RecordError` for a document that is whole, but of another kind or format."""
    try:
        stored = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        return
    fields = stored if isinstance(stored, dict) else {}
    kind = model.model_fields.get("kind")
    if kind is not None and fields.get("kind") != kind.default:
        raise RecordError(f"{path} is not a record of alignkit {kind.default}")
    # "damaged" would mislead who only has to update, or to run it again
    refuse_newer(path, fields.get("format"), model, RecordError)
    own, found = model.model_fields["format"].default, fields.get("format")
    if is_sealed and isinstance(found, int) and found < own:
        again = f"make it again: {fields.get('command') or RUN_AGAIN}"
        raise DamagedRecord(f"{path} has format {found}, this alignkit reads {own}", again)


def refuse_newer(
    path: Path, found: object, model: type[Stored], error: type[AlignkitError]
) -> None:
    """Raise ``error`` if a format is above the one that the model is of."""
    own = model.model_fields["format"].default
    if isinstance(found, int) and found > own:
        raise error(f"{path} has format {found}, this alignkit reads up to {own}; update alignkit")
