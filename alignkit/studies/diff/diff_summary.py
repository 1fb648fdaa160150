"""`DiffRecord` → text for a terminal: coverage, stages of each pair, kinds, the worst, the cause.

At most 50 lines: with many candidates, each gets fewer details.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TypeAlias

from alignkit.compare.image_table import LAST
from alignkit.record import PixelStage
from alignkit.record.diff_document import DiffRecord, ImageDrift, PairDiff
from alignkit.report.diff_page import (
    APART,
    SUBSAMPLING,
    kind_table,
    kinds_of,
    moved_table,
    stages_alone,
)
from alignkit.report.run_view import coverage_tables, coverage_words
from alignkit.report.stage_view import planes_table
from alignkit.report.table import Table
from alignkit.text.column import Fact, of_part
from alignkit.text.diff_words import (
    NO_MODEL,
    causes_words,
    images_words,
    input_words,
    matter_words,
    prediction_lines,
)
from alignkit.text.names import Names, surrogate_lines
from alignkit.text.numbers import DASH

LINES = 50
_MOST_IMAGES = 4
"""Of a table of images that were not decoded."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Number of lines for each candidate."""

    rows: int
    """Of a table of kinds or images."""
    tables: bool = True
    brief: bool = False
    """Whether most causes, known effects and all but the number of flips are left out."""


DETAILS = (
    Detail(7),
    Detail(3),
    Detail(1),
    Detail(0),
    Detail(0, brief=True),
    Detail(0, tables=False, brief=True),
)


def diff_summary(record: DiffRecord) -> str:
    """Return text without colour, in lines as wide as their content."""
    for detail in DETAILS:  # the first that fits is the most detailed
        lines = _lines(record, detail)
        if len(lines) <= LINES:
            return "\n".join(lines)
    return "\n".join([*lines[: LINES - 1], "… see --out html=DIR for the rest"])


def _lines(record: DiffRecord, detail: Detail) -> list[str]:
    lines = [images_words(record), *_coverage(record)]
    lines += surrogate_lines(record.paths, brief=False)
    for pair in record.pairs:
        lines += ["", *_pair(pair, detail, record)]
        stressed = [(each.name, other) for each in record.stress for other in each.pairs]
        lines += [
            f"{name}: {other.sentence}"
            for name, other in stressed
            if other.candidate == pair.candidate and other.sentence
        ]
    if record.model and any(pair.predictions for pair in record.pairs):
        lines += ["", input_words(record.model, record.paths[0])]
    if any(NO_MODEL in pair.matter for pair in record.pairs):
        lines += ["", f"does it matter: {NO_MODEL}"]
    return lines


def _coverage(record: DiffRecord) -> Iterator[str]:
    told = record.coverage, record.coverage_diffs, Names(record.paths)
    yield coverage_words(*told)
    ended, images, one_sided = coverage_tables(*told)
    left = images.first(_MOST_IMAGES)[1]
    yield from [*ended.text(), *images.text(_MOST_IMAGES), *filter(None, [left])]
    yield from one_sided.text()


def _pair(pair: PairDiff, detail: Detail, record: DiffRecord) -> list[str]:
    if pair.state == "skipped":
        return [f"{pair.candidate}: skipped, {pair.reason}"]
    lines = [f"{pair.candidate} against {pair.reference}: {pair.sentence}"]
    if not pair.compared:
        return lines
    tables = [*_tables(pair, detail.rows)] if detail.tables else []
    told: list[str] = []
    if pair.predictions and record.model and not detail.brief:
        told = prediction_lines(pair.predictions, record.model, record.task)
        if detail.rows:
            tables.append(stages_alone(pair.predictions, record.task).text())
        tables.append(moved_table(pair.predictions, record.task).text(detail.rows))
    ending = causes_words(pair)[: 2 if detail.brief else None]
    # effects known of other stacks are a comparison, and the first to be left out
    if pair.predictions or not detail.brief:
        ending += matter_words(pair)
    shown = [*chain(*tables), *told, *ending]
    return [*lines, *(f"  {each}" for each in shown)]


def _tables(pair: PairDiff, most: int) -> Iterator[list[str]]:
    """Yield the lines of the tables that the page has too, with fewer columns and rows."""
    stages: dict[str, dict[str, PixelStage]] = {}
    for stage in pair.stages:
        stages.setdefault(stage.stage, {})[stage.mode] = stage
    # the last pixels stay beside those that differ by themselves: they are what a model sees
    shown = [
        modes
        for name, modes in stages.items()
        if modes["isolated"].differs or (name == LAST and modes["cumulative"].differs)
    ]
    yield Table.made("", _STAGES, shown).text()
    yield planes_table(pair.planes).text()
    kinds = kinds_of(pair)
    turned = ["orientation"] * ("orient" in (pair.first, pair.largest))
    for dimension in (SUBSAMPLING, *turned):
        table = kind_table(dimension, kinds.get(dimension, ()), further=False)
        yield table.text(most)
        yield [left] if most and (left := table.first(most)[1]) else []
    yield Table.made("", _WORST, pair.worst).text(most)


def _stage(modes: _Modes) -> str:
    name = modes["isolated"].stage
    return f"{name}, in units" if name == "normalise" else name


def _or_dash(value: float | None) -> float | str:
    """Return what only some have, which needs no reason."""
    return DASH if value is None else value


_Modes: TypeAlias = dict[str, PixelStage]
_ENDS: tuple[Fact[PixelStage], ...] = (
    Fact("p99.9", lambda each: _or_dash(None if each.shapes_alone else each.p99_9), "value"),
    Fact("SSIM", lambda each: _or_dash(None if each.shapes_alone else each.ssim), "levels", 4),
)


def _of_mode(mode: str) -> Iterator[Fact[_Modes]]:
    heads = (f"{mode} mean", "max", "px differing")
    for column, head in zip(APART, heads, strict=True):
        yield column.of(itemgetter(mode), head=head)


_STAGES: tuple[Fact[_Modes], ...] = (
    Fact("Stage, in levels", _stage),
    *_of_mode("isolated"),
    *_of_mode("cumulative"),
    *of_part(_ENDS, itemgetter("cumulative")),
)
_WORST: tuple[Fact[ImageDrift], ...] = (
    Fact("Worst images", attrgetter("id")),
    Fact("Chroma", lambda each: each.kinds[SUBSAMPLING]),
    Fact("Mean Δ", attrgetter("mean_abs"), "levels"),
    Fact("Max Δ", attrgetter("max_abs"), "levels", 0),
    Fact("Decode alone", lambda each: _or_dash(each.decode_mean_abs), "levels"),
    Fact("SSIM", lambda each: _or_dash(each.ssim), "levels", 3),
)
