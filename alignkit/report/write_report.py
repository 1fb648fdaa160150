"""A run's record → its report on disk, in the form that the command line's options ask for."""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import ConfigError
from alignkit.record import Artifact, RunRecord, WorstImage
from alignkit.record.artifacts import shown_bytes, write_inside
from alignkit.record.document import read_record
from alignkit.stored_file import write_output

SINGLE_FILE_BYTES = 15_000_000
SINGLE_FILE_IMAGES = 20
_Read: TypeAlias = Callable[[Artifact], bytes]
"""Gives the bytes of a picture or array, verified."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The form of a report; by default the whole in a folder."""

    single_file: bool = False
    images: int | None = None
    """Most image pairs shown of each pair of paths; ``None`` for all that the run kept."""
    max_bytes: int | None = None
    """Of the page and all that it shows."""

    def chosen(self, worst: Sequence[WorstImage]) -> list[WorstImage]:
        """Choose the images to show: of each pair of paths the worst, in the record's order."""
        most = self.images
        if most is None and self.single_file:
            pairs = len({(each.reference, each.candidate) for each in worst})
            # over all pairs of paths, but one of each at least
            most = max(1, SINGLE_FILE_IMAGES // max(pairs, 1))
        seen: Counter[tuple[str, str]] = Counter()
        kept = []
        for each in worst:
            pair = each.reference, each.candidate
            seen[pair] += 1
            if most is None or seen[pair] <= most:
                kept.append(each)
        return kept

    @property
    def limit(self) -> int | None:
        """Bytes; a single file is limited even if nothing was said: it is to be sent."""
        return self.max_bytes or (SINGLE_FILE_BYTES if self.single_file else None)


def form(*, single_file: bool, images: str, max_report_size: str) -> ReportOptions:
    """Parse the options' text; raises `ConfigError` for a text that is not one of their forms."""
    return ReportOptions(
        single_file=single_file,
        images=_images(images),
        max_bytes=_bytes(max_report_size) if max_report_size else None,
    )


def _images(text: str) -> int | None:
    if text in {"", "all"}:
        return None
    if text == "none":
        return 0
    match = re.fullmatch(r"worst:([0-9]+)", text)
    if not match:
        raise ConfigError(f"--images {text}: write none, worst:N (for example worst:20) or all")
    return int(match[1])


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?B?)", text.upper())
    if not match or match[2] in {"K", "M", "G"}:
        raise ConfigError(f"--max-report-size {text}: write a number with KB, MB or GB, e.g. 100MB")
    size = int(float(match[1]) * _UNITS[match[2]])
    if not size:
        raise ConfigError("--max-report-size 0: a report cannot be empty; give it some room")
    return size


