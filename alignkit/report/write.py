"""A run's record → its report on disk, in the form that was asked for."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alignkit.errors import ConfigError, RecordError
from alignkit.record import Artifact, RunRecord, WorstImage
from alignkit.report.form import ReportOptions, megabytes

_ASSETS = ("report.css", "viewer.css", "report.js", "report.js.LICENSES")
SINGLE = "report.html"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report, as it lies on disk."""

    page: Path
    bytes: int
    """Of the page and, where a limit was set, all that it shows."""
    left_out: int
    """Image pairs that did not fit."""


def write_report(folder: Path, form: ReportOptions, out: Path | None = None) -> WrittenReport:
    """Write the report of the run in ``folder``, there or, with what it shows, to ``out``.

    Raises `RecordError` if ``record.json`` or a file it names is missing or damaged, `ConfigError`
    if the report is greater than allowed even without images, and `WorkspaceError` if it cannot be
    written.
    """
    from alignkit.record.document import read_record

    record = read_record(folder)
    wanted = form.chosen(record.worst)
    while True:
        files = _files(record, folder, wanted, form, away=out is not None)
        total = sum(map(len, files.values()))
        if form.limit is None:
            break
        total += _pictures_bytes(wanted, folder, form)
        if total <= form.limit:
            break
        if not wanted:
            raise ConfigError(
                f"the report is {megabytes(total)} without a single image, more than "
                f"{megabytes(form.limit)}; allow more with --max-report-size"
            )
        wanted = _fewer(wanted, total - form.limit, folder, form)
    if out is not None and not form.single_file:
        files = {path: _read(folder, path) for path in _named(wanted)} | files
    elif out is not None:
        files = {out.name: files[SINGLE]}
    page = _store(files, _target(folder, form, out))
    return WrittenReport(page, total, len(form.chosen(record.worst)) - len(wanted))


def _target(folder: Path, form: ReportOptions, out: Path | None) -> Path:
    if out is None:
        return folder
    return out.parent if form.single_file else out


def _store(files: dict[str, bytes], target: Path) -> Path:
    from alignkit.workspace import write_atomically

    for path, content in files.items():
        write_atomically(target / path, content)
    return target / next(reversed(files))


def _fewer(
    wanted: Sequence[WorstImage], excess: int, folder: Path, form: ReportOptions
) -> tuple[WorstImage, ...]:
    """Without as many of the least bad images, of all pairs of paths in turn, as free the room."""
    kept = list(wanted)
    freed = 0
    while kept and freed < excess:
        pairs = [(each.reference, each.candidate) for each in kept]
        longest = max(dict.fromkeys(pairs), key=pairs.count)
        last = kept.pop(len(pairs) - 1 - pairs[::-1].index(longest))
        freed += _pictures_bytes([last], folder, form)
        freed += _inlined_bytes([last], folder) if form.single_file else 0
    return tuple(kept)


def _pictures_bytes(images: Sequence[WorstImage], folder: Path, form: ReportOptions) -> int:
    """Of the files beside the page; a single file has none."""
    if form.single_file:
        return 0
    return sum(len(_read(folder, path)) for path in _named(images))


def _inlined_bytes(images: Sequence[WorstImage], folder: Path) -> int:
    named = dict.fromkeys(each.path for image in images for each in _shown(image))
    return sum(len(_read(folder, path)) * 4 // 3 for path in named)


def _shown(image: WorstImage) -> tuple[Artifact, ...]:
    return image.a, image.b, image.difference


def _named(images: Sequence[WorstImage]) -> tuple[str, ...]:
    """Every file that the images' cards and the viewer load, once."""
    every = (each for image in images for each in (*_shown(image), image.pixels))
    return tuple(dict.fromkeys(each.path for each in every if each is not None))


def _files(
    record: RunRecord,
    folder: Path,
    wanted: Sequence[WorstImage],
    form: ReportOptions,
    *,
    away: bool,
) -> dict[str, bytes]:
    """Everything that is made here, by its path; the page comes last."""
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.summary_view import summary_view
    from alignkit.report.templates import markdown
    from alignkit.report.viewer_data import viewer_script

    images = [_inlined(each, folder) for each in wanted] if form.single_file else wanted
    shown = record.model_copy(update={"worst": tuple(images)})
    if form.single_file:
        style = "".join(_asset(name).decode() for name in _ASSETS[:2])
        inline = {"style": style, "script": _asset("report.js").decode()}
        return {SINGLE: _page(shown, record, folder, inline=inline, away=True)}
    data = viewer_script(shown, folder)
    files = {f"assets/{name}": _asset(name) for name in _ASSETS}
    if data:
        files["data/run.js"] = data.encode()
    files["results.json"] = results_text(results_from_record(record)).encode()
    files["summary.md"] = markdown("summary.md.j2", summary=summary_view(record)).encode()
    files["index.html"] = _page(shown, record, folder, has_viewer=bool(data), away=away)
    return files


def _page(
    shown: RunRecord,
    record: RunRecord,
    folder: Path,
    *,
    has_viewer: bool = False,
    inline: dict[str, str] | None = None,
    away: bool,
) -> bytes:
    from alignkit.report.distribution_view import distribution_sections
    from alignkit.report.reference_view import packed_references
    from alignkit.report.templates import html, trusted
    from alignkit.report.view import report_view
    from alignkit.text.names import Names

    names = Names(record.paths)
    return html(
        "index.html.j2",
        report=report_view(shown),
        references=packed_references(record, names),
        distributions=distribution_sections(record, names, folder),
        has_viewer=has_viewer,
        inline={name: trusted(text) for name, text in inline.items()} if inline else None,
        away=away,
        pictures=(len(shown.worst), len(record.worst)),
    ).encode()


def _asset(name: str) -> bytes:
    from importlib.resources import files

    return files("alignkit.report").joinpath("assets", name).read_bytes()


def _inlined(image: WorstImage, folder: Path) -> WorstImage:
    update = {
        name: Artifact(path=_data_uri(folder, each), sha256=each.sha256)
        for name, each in zip(("a", "b", "difference"), _shown(image), strict=True)
    }
    return image.model_copy(update=update)


def _data_uri(folder: Path, artifact: Artifact) -> str:
    return "data:image/png;base64," + base64.b64encode(_read(folder, artifact.path)).decode()


def _read(folder: Path, path: str) -> bytes:
    try:
        return (folder / path).read_bytes()
    except FileNotFoundError:
        raise RecordError(
            f"{folder / path} is missing, which record.json names; copy the whole folder of the run"
        ) from None
