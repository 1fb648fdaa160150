"""What the pages of all benches say: doubtful figures first, what was not timed, the machine."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.progress import duration
from alignkit.record.bench_facts import ServedLoad, ServingOption, TimedLoader, TimedStudy
from alignkit.report.page import (
    Code,
    Details,
    Link,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    Words,
    day,
    machine,
)
from alignkit.report.run_view import machine_tables, paths_table
from alignkit.report.table import RowCells, Shown, Table, facts
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import count

_NAMED = 6
"""Most figures of a busy machine that a sentence names."""


def cautions(timed: Sequence[tuple[str, ServedLoad | TimedLoader]]) -> list[str]:
    """Say which figures are of a busy machine, and which may be: before any of them is read.

    Each stands behind its name.
    """
    busy = [(name, load) for name, load in timed if load.contended]
    lines = []
    if busy:
        named = "; ".join(f"{name} ({load.contended})" for name, load in busy)
        lines.append(
            f"Contended, not to be used: {len(busy)} of {count(len(timed), 'timing')}: "
            f"{named if len(busy) <= _NAMED else 'the tables mark them with their reasons'}."
        )
    for reason in dict.fromkeys(load.unwatched for _, load in timed if load.unwatched):
        number = sum(load.unwatched == reason for _, load in timed)
        lines.append(
            f"{number} of {count(len(timed), 'timing')} not known to be of a quiet machine: "
            f"{reason}."
        )
    return lines


def timed_headline(
    record: TimedStudy,
    title: str,
    warned: Sequence[str],
    findings: Sequence[str],
    remarks: Sequence[str] = (),
) -> PageVerdict:
    """Return the verdict of what was timed: which figures are doubtful, then what they say."""
    none: list[Words] = [("Nothing was timed; ", Link("each has its reason", "#absent"), ".")]
    alerts = [*filter(None, [quick_words(record.quick)]), *warned]
    return PageVerdict(
        (title,),
        [
            *(Paragraph(each, "alert") for each in alerts),
            *(Paragraph(each, "sentence") for each in findings or none),
            *(Paragraph(each, "remark") for each in remarks),
        ],
        f"{day(record.started)} UTC · {duration(record.seconds)}",
        [*map(Names(record.paths).of, (each.name for each in record.paths))],
    )


def absent_section(
    named: Sequence[tuple[str, ServingOption | TimedLoader]], head: str
) -> Section | None:
    """Return what was not timed, or not to the end, with its reason; ``None`` if all was."""
    rows: list[RowCells] = [
        (
            title,
            Shown(each.state, tone="fail" if each.state == "failed" else "muted"),
            each.reason + _traced(each),
        )
        for title, each in named
        if each.state != "measured"
    ]
    if not rows:
        return None
    table = Table.of("Not timed, or not to the end", (head, "State", "Reason"), rows)
    return Section("absent", "Not timed", [table])


def _traced(each: ServingOption | TimedLoader) -> str:
    found = isinstance(each, ServingOption) and each.traceback
    return " (traceback in bench.json)" if found else ""


def machine_section(record: TimedStudy, names: Names, conditions: dict[str, str]) -> Section:
    """Return the command, the conditions, some of them a bench's own, and the machine."""
    load = " ".join(f"{each:.2f}" for each in record.load_before)
    quota = "no limit" if record.cpu_quota is None else f"{record.cpu_quota:g} CPUs"
    at = record.environment
    extensions = f" ({at.extensions})" if at.extensions else ""
    of_machine = {
        "Processor": f"{at.cpu}{extensions}, {count(at.cores, 'core')}",
        "CPUs held": ", ".join(map(str, record.cpus)) or "not held to CPUs",
        "Limit of the control group": quota,
        "Load before, over 1, 5 and 15 minutes": load or "the system does not tell it",
    }
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    paths = "Paths and stages: options, and the library that ran"
    parts: list[PagePart] = [
        Code(record.command),
        facts("How it was timed", of_machine | conditions),
        Details(paths, [paths_table(record.paths, names)]),
        machine(machine_tables(run, at)),
    ]
    return Section("machine", "The machine", parts, nav="Machine")