def megabytes(size: int) -> str:
    """``1.9 MB``."""
    return f"{size / 10**6:.1f} MB" if size >= 10**5 else f"{size / 1000:.1f} KB"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report, as it lies on disk."""

    page: Path
    bytes: int
    """Of the page and, where a limit was set, all that it shows."""
    left_out: int
    """Image pairs that did not fit."""
    files: tuple[str, ...] = ()
    """Paths of what was made, below its folder."""


def write_report(folder: Path, options: ReportOptions, out: Path | None = None) -> WrittenReport:
    """Write the report of the run in ``folder``, there or, with what it shows, to ``out``.

    Raises `RecordError` if ``record.json`` or a file it names is missing or damaged, `ConfigError`
    if the report is greater than allowed even without images, and `WorkspaceError` if it cannot be
    written there.
    """
    record = read_record(folder)
    wanted = chosen = options.chosen(record.worst)
    load = partial(shown_bytes, folder)
    # with these a picture is read more than once; without, none is kept in memory
    read: _Read = cache(load) if out or options.limit is not None else load
    # a page that only links its pictures is safe to open as well; one that is missing harms nobody
    for each in _named(chosen):
        if os.path.lexists(folder / each.path):
            read(each)
    while True:
        files = _files(record, folder, wanted, options, read, away=out is not None)
        total = sum(map(len, files.values()))
        if options.limit is None:
            break
        total += _pictures_bytes(wanted, read, options)
        if total <= options.limit:
            break
        if not wanted:
            raise ConfigError(
                f"the report is {megabytes(total)} without a single image, more than "
                f"{megabytes(options.limit)}; allow more with --max-report-size"
            )
        # the page itself shrinks with its images by an unknown size, so that it is made again
        wanted = _fewer(wanted, total - options.limit, read, options)
    page = next(reversed(files))  # the page is made last
    target = out or folder
    if out and options.single_file:
        write_output(out, files[page])
        return WrittenReport(out, total, len(chosen) - len(wanted))
    if out:
        files = {each.path: read(each) for each in _named(wanted)} | files
    for path, content in files.items():
        write_inside(target, path, content)
    return WrittenReport(target / page, total, len(chosen) - len(wanted), tuple(files))


def _fewer(
    wanted: Sequence[WorstImage], excess: int, read: _Read, options: ReportOptions
) -> list[WorstImage]:
    """Drop as many of the least bad images, of all pairs of paths in turn, as free the room."""
    kept = list(wanted)
    freed = 0
    while kept and freed < excess:
        pairs = [(each.reference, each.candidate) for each in kept]
        # of equal ones the first, so that the choice is stable
        longest = max(dict.fromkeys(pairs), key=pairs.count)
        last = kept.pop(len(pairs) - 1 - pairs[::-1].index(longest))
        freed += _pictures_bytes([last], read, options)
        if options.single_file:
            inlined = dict.fromkeys(_shown(last))
            freed += sum(len(read(each)) * 4 // 3 for each in inlined)  # as base64
    return kept


def _pictures_bytes(images: Sequence[WorstImage], read: _Read, options: ReportOptions) -> int:
    """Count the bytes of the files beside the page; a single file has none."""
    if options.single_file:
        return 0
    return sum(len(read(each)) for each in _named(images))


def _shown(image: WorstImage) -> tuple[Artifact, ...]:
    return image.a, image.b, image.difference


def _named(images: Sequence[WorstImage]) -> tuple[Artifact, ...]:
    """List every file that the images' cards and the viewer load, once."""
    every = (each for image in images for each in (*_shown(image), image.pixels))
    return tuple(dict.fromkeys(each for each in every if each is not None))


def _files(
    record: RunRecord,
    folder: Path,
    wanted: Sequence[WorstImage],
    options: ReportOptions,
    read: _Read,
    *,
    away: bool,
) -> dict[str, bytes]:
    """Make everything that is made here, by its path; the page comes last."""
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.summary_view import summary_view
    from alignkit.report.templates import PAGE_ASSETS, asset, markdown
    from alignkit.report.viewer_data import viewer_script

    images = [_inlined(each, read) for each in wanted] if options.single_file else wanted
    shown = record.model_copy(update={"worst": tuple(images)})
    if options.single_file:
        style = "".join(asset(name).decode() for name in ("report.css", "viewer.css"))
        inline = {"style": style, "script": asset("report.js").decode()}
        return {"report.html": _page(shown, record, folder, inline=inline, away=True)}
    data = viewer_script(shown, folder)
    files = {f"assets/{name}": asset(name) for name in PAGE_ASSETS}
    if data:  # without it the page links no viewer
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
    from alignkit.report.page_view import page_view
    from alignkit.report.reference_view import packed_references
    from alignkit.report.templates import html, trusted
    from alignkit.text.names import Names

    names = Names(record.paths)
    return html(
        "index.html.j2",
        report=page_view(shown),
        references=packed_references(record, names),
        distributions=distribution_sections(record, names, folder),
        has_viewer=has_viewer,
        inline={name: trusted(text) for name, text in inline.items()} if inline else None,
        away=away,
        pictures=(len(shown.worst), len(record.worst)),
    ).encode()


def _inlined(image: WorstImage, read: _Read) -> WorstImage:
    """Return the image with its pictures in ``data:`` URIs instead of files."""

    def inlined(artifact: Artifact) -> Artifact:
        text = base64.b64encode(read(artifact)).decode()
        return artifact.model_copy(update={"path": f"data:image/png;base64,{text}"})

    pictures = {name: inlined(getattr(image, name)) for name in ("a", "b", "difference")}
    return image.model_copy(update=pictures)
