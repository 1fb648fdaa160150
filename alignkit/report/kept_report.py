"""The report of a run, written again only if its record, its form, our code or a file changed.

``report.json`` beside the page says what it was made of, and has the SHA-256 of each file.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from alignkit.report.write_report import ReportOptions, WrittenReport, write_report
from alignkit.stored_file import DamagedError, file_sha256, read_sealed, sealed, write_atomically
from alignkit.version import ALL_LAYERS, code_version
from alignkit.workspace import content_key

_KEPT = "report.json"


# Three fifths of the time of a run whose work is all stored were its page.
def kept_report(folder: Path, options: ReportOptions) -> WrittenReport:
    """Return the report of the run in ``folder``, whose record was verified; write it if need be.

    Raises what `write_report` raises.
    """
    key = _key(folder, options)
    if (found := _found(folder, key)) is not None:
        return found
    written = write_report(folder, options)
    files = {path: file_sha256(folder / path) for path in written.files}
    facts = {
        "key": key,
        "page": written.page.name,
        "bytes": written.bytes,
        "left_out": written.left_out,
        "files": files,
    }
    write_atomically(folder / _KEPT, sealed(json.dumps(facts, indent=1) + "\n"))
    return written


def _key(folder: Path, options: ReportOptions) -> str:
    return content_key(
        {
            "record": file_sha256(folder / "record.json"),
            "options": asdict(options),
            "code": code_version(ALL_LAYERS),
            "libraries": [metadata.version(name) for name in ("jinja2", "numpy")],
        }
    )


def _found(folder: Path, key: str) -> WrittenReport | None:
    """Read what is said of the report there; ``None`` if it is another one or not as written."""
    try:
        facts = json.loads(read_sealed(folder / _KEPT))
        if facts["key"] != key:
            return None
        for path, digest in facts["files"].items():
            if file_sha256(folder / path) != digest:
                return None
    except (OSError, DamagedError):
        return None
    return WrittenReport(folder / facts["page"], facts["bytes"], facts["left_out"])
