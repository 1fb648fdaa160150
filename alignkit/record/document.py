"""Reading and writing of stored documents, of which `record.json` is the first.

Every document that alignkit reads back begins with its seal; see `alignkit.stored_file`. A file
beside a record is read only if it lies in the run's folder and is what was written: the folder may
come from a stranger, so that a path of its record may name any file, link or device of this
machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from alignkit.errors import AlignkitError, DamagedRecord, RecordError, WorkspaceError
from alignkit.limits import ARRAY_BYTES, PICTURE_BYTES, InputLimit
from alignkit.record import RunRecord
from alignkit.record.picture_facts import is_picture, is_pixel_script
from alignkit.record.stored import Artifact, Stored
from alignkit.stored_file import (
    DamagedError,
    NoSealError,
    file_sha256,
    read_bytes,
    read_regular,
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
            _refuse_other(path, model)
        raise DamagedRecord(f"{path} is damaged: {error}", again) from None
    except ValidationError as error:
        _refuse_other(path, model, again)
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise DamagedRecord(f"{path} is damaged ({place}: {wrong['msg']})", again) from None


def _refuse_other(path: Path, model: type[Stored], again: str = "") -> None:
    """Raise `RecordError` for a document that is whole, but of another kind or format.

    An older one, which must have a seal, is refused with its own command or ``again``.
    """
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
    if again and isinstance(found, int) and found < own:
        command = fields.get("command")
        step = f"make it again: {command}" if command else again
        raise DamagedRecord(f"{path} has format {found}, this alignkit reads {own}", step)


def refuse_newer(
    path: Path, found: object, model: type[Stored], error: type[AlignkitError]
) -> None:
    """Raise ``error`` if a format is above the one that the model is of."""
    own = model.model_fields["format"].default
    if isinstance(found, int) and found > own:
        raise error(f"{path} has format {found}, this alignkit reads up to {own}; update alignkit")


_Read = TypeVar("_Read")


def artifact_file(folder: Path, artifact: Artifact, *, most: InputLimit = ARRAY_BYTES) -> Path:
    """Return the path of a file that a record names, verified.

    Raises `DamagedRecord` if it is not a regular file inside ``folder``, is beyond the
    limit ``most`` or has other content.
    """
    return _verified(folder, artifact, lambda file: (file_sha256(file, most), file))


def _verified(folder: Path, artifact: Artifact, read: Callable[[Path], tuple[str, _Read]]) -> _Read:
    """Read a file inside the folder, and compare the SHA-256 that ``read`` returns too."""
    file, inside = _place(folder, artifact.path)
    if not inside:
        raise DamagedRecord(f"{file} leads out of the run's folder", RUN_AGAIN)
    try:
        digest, content = read(file)
    except FileNotFoundError:
        raise DamagedRecord(
            f"{file} is missing, which record.json names", f"copy the whole folder, or {RUN_AGAIN}"
        ) from None
    except OSError as error:
        raise DamagedRecord(f"{file} cannot be read ({error.strerror})", RUN_AGAIN) from None
    if digest != artifact.sha256:
        raise DamagedRecord(f"{file} is not as alignkit wrote it", RUN_AGAIN)
    return content


def shown_bytes(folder: Path, artifact: Artifact) -> bytes:
    """Read a picture, or the script of a picture's exact pixels, that a page will load.

    Raises `DamagedRecord` for whatever else the record names, since a browser would open or run it.
    """

    def read(file: Path) -> tuple[str, bytes]:
        data = read_regular(file, PICTURE_BYTES)
        return hashlib.sha256(data).hexdigest(), data

    data = _verified(folder, artifact, read)
    if not (is_picture(artifact.path, data) or is_pixel_script(artifact.path, data)):
        raise DamagedRecord(f"{folder / artifact.path} is no picture of alignkit's", RUN_AGAIN)
    return data


def write_inside(folder: Path, path: str, content: bytes | str) -> None:
    """Write a file below a folder, atomically; raises `WorkspaceError` if a link leads out of it.

    The folder may be a stranger's, and its ``data`` a link to one of the reader's.
    """
    _, inside = _place(folder, path)
    if not inside:
        raise WorkspaceError(f"{folder / path} leads out of {folder}; write elsewhere: --out DIR")
    write_atomically(folder / path, content)


def verify_artifacts(folder: Path, record: RunRecord) -> None:
    """Raise `DamagedRecord` if any file that a run's record names is not what was written."""
    for each in dict.fromkeys(artifacts_of(record)):
        artifact_file(folder, each)


def _place(folder: Path, path: str) -> tuple[Path, bool]:
    """Return a file below a folder, and whether it is there after every link."""
    file = folder / path
    return file, Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


# A record has one way in: a new file beside it is an `Artifact` that is listed here, and is read
# through `artifact_file` or `shown_bytes`.
def artifacts_of(record: RunRecord) -> Iterator[Artifact]:
    """Yield every file that a run's record names, some more than once."""
    for cell in record.cells:
        if cell.predictions:
            yield cell.predictions
    for training in record.trainings:
        yield from training.files
    for table in record.images:
        yield table.table
    for image in record.shown:
        yield from image.artifacts
    for thumbnail in record.thumbnails:
        yield thumbnail.picture
    if record.stages:
        yield record.stages
    if record.cell_table:
        yield record.cell_table
