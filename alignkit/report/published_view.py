"""View of figures that others published, beside those of this run: whose is each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignkit.record import Claim, PublishedFacts, PublishedRow, RunRecord
from alignkit.record.outside_facts import Reading
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import count, listed, percent, points

_READINGS: dict[Reading, tuple[str, str]] = {
    "holds here": ("holds here", "hold here"),
    "does not hold here": ("does not hold here", "do not hold here"),
    "inside the noise floor": ("is inside the noise floor", "are inside the noise floor"),
    "undecided": ("is undecided", "are undecided"),
    "not measured": ("was not measured", "were not measured"),
}
"""Of one difference and of several, in the order of a sentence."""
# the other readings decide nothing, so they have no colour
_TONES: dict[Reading, str] = {"holds here": "pass", "does not hold here": "fail"}


@dataclass(frozen=True, slots=True)
class PublishedSection:
    """One published table."""

    label: str
    """``published, internal data set, 3080 Ti``."""
    words: str
    rows: Table
    claims: Table | None


def published_section(record: RunRecord, names: Names) -> PublishedSection | None:
    """Return the published table; ``None`` where the experiment names none."""
    facts = record.published
    if facts is None:
        return None
    return PublishedSection(
        label=published_label(facts),
        words=published_words(facts),
        rows=_rows(facts, names),
        claims=_claims(facts) if facts.claims else None,
    )


def published_label(facts: PublishedFacts) -> str:
    """Return the name of every published figure, so that none is taken for a measured one."""
    return f"published, {facts.label}"


def published_words(facts: PublishedFacts) -> str:
    """Name the source of a published table and say how many of its differences hold here."""
    note = facts.note and f"{facts.note.removesuffix('.')}."
    return " ".join(filter(None, (f"Source: {facts.source}.", note, tally(facts))))


def tally(facts: PublishedFacts) -> str:
    """``Of 10 published differences 2 hold here, 7 are inside the noise floor …``."""
    counts = Counter(claim.reading for claim in facts.claims)
    if not counts:
        return ""
    parts = [
        f"{counts[reading]} {one if counts[reading] == 1 else many}"
        for reading, (one, many) in _READINGS.items()
        if counts[reading]
    ]
    emulated = sum(claim.emulated for claim in facts.claims)
    label = f" Read against a surrogate or a simulation: {emulated}." if emulated else ""
    return f"Of {count(len(facts.claims), 'published difference')} {listed(parts)}.{label}"


def _rows(facts: PublishedFacts, names: Names) -> Table:
    metrics = list(dict.fromkeys(metric for row in facts.rows for metric in row.published))
    notes = Notes()
    rows = [_row(row, metrics, names, notes) for row in facts.rows]
    figures = numbers(*metrics)
    columns = ("Training", "Inference", *figures, "Trained with", "Served with", *figures)
    width = 2 + len(metrics)
    groups = (Group(published_label(facts), width), Group("this run", width))
    caption = "Each published row and the entry of this run that corresponds to it; mean over seeds"
    return Table.of(caption, columns, rows, groups, notes=notes)


def _row(row: PublishedRow, metrics: Sequence[str], names: Names, notes: Notes) -> RowCells:
    def figure(value: float | None, reason: str) -> Shown:
        return notes.number(value, lambda each: percent(each, 2), reason or "not published")

    here = row.here
    runtime = here.column.runtime
    # a row outside this run names no runtime
    served = ", ".join(filter(None, (names.short(here.evaluated_with), runtime)))
    return (
        row.training,
        row.inference,
        *(figure(row.published.get(metric), "") for metric in metrics),
        names.short(here.trained_with),
        served,
        *(
            replace(shown, mark=notes.mark(here.simulation)) if here.simulation else shown
            for shown in (figure(here.metrics.get(metric), here.reason) for metric in metrics)
        ),
    )


def _claims(facts: PublishedFacts) -> Table:
    notes = Notes()
    differences = numbers("Published, pp", "Here, pp", "95 % interval", "Another seed, pp")
    columns = ("Difference", "Metric", *differences, "Reading", "Because")
    caption = (
        "Published differences, whose size belongs to other data, read by their direction; another "
        "seed: greatest less least value of the row's aligned cell"
    )
    rows = [_claim(claim, notes) for claim in facts.claims]
    return Table.of(caption, columns, rows, notes=notes)


def _claim(claim: Claim, notes: Notes) -> RowCells:
    return (
        claim.words,
        claim.metric,
        points(claim.published),
        *notes.apart(claim.here),
        notes.number(claim.floor, lambda each: f"{100 * each:.2f}", "one seed cannot tell"),
        Shown(claim.reading, tone=_TONES.get(claim.reading, "")),
        claim.why,
    )
