"""Files beside a record: each is read only if it lies in the run's folder and is what was written.

A run's folder may come from a stranger, so that a path of its record may name any file, link or
device of this machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from alignkit.errors import DamagedRecord, WorkspaceError
from alignkit.limits import ARRAY_BYTES, PICTURE_BYTES, InputLimit
from alignkit.record import RunRecord
from alignkit.record.document import RUN_AGAIN
from alignkit.record.picture_facts import is_picture, is_pixel_script
from alignkit.record.stored import Artifact
from alignkit.stored_file import file_sha256, read_regular, write_atomically

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
