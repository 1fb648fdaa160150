"""A run's record → its report on disk, in the form that the command line's options ask for.

``report.json`` beside the page says what it was made of, so that the report of a run is written
again only if its record, its form, our code or a file changed.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import ConfigError
from alignkit.record import Artifact, RunRecord, ShownImage
from alignkit.record.document import read_record, shown_bytes, write_inside
from alignkit.report.shown_view import FOLDED, SEEN_OF_OTHERS
from alignkit.stored_file import (
    DamagedError,
    file_sha256,
    read_sealed,
    sealed,
    write_atomically,
    write_output,
)
from alignkit.text.numbers import byte_count, megabytes
from alignkit.version import ALL_LAYERS, code_version
from alignkit.workspace import content_key

SINGLE_FILE_BYTES = 15_000_000
SINGLE_FILE_IMAGES = 20
_KEPT = "report.json"
_Read: TypeAlias = Callable[[Artifact], bytes]
"""Gives the bytes of a picture or array, verified."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The form of a report; by default the whole in a folder."""

    single_file: bool = False
    images: int | None = None
    """Most shown of each pair of paths for each reason; ``None`` for all that the run kept."""
    max_bytes: int | None = None
    """Of the page and all that it shows."""

    def chosen(self, shown: Sequence[ShownImage]) -> list[ShownImage]:
        """Choose the images to show: of each pair of paths and reason the first of the record."""
        most = len(shown) if self.images is None else self.images
        if self.single_file:
            groups = len({_group(each) for each in shown})
            # over all pairs of paths and reasons, but one of each at least
            shared = max(1, SINGLE_FILE_IMAGES // max(groups, 1))
            # no more than a group has cards: there is no list
            most = min(shared if self.images is None else most, SEEN_OF_OTHERS + FOLDED)
        seen: Counter[tuple[str, ...]] = Counter()
        kept = []
        for each in shown:
            seen[_group(each)] += 1
            if seen[_group(each)] <= most:
                kept.append(each)
        return kept

    @property
    def limit(self) -> int | None:
        """Bytes; a single file is limited even if nothing was said: it is to be sent."""
        return self.max_bytes or (SINGLE_FILE_BYTES if self.single_file else None)

    def files_of(self, image: ShownImage) -> tuple[Artifact, ...]:
        """Return the files of an image that the report has: one file has no viewer of pixels."""
        return (*image.pictures, *image.masks) if self.single_file else image.artifacts


def form(*, single_file: bool, images: str, max_report_size: str) -> ReportOptions:
    """Parse the options' text; raises `ConfigError` for a text that is not one of their forms."""
    if not re.fullmatch(r"|all|none|[0-9]{1,9}", images):
        raise ConfigError(f"--images {images}: write none, a number (for example 20) or all")
    most = None if images in ("", "all") else 0 if images == "none" else int(images)
    if not max_report_size:
        return ReportOptions(single_file, most)
    size = byte_count(max_report_size)
    if size is None:
        wanted = "write a number with KB, MB or GB, e.g. 100MB"
        raise ConfigError(f"--max-report-size {max_report_size}: {wanted}")
    if not size:
        raise ConfigError("--max-report-size 0: a report cannot be empty; give it some room")
    return ReportOptions(single_file, most, size)


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


# Three fifths of the time of a run whose work is all stored were its page.
def kept_report(folder: Path, options: ReportOptions) -> WrittenReport:
    """Return the report of the run in ``folder``, whose record was verified; write it if need be.

    Raises what `write_report` raises.
    """
    key = content_key(
        {
            "record": file_sha256(folder / "record.json"),
            "options": asdict(options),
            "code": code_version(ALL_LAYERS),
            "libraries": [metadata.version(name) for name in ("jinja2", "numpy")],
        }
    )
    if (found := _found(folder, key)) is not None:
        return found
    written = write_report(folder, options)
    facts = {
        "key": key,
        "page": written.page.name,
        "bytes": written.bytes,
        "left_out": written.left_out,
        "files": {path: file_sha256(folder / path) for path in written.files},
    }
    write_atomically(folder / _KEPT, sealed(json.dumps(facts, indent=1) + "\n"))
    return written


def _found(folder: Path, key: str) -> WrittenReport | None:
    """Read what is said of the report there; ``None`` if it is another one or not as written."""
    try:
        facts = json.loads(read_sealed(folder / _KEPT))
        files = facts["files"].items()
        if facts["key"] != key or any(file_sha256(folder / path) != at for path, at in files):
            return None
    except (OSError, DamagedError):
        return None
    return WrittenReport(folder / facts["page"], facts["bytes"], facts["left_out"])


def write_report(folder: Path, options: ReportOptions, out: Path | None = None) -> WrittenReport:
    """Write the report of the run in ``folder``, there or, with what it shows, to ``out``.

    Raises `RecordError` if ``record.json`` or a file it names is missing or damaged, `ConfigError`
    if the report is greater than allowed even without images, and `WorkspaceError` if it cannot be
    written there.
    """
    record = read_record(folder)
    chosen = options.chosen(record.shown)
    thumbnails = () if options.images == 0 else record.thumbnails
    whole = record.model_copy(update={"shown": tuple(chosen), "thumbnails": thumbnails})
    load = partial(shown_bytes, folder)
    # with these a picture is read more than once; without, none is kept in memory
    read: _Read = cache(load) if out or options.limit is not None else load
    # a page that only links its pictures is safe to open as well; one that is missing harms nobody
    for each in _named(whole):
        if os.path.lexists(folder / each.path):
            read(each)
    made = partial(_files, record, folder=folder, options=options, read=read, away=out is not None)
    shown, files, total = _fitting(whole, made, options, read)
    page, left = next(reversed(files)), len(chosen) - len(shown.shown)  # the page is made last
    if out and options.single_file:
        write_output(out, files[page])
        return WrittenReport(out, total, left)
    if out:
        files = {each.path: read(each) for each in _named(shown)} | files
    for path, content in files.items():
        write_inside(out or folder, path, content)
    return WrittenReport((out or folder) / page, total, left, tuple(files))


def _fitting(
    shown: RunRecord,
    made: Callable[[RunRecord], dict[str, bytes]],
    options: ReportOptions,
    read: _Read,
) -> tuple[RunRecord, dict[str, bytes], int]:
    """Leave out images until the report keeps its limit; return what is shown, its files and size.

    The page shrinks with its images by an unknown size, so that it is made again.
    """
    while True:
        files = made(shown)
        total = sum(map(len, files.values()))
        if options.limit is None:
            return shown, files, total
        if not options.single_file:
            total += sum(len(read(each)) for each in _named(shown))
        if total <= options.limit:
            return shown, files, total
        if shown.thumbnails:  # first, as the lists that they stand in have names
            shown = shown.model_copy(update={"thumbnails": ()})
        elif shown.shown:
            fewer = _fewer(shown.shown, total - options.limit, read, options)
            shown = shown.model_copy(update={"shown": tuple(fewer)})
        else:
            raise ConfigError(
                f"the report is {megabytes(total)} without a single image, more than "
                f"{megabytes(options.limit)}; allow more with --max-report-size"
            )


def _fewer(
    shown: Sequence[ShownImage], excess: int, read: _Read, options: ReportOptions
) -> list[ShownImage]:
    """Drop the last images, of all pairs of paths and reasons in turn, until the room is free."""

    def size(images: Sequence[ShownImage]) -> int:
        # entries may name the same files
        files = {file for each in images for file in options.files_of(each)}
        total = sum(len(read(each)) for each in files)
        return total * 4 // 3 if options.single_file else total  # as base64

    kept, room = list(shown), size(shown) - excess
    while kept and size(kept) > room:
        groups = [_group(each) for each in kept]
        # of equal ones the first, so that the choice is stable
        longest = max(dict.fromkeys(groups), key=groups.count)
        del kept[len(groups) - 1 - groups[::-1].index(longest)]
    return kept


def _group(image: ShownImage) -> tuple[str, ...]:
    return image.reference, image.candidate, image.why


def _named(record: RunRecord) -> tuple[Artifact, ...]:
    """List every file that the images' cards, the viewer and lists of neighbours load, once."""
    of_images = (file for image in record.shown for file in image.artifacts)
    return tuple(dict.fromkeys((*of_images, *(each.picture for each in record.thumbnails))))


def _files(
    record: RunRecord,
    shown: RunRecord,
    *,
    folder: Path,
    options: ReportOptions,
    read: _Read,
    away: bool,
) -> dict[str, bytes]:
    """Make everything that is made here, by its path; the page comes last.

    ``shown`` is the record with as many of its images as the report has.
    """
    from alignkit.report.page import page_html
    from alignkit.report.page_text import page_markdown
    from alignkit.report.page_view import SUMMARY, run_page
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.templates import PAGE_ASSETS, asset
    from alignkit.report.viewer_data import viewer_script

    # an image that is shown for two reasons has two entries
    stored = len({(each.reference, each.candidate, each.id) for each in record.shown})
    page = partial(run_page, shown, folder, stored=stored)
    if options.single_file:
        html = page_html(page(viewer=False, away=True, single_file=True), style=True, script=True)
        return {"report.html": _embedded(html, _named(shown), read).encode()}
    data = viewer_script(shown, folder)
    files = {f"assets/{name}": asset(name) for name in PAGE_ASSETS}
    if data:  # without it the page links no viewer
        files["data/run.js"] = data.encode()
    files["results.json"] = results_text(results_from_record(record)).encode()
    whole = page(viewer=bool(data), away=away, single_file=False)
    files["summary.md"] = page_markdown(whole, *SUMMARY).encode()
    files["index.html"] = page_html(whole).encode()
    return files


def _embedded(html: str, pictures: Sequence[Artifact], read: _Read) -> str:
    """Put the pictures of a page into it, wherever it loads one."""
    known = {each.path: each for each in pictures}

    def inline(found: re.Match[str]) -> str:
        text = base64.b64encode(read(known[found[2]])).decode()
        return f'{found[1]}"data:image/png;base64,{text}"'

    paths = "|".join(map(re.escape, known))
    return re.sub(f'((?:src|href)=)"({paths})"', inline, html) if known else html
