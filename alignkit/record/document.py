"""Reading and writing of `record.json`."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from alignkit.errors import RecordError
from alignkit.record import FORMAT, RunRecord
from alignkit.workspace import write_atomically


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write ``record.json`` into a run's folder, atomically, and return its path."""
    path = folder / "record.json"
    write_atomically(path, record.model_dump_json(indent=1))
    return path


def read_record(folder: Path) -> RunRecord:
    """Read a run's record, upgraded to this format.

    Raises `RecordError` if it is missing, damaged or of a newer format.
    """
    path = folder if folder.is_file() else folder / "record.json"
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        raise RecordError(
            f"no record.json in {folder}; give the folder of a finished run"
        ) from None
    except (ValueError, OSError) as error:
        raise RecordError(f"{path} cannot be read ({error}); run the experiment again") from None
    found = stored.get("format") if isinstance(stored, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise RecordError(
            f"{path} has format {found}, this alignkit reads up to {FORMAT}; update alignkit"
        )
    try:
        return RunRecord.model_validate(stored)
    except ValidationError as error:
        raise RecordError(f"{path} is damaged: {error.errors()[0]['msg']}; run it again") from None
