"""``--out KIND=PATH``: files of a comparison besides the terminal's text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean

if TYPE_CHECKING:
    from alignkit.record.pixel_diff import DiffRecord
    from alignkit.studies.diff import DiffRequest

OUTPUT_KINDS = ("json", "html")


@dataclass(frozen=True, slots=True)
class DiffOutput:
    """One file or folder to write."""

    kind: str
    """One of `OUTPUT_KINDS`."""
    path: Path
    """A file for ``json``, a folder for ``html``."""


def outputs_of(texts: Sequence[str]) -> tuple[DiffOutput, ...]:
    """Parse ``json=drift.json`` and the like; raises `ConfigError` for any other text."""
    found = []
    for text in texts:
        kind, equals, path = text.partition("=")
        if kind not in OUTPUT_KINDS:
            raise ConfigError(f"--out {text}: no kind {kind!r}{did_you_mean(kind, OUTPUT_KINDS)}")
        if not equals or not path:
            raise ConfigError(f"--out {text}: write it as {kind}=PATH")
        found.append(DiffOutput(kind, Path(path)))
    return tuple(found)


def write_outputs(
    outputs: Sequence[DiffOutput], record: DiffRecord, request: DiffRequest
) -> list[Path]:
    """Write each and return the files. Raises `WorkspaceError` if one cannot be written."""
    from alignkit.record.pixel_diff import write_diff_record
    from alignkit.report.diff_page import render_diff
    from alignkit.studies.diff.pictures import with_pictures

    written = []
    for output in outputs:
        if output.kind == "json":
            write_diff_record(record, output.path)
            written.append(output.path)
        else:
            shown = with_pictures(record, request, output.path)
            write_diff_record(shown, output.path / "record.json")
            written.append(render_diff(output.path))
    return written
