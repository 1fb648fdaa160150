"""The document of a bench → its page beside it; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from alignkit.record.bench_facts import BenchRecord, LoaderRecord, TimedStudy
from alignkit.record.document import document_text, stored_document, write_inside
from alignkit.report.bench.bench_page import bench_page
from alignkit.report.bench.loaders_page import loaders_page
from alignkit.report.page import Page, write_page


class _Kind(NamedTuple):
    record: type[TimedStudy]
    page: Callable[..., Page]
    command: str


_KINDS = {
    "bench.json": _Kind(BenchRecord, bench_page, "bench FILE"),
    "loaders.json": _Kind(LoaderRecord, loaders_page, "bench FILE --loaders"),
}


def bench_file(folder: Path) -> Path | None:
    """Return the document of a bench, by its folder or its own path; ``None`` if it is no bench."""
    if folder.name in _KINDS:
        return folder
    return next((folder / each for each in _KINDS if (folder / each).exists()), None)


def render_bench(folder: Path, out: Path | None = None) -> Path:
    """Write ``index.html`` and ``assets/`` beside the document of a bench; return the page.

    With ``out`` they are written there, with a copy of the document. Raises `RecordError` if the
    document is missing or newer than this alignkit, `DamagedRecord` if it is not whole.
    """
    path = bench_file(folder) or folder / "bench.json"
    record = read_bench(folder)
    if out is not None:
        write_inside(out, path.name, document_text(record))
    return write_page(_KINDS[path.name].page(record, away=out is not None), out or path.parent)


def read_bench(folder: Path) -> TimedStudy:
    """Read a bench's record, by its folder or its own path; raises as `render_bench` does."""
    path = bench_file(folder) or folder / "bench.json"
    missing = f"no {path.name} in {path.parent}; give the folder of a finished bench"
    again = f"time it again: alignkit {_KINDS[path.name].command}"
    return stored_document(path, _KINDS[path.name].record, missing=missing, again=again)
