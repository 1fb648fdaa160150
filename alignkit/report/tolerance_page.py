"""The page of `alignkit tolerance`, from its document alone; a terminal prints the same tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from alignkit.compare.statistics import exact_interval
from alignkit.record.document import write_inside
from alignkit.record.tolerance_facts import (
    CellReach,
    CurvePoint,
    Limit,
    LineCheck,
    LogitTolerance,
    PixelTolerance,
    SeedCurve,
    SeedLimit,
    ToleranceDocument,
)
from alignkit.report.axis import Axis, Interval
from alignkit.report.marks import TONES, Dot, Line, PlotMark, RuleLine
from alignkit.report.page import (
    Beside,
    Code,
    Details,
    Heading,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    page_html,
    sentence,
)
from alignkit.report.page_text import page_text
from alignkit.report.plot import Plot
from alignkit.report.table import Notes, RowCells, Table, facts, numbers
from alignkit.stored_file import write_output
from alignkit.text.column import Fact
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import (
    DASH,
    TIMES,
    copies_words,
    count,
    grouped,
    listed,
    percent,
)

_SHOWN = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the difference in the table of curves; the document has more."""
_OUTPUTS = (
    "A worst case, without an assumption: while the greatest |Δ| of an image's outputs is below "
    "its own limit, its answer cannot change. Beyond atol: images that fail a comparison with "
    "this tolerance; could change: images whose max |Δ| is not below their own limit; changed: "
    "another answer. A limit is the least of all seeds; shares are over all seeds."
)
_MULTIPLES = Axis(
    name="multiple of the difference",
    ticks=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
    text=lambda mark: f"{mark:g}{TIMES}",
)


def write_tolerance(found: ToleranceDocument, target: Path) -> Path:
    """Write the page as one file (``.html``), or into a folder with its document; returns it."""
    page = page_html(tolerance_page(found), style=True)
    if target.suffix == ".html":
        write_output(target, page)
        return target
    write_inside(target, "tolerance.json", found.model_dump_json(indent=1) + "\n")
    write_inside(target, "index.html", page)
    return target / "index.html"


def tolerance_text(found: ToleranceDocument) -> str:
    """Return the page's tables for a terminal."""
    return page_text(tolerance_page(found), "outputs", "pixels")


def tolerance_page(found: ToleranceDocument) -> Page:
    """Return the page of a document."""
    names, title = Names(found.paths), f"How much difference the models of {found.name} bear"
    run = {
        "Run": f"{found.name}, {found.key[:12]}",
        "Predicted on": found.cpu,
        "Networks run between the paths on": found.checked_on or DASH,
        "alignkit": found.alignkit,
    }
    asked = (
        f"At most {100 * found.budget:g} % of answers may change; {100 * found.confidence:g} % "
        "confidence is that of each limit by itself; one of pixels also rests on its curve"
    )
    copies = ""
    if found.copies:
        copies = f"{copies_words(found.copies, found.images)}, each counted once"
    notes = [asked, f"predicted on {found.cpu}", quick_words(found.quick), copies]
    outputs = [part for each in found.logits for part in _outputs(each, names)]
    return Page(
        f"{title} · alignkit tolerance",
        "tolerance",
        found.alignkit,
        PageVerdict(
            (title,),
            meta=" · ".join(filter(None, notes)),
            paths=[names.of(each.name) for each in found.paths],
        ),
        [
            Section("outputs", "Outputs", [Paragraph(_OUTPUTS, "lead"), *outputs]),
            _pixels(found, names),
            Section("provenance", "Provenance", [Code(found.command), facts("Run", run)]),
        ],
        f"Written by alignkit {found.alignkit} from the document of this command.",
    )


def _outputs(row: LogitTolerance, names: Names) -> Iterator[PagePart]:
    trained, _, runtime = names.cells(row)
    images = count(max(each.images for each in row.seeds), "image")
    yield Heading(f"Trained with {trained}, {runtime}: {images}, {count(len(row.seeds), 'seed')}")
    if row.atol:
        yield Code(f"polygraphy run … --atol {row.atol:g} --rtol 0")
        yield Paragraph(sentence(limits_words([each.limit for each in row.seeds])), "lead")
    else:
        tie = "more images than the budget bears stand at a limit already (a tie)"
        missing = (each.limit.reason for each in row.seeds if each.limit.value is None)
        yield Paragraph(f"No atol: {tie if row.atol is not None else next(missing)}.", "lead")
    if lost := sum(each.non_finite for each in row.seeds):
        said = f"{count(lost, 'answer')} with an output that is not finite; NaN bears no change."
        yield Paragraph(said, "lead")
    if row.cells:
        yield _cells(row.cells, names)
    yield Details("Limits of the seeds", [_seeds(row)])


