"""The page of `alignkit tolerance`, from its document alone; whole without a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
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
from alignkit.report.axis import Axis, Interval
from alignkit.report.marks import TONES, Dot, Line, PlotMark, RuleLine
from alignkit.report.plot import Plot
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

_MULTIPLES = Axis(
    name="multiple of the difference",
    ticks=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
    text=lambda mark: f"{mark:g}{TIMES}",
)


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
            _pixels(names.short(row), [e for e in found.pixels if e.trained_with == row], found)
            for row in rows
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
    trained: str, pairs: Sequence[PixelTolerance], found: ToleranceDocument
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
                "plots": _plots(each, found),
                "points": _points_table(each, found),
                "checks": _checks_table(each),
            }
            for each in pairs
            if each.seeds
        ],
    }


def _plots(pair: PixelTolerance, found: ToleranceDocument) -> list[Plot]:
    named = f"{pair.trained_with} to {pair.candidate}"
    plots = [share_plot(pair.seeds, named, found.budget, limit=pair.factor)]
    for name in found.task.matrices[:1]:
        if _has(pair.seeds, name):
            label = next((e.label for e in found.task.metrics if e.name == name), name)
            plots.append(_metric_plot(pair.seeds, name, f"Δ {label}, pp: {named}"))
    return plots


def share_plot(
    seeds: Sequence[SeedCurve], named: str, budget: float, *, limit: float | None = None
) -> Plot:
    """Draw each seed's share of changed answers in percent, with intervals as bands.

    The network's own points are circles with whiskers in the colour of their seed.
    """
    lines: list[PlotMark] = []
    checks: list[PlotMark] = []
    for seed, tone in zip(seeds, cycle(TONES), strict=False):
        curve = [
            (e.factor, Interval(100 * e.changed / e.images, 100 * e.low, 100 * e.high))
            for e in seed.points
        ]
        nothing = (0.0, Interval(0.0, 0.0, 0.0))
        lines.append(Line([nothing, *curve], tone, f"seed {seed.seed}"))
        checks += [Dot(e.factor, _measured(e), f"{tone} hollow") for e in seed.checks]
    rules = [RuleLine(y=100 * budget, dashed=True)]
    rules += [] if limit is None else [RuleLine(x=limit, dashed=True)]
    return _plot(f"Answers that change, %: {named}", [*rules, *lines, *checks])


def _measured(check: LineCheck) -> Interval:
    low, high = exact_interval(check.measured, check.images)
    return Interval(100 * check.measured / check.images, 100 * low, 100 * high)


def _metric_plot(seeds: Sequence[SeedCurve], name: str, title: str) -> Plot:
    lines: list[PlotMark] = [
        Line(
            [(0.0, 0.0), *((e.factor, 100 * e.metrics[name]) for e in seed.points)],
            tone,
            f"seed {seed.seed}",
        )
        for seed, tone in zip(seeds, cycle(TONES), strict=False)
    ]
    return _plot(title, [RuleLine(y=0.0, dashed=True), *lines])


def _plot(title: str, marks: list[PlotMark]) -> Plot:
    words = "The table below contains the numbers."
    return Plot(title=title, caption=title, x=_MULTIPLES, y=Axis(), marks=marks, words=words)


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
