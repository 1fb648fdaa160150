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
from alignkit.record import Artifact, RunRecord, ShownImage, Thumbnail
from alignkit.record.document import read_record, shown_bytes, write_inside
from alignkit.report.shown_view import FOLDED, SEEN_OF_OTHERS
from alignkit.stored_file import write_output
from alignkit.text.numbers import byte_count, megabytes

SINGLE_FILE_BYTES = 15_000_000
SINGLE_FILE_IMAGES = 20
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
        most = self.images
        if most is None and self.single_file:
            groups = len({_group(each) for each in shown})
            # over all pairs of paths and reasons, but one of each at least
            most = max(1, SINGLE_FILE_IMAGES // max(groups, 1))
        if most is not None and self.single_file:
            most = min(most, SEEN_OF_OTHERS + FOLDED)  # cards of a group; there is no list
        seen: Counter[tuple[str, ...]] = Counter()
        kept = []
        for each in shown:
            seen[_group(each)] += 1
            if most is None or seen[_group(each)] <= most:
                kept.append(each)
        return kept

    def thumbnails(self, record: RunRecord) -> tuple[Thumbnail, ...]:
        """Choose the small pictures of neighbours: none with ``--images none``."""
        return () if self.images == 0 else record.thumbnails

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
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigError(f"--images {text}: write none, a number (for example 20) or all")
    return int(text)


def _bytes(text: str) -> int:
    size = byte_count(text)
    if size is None:
        raise ConfigError(f"--max-report-size {text}: write a number with KB, MB or GB, e.g. 100MB")
    if not size:
        raise ConfigError("--max-report-size 0: a report cannot be empty; give it some room")
    return size


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
    wanted = chosen = options.chosen(record.shown)
    thumbnails = options.thumbnails(record)
    load = partial(shown_bytes, folder)
    # with these a picture is read more than once; without, none is kept in memory
    read: _Read = cache(load) if out or options.limit is not None else load
    # a page that only links its pictures is safe to open as well; one that is missing harms nobody
    for each in _named(chosen, thumbnails):
        if os.path.lexists(folder / each.path):
            read(each)
    while True:
        files = _files(record, folder, wanted, thumbnails, options, read, away=out is not None)
        total = sum(map(len, files.values()))
        if options.limit is None:
            break
        total += _pictures_bytes(_named(wanted, thumbnails), read, options)
        if total <= options.limit:
            break
        # the page itself shrinks with its images by an unknown size, so that it is made again
        if thumbnails:  # first, as the lists that they stand in have names
            thumbnails = ()
        else:
            _check_any(wanted, total, options.limit)
            wanted = _fewer(wanted, total - options.limit, read, options)
    page = next(reversed(files))  # the page is made last
    target = out or folder
    if out and options.single_file:
        write_output(out, files[page])
        return WrittenReport(out, total, len(chosen) - len(wanted))
    if out:
        files = {each.path: read(each) for each in _named(wanted, thumbnails)} | files
    for path, content in files.items():
        write_inside(target, path, content)
    return WrittenReport(target / page, total, len(chosen) - len(wanted), tuple(files))


def _check_any(wanted: Sequence[ShownImage], total: int, limit: int) -> None:
    if not wanted:
        raise ConfigError(
            f"the report is {megabytes(total)} without a single image, more than "
            f"{megabytes(limit)}; allow more with --max-report-size"
        )


def _fewer(
    wanted: Sequence[ShownImage], excess: int, read: _Read, options: ReportOptions
) -> list[ShownImage]:
    """Drop the last images, of all pairs of paths and reasons in turn, until the room is free."""
    kept = list(wanted)
    freed = 0
    # entries may name the same files
    entries = Counter(file for each in wanted for file in set(each.artifacts))
    while kept and freed < excess:
        groups = [_group(each) for each in kept]
        # of equal ones the first, so that the choice is stable
        longest = max(dict.fromkeys(groups), key=groups.count)
        last = kept.pop(len(groups) - 1 - groups[::-1].index(longest))
        if options.single_file:
            inlined = dict.fromkeys(_shown(last))
            freed += sum(len(read(each)) * 4 // 3 for each in inlined)  # as base64
            continue
        files = set(last.artifacts)
        entries.subtract(files)
        freed += sum(len(read(each)) for each in files if not entries[each])
    return kept


def _distinct(images: Sequence[ShownImage]) -> int:
    """Count images by pair of paths; one that is shown for two reasons has two entries."""
    return len({(each.reference, each.candidate, each.id) for each in images})


def _group(image: ShownImage) -> tuple[str, ...]:
    return image.reference, image.candidate, image.why


def _pictures_bytes(pictures: Sequence[Artifact], read: _Read, options: ReportOptions) -> int:
    """Count the bytes of the files beside the page; a single file has none."""
    if options.single_file:
        return 0
    return sum(len(read(each)) for each in pictures)


def _shown(image: ShownImage) -> tuple[Artifact, ...]:
    return *image.pictures, *image.masks


def _named(
    images: Sequence[ShownImage], thumbnails: Sequence[Thumbnail] = ()
) -> tuple[Artifact, ...]:
    """List every file that the images' cards, the viewer and lists of neighbours load, once."""
    of_images = (each for image in images for each in image.artifacts)
    return tuple(dict.fromkeys((*of_images, *(each.picture for each in thumbnails))))


def _files(
    record: RunRecord,
    folder: Path,
    wanted: Sequence[ShownImage],
    thumbnails: Sequence[Thumbnail],
    options: ReportOptions,
    read: _Read,
    *,
    away: bool,
) -> dict[str, bytes]:
    """Make everything that is made here, by its path; the page comes last."""
    from alignkit.report.page import page_html
    from alignkit.report.page_text import page_markdown
    from alignkit.report.page_view import SUMMARY, run_page
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.templates import PAGE_ASSETS, asset
    from alignkit.report.viewer_data import viewer_script

    shown = record.model_copy(update={"shown": tuple(wanted), "thumbnails": tuple(thumbnails)})
    page = partial(run_page, shown, folder, stored=_distinct(record.shown))
    if options.single_file:
        html = page_html(page(viewer=False, away=True, single_file=True), style=True, script=True)
        return {"report.html": _embedded(html, _named(wanted, thumbnails), read).encode()}
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