def _cells(cells: Sequence[CellReach], names: Names) -> Table:
    def share(number: int | None, each: CellReach) -> float | None:
        return number / each.images if each.images and number is not None else None

    why = attrgetter("reason")
    columns: tuple[Fact[CellReach], ...] = (
        Fact("Served with", lambda each: names.cells(each)[1]),
        Fact("Runtime", lambda each: names.cells(each)[2]),
        Fact("Max |Δ|", lambda each: each.max_abs, "value", note=why),
        Fact("Beyond atol", lambda each: share(each.beyond, each), "share", 2, note=why),
        Fact("Could change", lambda each: share(each.could_change, each), "share", 2, note=why),
        Fact("Changed", lambda each: share(each.changed, each), "share", 2, note=why),
    )
    return Table.made("Other cells of the row", columns, cells)


def _seeds(row: LogitTolerance) -> Table:
    why = attrgetter("limit.reason")
    columns: tuple[Fact[SeedLimit], ...] = (
        Fact("Seed", lambda each: str(each.seed)),
        Fact("Images", lambda each: each.images, "count"),
        Fact("Not finite", lambda each: each.non_finite, "count"),
        Fact("Limit", lambda each: each.limit.value, "value", note=why),
        Fact("May change", lambda each: each.limit.changed, "count", note=why),
        Fact("Share, at most", lambda each: each.limit.bound, "share", 2, note=why),
    )
    return Table.made("Limits of the seeds", columns, row.seeds)


def limits_words(limits: Sequence[Limit]) -> str:
    """Say how the seeds' limits spread, and how many images they let change."""
    known = [each for each in limits if each.value is not None]
    values = [each.value for each in known if each.value is not None]
    counts = [each.changed for each in known if each.changed is not None]
    bounds = [each.bound for each in known if each.bound is not None]
    spread = f"seeds from {min(values):.3g} to {max(values):.3g}; " if len(values) > 1 else ""
    # seeds may have answered different numbers of images
    fewest = f"{grouped(min(counts))} to " if min(counts) < max(counts) else ""
    return (
        f"{spread}at most {fewest}{count(max(counts), 'image')} of this sample may change, "
        f"and of all images {percent(max(bounds), 2)}"
    )


def _pixels(found: ToleranceDocument, names: Names) -> Section:
    ran, drawn = "", ""
    if found.checked_on:
        ran = f", and behind a stroke by the network, run on {found.checked_on}"
        drawn = (
            "; circles with whiskers are the network's own answers, and where they contradict the "
            "line, the measured points alone are drawn"
        )
    lead = (
        f"From 0{TIMES}, the path of the training, to 1{TIMES}, the path served with. The line "
        f"takes outputs as linear between both ends{drawn}. Bands are pointwise "
        f"95\N{NO-BREAK SPACE}% intervals; dashed lines are the budget and the limit. Changed at a "
        f"multiple: by the curve{ran}; 1{TIMES} is measured. Pixels beyond 1{TIMES} are not "
        f"clipped, and no path makes them. Beyond 2{TIMES} no network was run: the line is "
        "continued."
    )
    rows = dict.fromkeys(each.trained_with for each in found.pixels)
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for row in rows:
        pairs = [each for each in found.pixels if each.trained_with == row]
        parts += _row(pairs, found, names)
    if not rows:
        parts = [Paragraph("No model was evaluated on a second path in its own runtime.")]
    return Section("pixels", "Pixels between two paths", parts, nav="Pixels")


def _row(
    pairs: Sequence[PixelTolerance], found: ToleranceDocument, names: Names
) -> Iterator[PagePart]:
    first = pairs[0]
    runtime = f"{first.backend} {first.precision}"
    yield Heading(f"Trained with {names.short(first.trained_with)}, {runtime}")
    yield curve_table(pairs, names)
    for each in pairs:
        # why parts are missing, each once
        reasons = [each.reason, *(e.reason or e.limit.reason for e in each.seeds)]
        for reason in dict.fromkeys(filter(None, reasons)):
            yield Paragraph(f"{names.short(each.candidate)}: {reason}.", "remark")
        if each.seeds:
            yield Heading(names.of(each.candidate), 4)
            yield Beside([[plot] for plot in _plots(each, found)])
            checks = [(seed, check) for seed in each.seeds for check in seed.checks]
            beside = [Table.made("The line beside the network", _CHECKS, checks)] * bool(checks)
            yield Details("In numbers", [_points_table(each, found), *beside])


