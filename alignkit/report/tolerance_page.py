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
)
from alignkit.report.page_text import page_text
from alignkit.report.plot import Plot
from alignkit.report.table import Table, facts
from alignkit.stored_file import write_output
from alignkit.text.column import Fact
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import (
    DASH,
    TIMES,
    copies_words,
    listed,
    percent,
)
from alignkit.text.run_columns import place_columns
from alignkit.text.task_words import TaskWords

_SHOWN = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the difference in the table of curves; the document has more."""
_OUTPUTS = (
    "A worst case, without an assumption: while the greatest |Δ| of an image's outputs is below "
    "its own limit, its answer cannot change. Beyond atol: images that fail a comparison with "
    "this tolerance; could change: images whose max |Δ| is not below their own limit; changed: "
    "another answer. A limit is the least of all seeds; shares are over all seeds."
)
_PIXELS = (
    f"From 0{TIMES}, the path of the training, to 1{TIMES}, the path served with. The line takes "
    "outputs as linear between both ends; circles are the network's own answers, and where it "
    "contradicts the line, the measured points alone are drawn. Bands are pointwise "
    "95\N{NO-BREAK SPACE}% intervals; dashed lines are the budget and the limit. Changed at a "
    "multiple: by the curve, and behind a stroke by the network where it was run; "
    f"1{TIMES} is measured. Pixels beyond 1{TIMES} are not clipped, and no path makes them. Beyond "
    f"2{TIMES} no network was run: the line is continued."
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
    yield Heading(f"Trained with {trained}, {runtime}")
    if row.atol:
        yield Code(f"polygraphy run … --atol {row.atol:g} --rtol 0")
    else:
        tie = "more images than the budget bears stand at a limit already (a tie)"
        missing = (each.limit.reason for each in row.seeds if each.limit.value is None)
        yield Paragraph(f"No atol: {tie if row.atol is not None else next(missing)}.", "lead")
    yield Table.made("Limits of the seeds; NaN bears no change", _SEEDS, row.seeds)
    if row.cells:
        served = place_columns(names)[1:3]
        yield Table.made("Other cells of the row", (*served, *_CELLS), row.cells)


_WHY = attrgetter("reason")
_WHY_NO_LIMIT = attrgetter("limit.reason")
_SEEDS: tuple[Fact[SeedLimit], ...] = (
    Fact("Seed", attrgetter("seed"), "ordinal"),
    Fact("Images", attrgetter("images"), "count"),
    Fact("Not finite", attrgetter("non_finite"), "count"),
    Fact("Limit", attrgetter("limit.value"), "value", note=_WHY_NO_LIMIT),
    Fact("May change", attrgetter("limit.changed"), "count", note=_WHY_NO_LIMIT),
    Fact("Share, at most", attrgetter("limit.bound"), "share", 2, note=_WHY_NO_LIMIT),
)


def _share(head: str, field: str) -> Fact[CellReach]:
    def share(each: CellReach) -> float | None:
        number: int | None = getattr(each, field)
        return number / each.images if each.images and number is not None else None

    return Fact(head, share, "share", 2, note=_WHY)


_CELLS: tuple[Fact[CellReach], ...] = (
    Fact("Max |Δ|", attrgetter("max_abs"), "value", note=_WHY),
    _share("Beyond atol", "beyond"),
    _share("Could change", "could_change"),
    _share("Changed", "changed"),
)


def _pixels(found: ToleranceDocument, names: Names) -> Section:
    rows = dict.fromkeys(each.trained_with for each in found.pixels)
    parts: list[PagePart] = [Paragraph(_PIXELS, "lead")]
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
    columns: tuple[Fact[PixelTolerance], ...] = (
        Fact("Served with", lambda each: names.short(each.candidate)),
        Fact("Within budget up to", _within, "value",
             note=lambda each: each.reason or "no seed has a limit"),
        Fact("In grey levels", _in_levels, "levels"),
        *map(_changed_at, _SHOWN),
        Fact("The curve is", lambda each: listed([*dict.fromkeys(e.source for e in each.seeds)])
             or DASH),
    )  # fmt: skip
    return Table.made("Curves between the paths", columns, pairs)


def _within(each: PixelTolerance) -> str | None:
    if not each.seeds:
        return None
    return "none shown" if each.factor is None else f"{_least(each, each.factor)}{TIMES}"


def _in_levels(each: PixelTolerance) -> str:
    return DASH if each.levels is None else f"{_least(each, each.levels)} of mean |Δ|"


def _least(each: PixelTolerance, value: float) -> str:
    """Write three decimals, rounded down: a limit may not grow by its rounding."""
    return f"{'≥ ' * each.open_end}{math.floor(1000 * value) / 1000:.3f}"


def _changed_at(factor: float) -> Fact[PixelTolerance]:
    """Return the line's share, and the network's behind a stroke; over all seeds."""

    def changed(each: PixelTolerance) -> str:
        checks = [e for seed in each.seeds for e in seed.checks if e.factor == factor]
        if checks:
            images = sum(e.images for e in checks)
            both = (sum(e.predicted for e in checks), sum(e.measured for e in checks))
            return " / ".join(percent(number / images) for number in both)
        reached = [e for seed in each.seeds for e in seed.points if e.factor == factor]
        if not reached:
            return DASH
        return percent(sum(e.changed for e in reached) / sum(e.images for e in reached))

    return Fact(f"Changed at {factor:g}{TIMES}", changed, "share")


def _plots(pair: PixelTolerance, found: ToleranceDocument) -> list[Plot]:
    named = f"{pair.trained_with} to {pair.candidate}"
    plots = [share_plot(pair.seeds, named, found.budget, limit=pair.factor)]
    for name in _shown(pair, found)[:1]:
        lines = [
            Line([(0.0, 0.0), *((e.factor, 100 * e.metrics[name]) for e in seed.points
                                if name in e.metrics)], tone, f"seed {seed.seed}")
            for seed, tone in zip(pair.seeds, cycle(TONES), strict=False)
        ]  # fmt: skip
        title = f"Δ {TaskWords(found.task).label(name)}, pp: {named}"
        plots.append(_plot(title, [RuleLine(y=0.0, dashed=True), *lines]))
    return plots


def share_plot(
    seeds: Sequence[SeedCurve], named: str, budget: float, *, limit: float | None = None
) -> Plot:
    """Draw each seed's share of changed answers in percent, with intervals as bands.

    The network's own points are circles with whiskers in the colour of their seed.
    """
    marks: list[PlotMark] = [RuleLine(y=100 * budget, dashed=True)]
    marks += [] if limit is None else [RuleLine(x=limit, dashed=True)]
    checks: list[PlotMark] = []
    for seed, tone in zip(seeds, cycle(TONES), strict=False):
        curve = [
            (e.factor, Interval(100 * e.changed / e.images, 100 * e.low, 100 * e.high))
            for e in seed.points
        ]
        marks.append(Line([(0.0, Interval(0, 0, 0)), *curve], tone, f"seed {seed.seed}"))
        checks += [Dot(e.factor, _measured(e), f"{tone} hollow") for e in seed.checks]
    return _plot(f"Answers that change, %: {named}", [*marks, *checks])


def _measured(check: LineCheck) -> Interval:
    low, high = exact_interval(check.measured, check.images)
    return Interval(100 * check.measured / check.images, 100 * low, 100 * high)


def _plot(title: str, marks: Sequence[PlotMark]) -> Plot:
    words = "The table below contains the numbers."
    return Plot(title=title, caption=title, x=_MULTIPLES, y=Axis(), marks=marks, words=words)


def _shown(pair: PixelTolerance, found: ToleranceDocument) -> list[str]:
    """Return the metrics that the points of a curve have."""
    known = {name for seed in pair.seeds for point in seed.points for name in point.metrics}
    return [each for each in found.task.matrices if each in known]


def _points_table(pair: PixelTolerance, found: ToleranceDocument) -> Table:
    words = TaskWords(found.task)

    def change(name: str) -> Fact[_Point]:
        head, why = f"Δ {words.label(name)}, pp", "one side does not define it"
        return Fact(head, lambda row: row[1].metrics.get(name), "points", note=why)

    rows = [(seed, point) for seed in pair.seeds for point in seed.points]
    columns = (*_POINT, *map(change, _shown(pair, found)))
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
