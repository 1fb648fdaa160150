"""The page of `alignkit tolerance`, from its document alone; whole without a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.compare.statistics import exact_interval
from alignkit.record.artifacts import write_inside
from alignkit.record.tolerance_facts import (
    LineCheck,
    LogitTolerance,
    PixelTolerance,
    SeedCurve,
    ToleranceDocument,
)
from alignkit.report.charts import Frame, Line, Whisker, nice_ticks
from alignkit.report.table import Notes, RowCells, Shown, Table, facts, numbers
from alignkit.report.templates import asset, html, trusted
from alignkit.stored_file import write_output
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import DASH, TIMES, count, grouped, percent, points, significant
from alignkit.text.tolerance_words import (
    CELL_COLUMNS,
    CURVE_COLUMNS,
    cell_row,
    counted_once,
    curve_row,
    limits_words,
    reasons_of,
    why_no_atol,
)

_MARKS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """A share, or a metric's change, along multiples of a difference."""

    frame: Frame
    lines: tuple[Line, ...]
    """With the network's own points as whiskers."""
    bands: tuple[str, ...] = ()
    """Of each line its pointwise 95 % intervals, as SVG ``points``."""
    level: float | None = None
    """Where the budget, or zero, lies."""
    limit: float | None = None
    """Where the least limit lies."""


def write_tolerance(found: ToleranceDocument, target: Path) -> Path:
    """Write the page as one file (``.html``), or into a folder with its document; returns it."""
    page = tolerance_page(found)
    if target.suffix == ".html":
        write_output(target, page)
        return target
    write_inside(target, "tolerance.json", found.model_dump_json(indent=1) + "\n")
    write_inside(target, "index.html", page)
    return target / "index.html"


def tolerance_page(found: ToleranceDocument) -> str:
    """Render the page."""
    names = Names(found.paths)
    rows = list(dict.fromkeys(each.trained_with for each in found.logits))
    run = {
        "Run": f"{found.name}, {found.key[:12]}",
        "Predicted on": found.cpu,
        "Networks run between the paths on": found.checked_on or DASH,
        "alignkit": found.alignkit,
    }
    view = {
        "alignkit": found.alignkit,
        "title": f"How much difference the models of {found.name} bear",
        "budget": f"{100 * found.budget:g} %",
        "confidence": f"{100 * found.confidence:g} %",
        "notes": [*filter(None, [quick_words(found.quick), counted_once(found)])],
        "checked_on": found.checked_on,
        "names": [names.of(each.name) for each in found.paths],
        "outputs": [_outputs(each, names) for each in found.logits],
        "pixels": [
            _pixels(
                names.short(row), [e for e in found.pixels if e.trained_with == row], place, found
            )
            for place, row in enumerate(rows)
            if any(e.trained_with == row for e in found.pixels)
        ],
        "command": found.command,
        "run": facts("Run", run),
    }
    return html("tolerance.html.j2", report=view, style=trusted(asset("report.css").decode()))


def _outputs(row: LogitTolerance, names: Names) -> dict[str, Any]:
    trained, _, runtime = names.cells(row)
    notes = Notes()
    seeds = [
        (
            str(each.seed),
            Shown(grouped(each.images)),
            Shown(grouped(each.non_finite)),
            notes.number(each.limit.value, significant, each.limit.reason),
            notes.number(each.limit.changed, grouped, each.limit.reason),
            notes.number(each.limit.bound, lambda share: percent(share, 2), each.limit.reason),
        )
        for each in row.seeds
    ]
    return {
        "title": f"Trained with {trained}, {runtime}",
        "atol": f"--atol {row.atol:g} --rtol 0" if row.atol else "",
        "words": limits_words([each.limit for each in row.seeds]) if row.atol else why_no_atol(row),
        "cells": Table.of(
            "Other cells of the row",
            _heads(CELL_COLUMNS, 2),
            [cell_row(each, names) for each in row.cells],
        ),
        "seeds": Table.of(
            "Limits of the seeds",
            ("Seed", *numbers("Images", "Not finite", "Limit", "May change", "Share, at most")),
            seeds,
            notes=notes,
        ),
    }


def _heads(texts: Sequence[str], words: int) -> tuple[Any, ...]:
    """Return headers of columns, of which the first ``words`` are of text."""
    named = [each[:1].upper() + each[1:] for each in texts]
    # where a curve comes from is said in words
    last = named[-1:] if named[-1] == "The curve is" else []
    return (*named[:words], *numbers(*named[words : len(named) - len(last)]), *last)


def _pixels(
    trained: str, pairs: Sequence[PixelTolerance], place: int, found: ToleranceDocument
) -> dict[str, Any]:
    names = Names(found.paths)
    heads = _heads(("served with", *CURVE_COLUMNS), 1)
    return {
        "title": f"Trained with {trained}, {pairs[0].backend} {pairs[0].precision}",
        "table": Table.of(
            "Curves between the paths",
            heads,
            [(names.short(each.candidate), *curve_row(each)) for each in pairs],
        ),
        "pairs": [
            {
                "name": names.of(each.candidate),
                "reasons": reasons_of(each),
                "plots": _plots(each, f"pair-{place}-{at}", found),
                "points": _points_table(each, found),
                "checks": _checks_table(each),
            }
            for at, each in enumerate(pairs)
            if each.seeds
        ],
    }