def curve_table(pairs: Sequence[PixelTolerance], names: Names) -> Table:
    """Return how much of the difference to each path served with is within the budget."""
    notes = Notes()
    rows: list[RowCells] = []
    for each in pairs:
        least, reason = "≥ " if each.open_end else "", each.reason or "no seed has a limit"
        changed = [_changed_words(each.seeds, at) if each.seeds else DASH for at in _SHOWN]
        sources = list(dict.fromkeys(seed.source for seed in each.seeds))
        within = "none shown"
        if each.factor is not None:
            within = f"{least}{_rounded(each.factor)}{TIMES}"
        rows.append(
            (
                names.short(each.candidate),
                within if each.seeds else notes.missing(reason),
                DASH if each.levels is None else f"{least}{_rounded(each.levels)} of mean |Δ|",
                *changed,
                listed(sources) or DASH,
            )
        )
    heads = numbers(
        "Within budget up to", "In grey levels", *(f"Changed at {each:g}{TIMES}" for each in _SHOWN)
    )
    columns = ("Served with", *heads, "The curve is")
    return Table.of("Curves between the paths", columns, rows, notes=notes)


def _rounded(value: float) -> str:
    """Write three decimals, rounded down: a limit may not grow by its rounding."""
    return f"{math.floor(1000 * value) / 1000:.3f}"


def _changed_words(seeds: Sequence[SeedCurve], factor: float) -> str:
    """Give the line's share, and the network's behind a stroke; over all seeds."""
    checks = [check for each in seeds for check in each.checks if check.factor == factor]
    if checks:
        images = sum(each.images for each in checks)
        both = (sum(e.predicted for e in checks), sum(e.measured for e in checks))
        return " / ".join(percent(each / images) for each in both)
    reached = [point for each in seeds for point in each.points if point.factor == factor]
    return percent(sum(e.changed for e in reached) / sum(e.images for e in reached))


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
    lines: list[PlotMark] = []
    for seed, tone in zip(seeds, cycle(TONES), strict=False):
        known = [(e.factor, 100 * e.metrics[name]) for e in seed.points if name in e.metrics]
        lines.append(Line([(0.0, 0.0), *known], tone, f"seed {seed.seed}"))
    return _plot(title, [RuleLine(y=0.0, dashed=True), *lines])


def _plot(title: str, marks: list[PlotMark]) -> Plot:
    words = "The table below contains the numbers."
    return Plot(title=title, caption=title, x=_MULTIPLES, y=Axis(), marks=marks, words=words)


def _has(seeds: Sequence[SeedCurve], name: str) -> bool:
    return any(name in each.metrics for seed in seeds for each in seed.points)


def _points_table(pair: PixelTolerance, found: ToleranceDocument) -> Table:
    labels = {each.name: each.label for each in found.task.metrics}

    def change(name: str) -> Fact[_Point]:
        head, why = f"Δ {labels.get(name, name)}, pp", "one side does not define it"
        return Fact(head, lambda row: row[1].metrics.get(name), "points", note=why)

    columns = (*_POINT, *(change(e) for e in found.task.matrices if _has(pair.seeds, e)))
    rows = [(seed, point) for seed in pair.seeds for point in seed.points]
    return Table.made("Points of the curve", columns, rows)


_Point: TypeAlias = tuple[SeedCurve, CurvePoint]
_POINT: tuple[Fact[_Point], ...] = (
    Fact("Seed", lambda row: str(row[0].seed)),
    Fact("Multiple", lambda row: f"{row[1].factor:g}{TIMES}", "ordinal"),
    Fact("Images", lambda row: row[1].images, "count"),
    Fact("Changed", lambda row: row[1].changed, "count"),
    Fact("Share", lambda row: row[1].changed / row[1].images, "share", 2),
    Fact("95 % interval", lambda row: f"{percent(row[1].low, 2)} to {percent(row[1].high, 2)}",
           "share"),
    Fact("Worse", lambda row: row[1].worse, "count", note="no labels"),
    Fact("Better", lambda row: row[1].better, "count", note="no labels"),
)  # fmt: skip
_CHECKS: tuple[Fact[tuple[SeedCurve, LineCheck]], ...] = (
    Fact("Seed", lambda row: str(row[0].seed)),
    Fact("Multiple", lambda row: f"{row[1].factor:g}{TIMES}", "ordinal"),
    Fact("Images", lambda row: row[1].images, "count"),
    Fact("Changed by the curve", lambda row: row[1].predicted, "count"),
    Fact("By the network", lambda row: row[1].measured, "count"),
    Fact("By the curve alone", lambda row: row[1].only_predicted, "count"),
    Fact("By the network alone", lambda row: row[1].only_measured, "count"),
    Fact("p, adjusted", lambda row: row[1].p, "value"),
)
