"""Views of a run's circumstances: controls, paths, decodes, data, machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alignkit.progress import duration
from alignkit.record import (
    Control,
    Coverage,
    CoverageDiff,
    DataFacts,
    Environment,
    PathFacts,
    RunRecord,
    StageFacts,
)
from alignkit.record.path_facts import NotDecoded
from alignkit.report.page import (
    Code,
    Details,
    Heading,
    Lines,
    Mono,
    PagePart,
    Paragraph,
    Section,
    machine,
)
from alignkit.report.table import Shown, Table, facts
from alignkit.text.column import Fact
from alignkit.text.names import Names, controls_words
from alignkit.text.numbers import DASH, copies_words, count, grouped
from alignkit.text.part_commands import image_command


def controls_section(record: RunRecord) -> Section:
    """Return the checks of the measurement itself, unfolded if one did not pass."""
    if not record.controls:
        none = "This run has no controls: nothing shows that its measurement can detect a fault."
        return Section("controls", "Controls", [Paragraph(none)])
    outcomes = {
        True: Shown("passed", tone="pass"),
        False: Shown("not passed", tone="fail"),
        None: Shown("not made", tone="muted"),
    }
    columns: tuple[Fact[Control], ...] = (
        Fact("Control", lambda each: each.name),
        Fact("Expected", lambda each: each.expected),
        Fact("Observed", lambda each: each.observed),
        Fact("Outcome", lambda each: outcomes[each.passed]),
    )
    caption = "Checks of the measurement itself, made with this run"
    table = Table.made(caption, columns, record.controls)
    lead = (
        f"{controls_words(record.controls)}. Identical paths must give exactly zero, and a planted "
        "fault must be detected; otherwise the results above cannot be trusted."
    )
    # a failure is said on every surface, and what is folded on the page alone
    passed = all(each.passed for each in record.controls)
    shown = Details("Each control", [table]) if passed else table
    return Section("controls", "Controls", [Paragraph(lead, "lead"), shown])


def provenance_section(record: RunRecord, names: Names, *, viewer: bool) -> Section:
    """Return how to run it again, whole or in part, and what ran on what."""
    parts: list[PagePart] = [Heading("Reproduce"), Code(record.command)]
    if record.matrix:
        last = " from the last column of “All comparisons in numbers”."
        parts.append(Paragraph(("For one cell, add its ", Mono("--cell"), last)))
    pairs = [(each.reference, each.candidate) for each in record.pixels]
    if line := image_command(record.command, *pairs[0]).strip() if pairs else "":
        key = ", or with r in the viewer" if viewer else ""
        parts += [Paragraph(f"For one image, by its name{key}:"), Code(f"{line} IMAGE")]
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration of this invocation": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    overridden = ", overridden on the command line" if record.overrides else ""
    file: list[PagePart] = [Code(record.yaml, command=False)]
    if record.overrides:
        file += [
            Paragraph("Overridden on the command line:"),
            Lines([*map(Mono, record.overrides)], ""),
        ]
    parts += [
        Details(
            "Paths and stages: options, and the library that ran",
            [paths_table(record.paths, names)],
        ),
        Details("Data", [_data_table(record.data)]),
        machine(machine_tables(run, record.environment)),
        Details(f"Experiment file{overridden}", file, open=bool(record.overrides)),
    ]
    return Section("provenance", "Provenance", parts)


def paths_table(paths: Sequence[PathFacts], names: Names) -> Table:
    """Return every stage of every path with the code that ran."""
    columns: tuple[Fact[tuple[PathFacts, StageFacts | None]], ...] = (
        Fact("Path", lambda row: names.short(row[0].name)),
        Fact("Stage", lambda row: row[1].stage if row[1] else "all"),
        Fact("What it does", lambda row: row[1].label if row[1] else f"skipped: {row[0].skipped}"),
        # stages of a skipped path never ran, so that no version is known
        Fact("Options", lambda row: _options(row[1].options) if row[1] else ""),
        Fact("Library that ran", lambda row: row[1].version or "alignkit" if row[1] else ""),
    )
    rows = [(path, each) for path in paths for each in ([None] if path.skipped else path.stages)]
    notes = [f"{path.name}: {note}." for path in paths if (note := names.of(path.name).note)]
    caption = " ".join(["Preprocessing paths, the reference first.", *notes])
    return Table.made(caption if notes else caption.removesuffix("."), columns, rows)


def _data_table(data: DataFacts) -> Table:
    # data sets of a thousand classes exist; the record has them all
    classes = ", ".join(data.classes[:20]) + (", …" if len(data.classes) > 20 else "")
    pairs = {
        "Data set": f"{data.name} {data.version}".strip(),
        "Options": _options(data.options),
        "Training images": grouped(data.train),
        "Evaluation images": grouped(data.eval),
        "Classes": f"{len(data.classes)}: {classes}" if data.classes else DASH,
        "Fingerprint (SHA-256)": data.fingerprint,
    }
    if data.copies:
        pairs["Copies"] = copies_words(len(data.copies), data.eval)
    pairs |= {f"Note {index}": note for index, note in enumerate(data.notes, 1)}
    return facts("The data set", pairs)


def machine_tables(run: dict[str, str], machine: Environment) -> tuple[Table, ...]:
    """Return the facts of a run with those of its machine; flags; codecs; installed versions."""
    extensions = {"Vector extensions": machine.extensions} if machine.extensions else {}
    hardware = {
        "Git revision": machine.git or "not in a git repository",
        "Python": machine.python,
        "Platform": machine.platform,
        "CPU": f"{machine.cpu}, {machine.cores} cores",
        **extensions,
        "GPU": machine.gpu,
    }
    tables = [facts("Run and machine", run | hardware)]
    if machine.flags:
        tables.append(facts("Settings that change numbers", machine.flags, ("Setting", "Value")))
    if machine.codecs:
        tables.append(facts("JPEG codec builds", machine.codecs, ("Library", "Codec")))
    tables.append(facts("Installed versions", machine.versions, ("Distribution", "Version")))
    return tuple(tables)


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_written(value)}" for name, value in options.items()) or DASH


def _written(value: Any) -> str:
    if isinstance(value, bool):  # in words of the page, not of Python
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "(" + _options(value) + ")"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    return "none" if value is None else str(value)


def coverage_tables(
    coverage: Sequence[Coverage], diffs: Sequence[CoverageDiff], names: Names
) -> tuple[Table, Table, Table]:
    """Return how the decodes ended, the images that did not decode cleanly, and those of one side.

    A table without rows has nothing to tell: `coverage_words` says so.
    """
    unclean = any(each.corrupt + each.failed + each.unsupported for each in coverage)
    ended: tuple[Fact[Coverage], ...] = (
        Fact("Path", lambda each: names.short(each.preprocess)),
        Fact("Split", lambda each: each.split),
        Fact("Decoded", lambda each: each.ok, "count"),
        Fact("Corrupt", lambda each: each.corrupt, "count", alarm=True),
        Fact("Failed", lambda each: each.failed, "count", alarm=True),
        Fact("Unsupported", lambda each: each.unsupported, "count", alarm=True),
    )
    bad: tuple[Fact[tuple[Coverage, NotDecoded]], ...] = (
        Fact("Image", lambda row: row[1].id),
        Fact("Path", lambda row: names.short(row[0].preprocess)),
        Fact("Split", lambda row: row[0].split),
        Fact("Outcome", lambda row: row[1].outcome),
        Fact("Reason", lambda row: row[1].reason),
    )
    apart: tuple[Fact[CoverageDiff], ...] = (
        Fact("First and second",
               lambda each: f"{names.short(each.reference)} and {names.short(each.candidate)}"),
        Fact("Images", lambda each: each.images, "count"),
        Fact("Only first decodes", lambda each: each.only_reference, "count", alarm=True),
        Fact("Examples", lambda each: ", ".join(each.reference_examples[:5]) or DASH),
        Fact("Only second decodes", lambda each: each.only_candidate, "count", alarm=True),
        Fact("Examples", lambda each: ", ".join(each.candidate_examples[:5]) or DASH),
    )  # fmt: skip
    examples = [(each, image) for each in coverage for image in each.examples]
    uneven = any(each.only_reference or each.only_candidate for each in diffs)
    return (
        Table.made("How the decodes ended, in images", ended, coverage if unclean else ()),
        Table.made("Images that a path did not decode cleanly", bad, examples),
        Table.made("Images that only one of two decodes", apart, diffs if uneven else ()),
    )


def coverage_parts(record: RunRecord, names: Names) -> list[PagePart]:
    """Return whether every path decoded everything, and the tables of what did not."""
    told = record.coverage, record.coverage_diffs, names
    tables = (each for each in coverage_tables(*told) if each.rows)
    return [Paragraph(coverage_words(*told), "lead", id="coverage"), *tables]


def coverage_words(
    coverage: Sequence[Coverage], diffs: Sequence[CoverageDiff], names: Names
) -> str:
    """Say whether every path decoded everything; of a gate on pixels, what both of two decode."""
    if not coverage:
        pairs = (
            f"{names.short(each.reference)} and {names.short(each.candidate)} both decode "
            f"{grouped(each.decoded)} of {count(each.images, 'image')}."
            for each in diffs
        )
        return " ".join(pairs) or "No two paths were compared."
    lost = {
        f"{names.short(each.preprocess)} ({each.split})": number
        for each in coverage
        if (number := each.corrupt + each.failed + each.unsupported)
    }
    if not lost:
        return "Every path decoded every image cleanly."
    parts = [f"{place}: {count(number, 'image')}" for place, number in lost.items()]
    return f"Not decoded cleanly: {'; '.join(parts)}."