def _plots(pair: PixelTolerance, id: str, found: ToleranceDocument) -> list[CurvePlot]:  # noqa: A002
    named = f"{pair.trained_with} to {pair.candidate}"
    title = f"Answers that change, %: {named}"
    plots = [share_plot(pair.seeds, f"{id}-share", title, found.budget, limit=pair.factor)]
    for name in found.task.matrices[:1]:
        if _has(pair.seeds, name):
            label = next((e.label for e in found.task.metrics if e.name == name), name)
            title = f"Δ {label}, pp: {named}"
            plots.append(_metric_plot(pair.seeds, name, f"{id}-metric", title))
    return plots


def share_plot(
    seeds: Sequence[SeedCurve],
    id: str,  # noqa: A002
    title: str,
    budget: float,
    *,
    limit: float | None = None,
) -> CurvePlot:
    """Draw each seed's share of changed answers in percent, with intervals as bands.

    The network's own points are whiskers on the line of their seed.
    """
    tops = [100 * each.high for seed in seeds for each in seed.points] or [1.0]
    tops += [_measured(each)[2] for seed in seeds for each in seed.checks]
    frame = _frame(id, title, nice_ticks(0.0, max(tops)))
    lines, bands = [], []
    for seed in seeds:
        middle = [(0.0, 0.0), *((e.factor, 100 * e.changed / e.images) for e in seed.points)]
        low = [(0.0, 0.0), *((e.factor, 100 * e.low) for e in seed.points)]
        top = [*((e.factor, 100 * e.high) for e in reversed(seed.points)), (0.0, 0.0)]
        whiskers = tuple(
            Whisker(frame.x(each.factor), *map(frame.y, _measured(each))) for each in seed.checks
        )
        lines.append(Line(_placed(frame, middle), f"seed {seed.seed}", whiskers))
        bands.append(_placed(frame, [*low, *top]))
    return CurvePlot(
        frame,
        tuple(lines),
        tuple(bands),
        level=frame.y(100 * budget),
        limit=None if limit is None else frame.x(limit),
    )


def _measured(check: LineCheck) -> tuple[float, float, float]:
    low, high = exact_interval(check.measured, check.images)
    return 100 * check.measured / check.images, 100 * low, 100 * high


def _metric_plot(seeds: Sequence[SeedCurve], name: str, id: str, title: str) -> CurvePlot:  # noqa: A002
    curves = {
        seed.seed: [(e.factor, 100 * e.metrics[name]) for e in seed.points if name in e.metrics]
        for seed in seeds
    }
    values = [0.0, *(value for curve in curves.values() for _, value in curve)]
    frame = _frame(id, title, nice_ticks(min(values), max(values)))
    lines = tuple(
        Line(_placed(frame, [(0.0, 0.0), *curve]), f"seed {seed}") for seed, curve in curves.items()
    )
    return CurvePlot(frame, lines, level=frame.y(0.0))


def _frame(id: str, title: str, y_marks: Sequence[float]) -> Frame:  # noqa: A002
    texts = [f"{each:g}{TIMES}" for each in _MARKS]
    return Frame(id, title, _MARKS, y_marks, "multiple of the difference", "", texts)


def _placed(frame: Frame, values: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{frame.x(x):g},{frame.y(y):g}" for x, y in values)


def _points_table(pair: PixelTolerance, found: ToleranceDocument) -> Table:
    names = [name for name in found.task.matrices if _has(pair.seeds, name)]
    labels = {each.name: each.label for each in found.task.metrics}
    heads = ("Images", "Changed", "Share", "95 % interval", "Worse", "Better")
    return Table.of(
        "Points of the curve",
        ("Seed", *numbers("Multiple", *heads, *(f"Δ {labels.get(e, e)}" for e in names))),
        list(_point_rows(pair.seeds, names)),
    )


def _has(seeds: Sequence[SeedCurve], name: str) -> bool:
    return any(name in each.metrics for seed in seeds for each in seed.points)


def _point_rows(seeds: Sequence[SeedCurve], names: Sequence[str]) -> Iterator[RowCells]:
    for seed in seeds:
        for each in seed.points:
            yield (
                str(seed.seed),
                f"{each.factor:g}{TIMES}",
                grouped(each.images),
                grouped(each.changed),
                percent(each.changed / each.images, 2),
                f"{percent(each.low, 2)} to {percent(each.high, 2)}",
                DASH if each.worse is None else grouped(each.worse),
                DASH if each.better is None else grouped(each.better),
                *(f"{points(each.metrics[e], 2)} pp" if e in each.metrics else DASH for e in names),
            )


def _checks_table(pair: PixelTolerance) -> Table | None:
    rows = [
        (
            str(seed.seed),
            f"{each.factor:g}{TIMES}",
            count(each.images, "image"),
            grouped(each.predicted),
            grouped(each.measured),
            grouped(each.only_predicted),
            grouped(each.only_measured),
            significant(each.p),
        )
        for seed in pair.seeds
        for each in seed.checks
    ]
    if not rows:
        return None
    heads = (
        "Multiple", "Images", "Changed by the curve", "By the network", "By the curve alone",
        "By the network alone", "p, adjusted",
    )  # fmt: skip
    return Table.of("The line beside the network", ("Seed", *numbers(*heads)), rows)
