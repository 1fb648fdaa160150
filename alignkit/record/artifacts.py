"""Files beside a record: each is read only if it lies in the run's folder and is what was written.

A run's folder may come from a stranger, so that a path of its record may name any file, link or
device of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from alignkit.errors import DamagedRecord
from alignkit.record import RunRecord
from alignkit.record.document import RUN_AGAIN
from alignkit.record.stored import Artifact
from alignkit.workspace import file_sha256

GREATEST = 1 << 33
"""Bytes of a file: the logits of 100,000 images and 20,000 classes."""


def artifact_file(folder: Path, artifact: Artifact) -> Path:
    """Return the path of a file that a record names, verified.

    Raises `DamagedRecord` if it is not a regular file inside ``folder`` or has other content.
    """
    file = folder / artifact.path
    # of links as well: they could lead to any file of the reader
    inside = Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    if not inside:
        raise DamagedRecord(f"{file} leads out of the run's folder", RUN_AGAIN)
    if not file.exists():
        raise DamagedRecord(
            f"{file} is missing, which record.json names", f"copy the whole folder, or {RUN_AGAIN}"
        )
    # a pipe or a device would be read for ever
    if not file.is_file():
        raise DamagedRecord(f"{file} is not a file", RUN_AGAIN)
    if (size := file.stat().st_size) > GREATEST:
        raise DamagedRecord(f"{file} has {size} bytes, more than any file of a run", RUN_AGAIN)
    if file_sha256(file) != artifact.sha256:
        raise DamagedRecord(f"{file} is not as alignkit wrote it", RUN_AGAIN)
    return file


def verify_artifacts(folder: Path, record: RunRecord) -> None:
    """Raise `DamagedRecord` if any file that a run's record names is not what was written."""
    for each in dict.fromkeys(artifacts_of(record)):
        artifact_file(folder, each)


def artifacts_of(record: RunRecord) -> Iterator[Artifact]:
    """Yield every file that a run's record names, some more than once."""
    for cell in record.cells:
        if cell.predictions:
            yield cell.predictions
    for training in record.trainings:
        yield from training.files
    for table in record.images:
        yield table.table
    for image in record.worst:
        yield from (image.a, image.b, image.difference)
        if image.pixels:
            yield image.pixels
