"""Views of a run's circumstances: controls, paths, decodes, data, machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alignkit.progress import duration
from alignkit.record import Coverage, CoverageDiff, Environment, PathFacts, RunRecord
from alignkit.record.diff_document import DiffRecord
from alignkit.report.page import Code, Details, Heading, Lines, Mono, Part, Section, Text, machine
from alignkit.report.table import RowCells, Shown, Table, alarm, facts, numbers
from alignkit.text.names import Names, controls_words
from alignkit.text.numbers import DASH, copies_words, count, grouped
from alignkit.text.part_commands import image_command

CONTROL_WORDS = {True: "passed", False: "not passed", None: "not made"}
"""Outcome of a control in words."""


def controls_section(record: RunRecord) -> Section:
    """Return the controls, unfolded if one did not pass."""
    table = controls_table(record)
    if table is None:
        none = "This run has no controls: nothing shows that its measurement can detect a fault."
        return Section("controls", "Controls", [Text(none)])
    lead = (
        f"{controls_words(record.controls)}. Identical paths must give exactly zero, and a planted "
        "fault must be detected; otherwise the results above cannot be trusted."
    )
    failed = not all(each.passed for each in record.controls)
    fold = Details("Each control", [table], open=failed)
    return Section("controls", "Controls", [Text(lead, "lead"), fold])


def provenance_section(record: RunRecord, names: Names, *, viewer: bool) -> Section:
    """Return how to run it again, whole or in part, and what ran on what."""
    parts: list[Part] = [Heading("Reproduce"), Code(record.command)]
    if record.matrix:
        last = " from the last column of “All comparisons in numbers”."
        parts.append(Text(("For one cell, add its ", Mono("--cell"), last)))
    pairs = [(each.reference, each.candidate) for each in record.pixels]
    if line := image_command(record.command, *pairs[0]).strip() if pairs else "":
        key = ", or with r in the viewer" if viewer else ""
        parts += [Text(f"For one image, by its name{key}:"), Code(f"{line} IMAGE")]
    overridden = ", overridden on the command line" if record.overrides else ""
    file: list[Part] = [Code(record.yaml, command=False)]
    if record.overrides:
        file += [Text("Overridden on the command line:"), Lines([*map(Mono, record.overrides)], "")]
    parts += [
        Details(
            "Paths and stages: options, and the library that ran",
            [paths_table(record.paths, names)],
        ),
        Details("Data", [data_table(record)]),
        machine(environment_tables(record)),
        Details(f"Experiment file{overridden}", file, open=bool(record.overrides)),
    ]
    return Section("provenance", "Provenance", parts)


def controls_table(record: RunRecord) -> Table | None:
    """Return the checks of the measurement itself; ``None`` if none was made."""
    if not record.controls:
        return None
    tones = {True: "pass", False: "fail", None: "muted"}
    rows: list[RowCells] = [
        (
            each.name,
            each.expected,
            each.observed,
            Shown(CONTROL_WORDS[each.passed], tone=tones[each.passed]),
        )
        for each in record.controls
    ]
    caption = "Checks of the measurement itself, made with this run"
    return Table.of(caption, ("Control", "Expected", "Observed", "Outcome"), rows)


def paths_table(paths: Sequence[PathFacts], names: Names) -> Table:
    """Return every stage of every path with the code that ran."""
    rows = [row for path in paths for row in _path_rows(path, names.short(path.name))]
    columns = ("Path", "Stage", "What it does", "Options", "Library that ran")
    notes = [f"{path.name}: {note}." for path in paths if (note := names.of(path.name).note)]
    caption = " ".join(["Preprocessing paths, the reference first.", *notes])
    return Table.of(caption if notes else caption.removesuffix("."), columns, rows)


def _path_rows(path: PathFacts, name: str) -> list[RowCells]:
    if path.skipped:
        # its stages never ran, so that no version is known
        return [(name, "all", f"skipped: {path.skipped}", "", "")]
    return [
        (name, stage.stage, stage.label, _options(stage.options), stage.version or "alignkit")
        for stage in path.stages
    ]


def data_table(record: RunRecord) -> Table:
    """Return the data set as it was used."""
    data = record.data
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


def environment_tables(record: RunRecord) -> tuple[Table, ...]:
    """Return the run and its machine, and the machine's libraries."""
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration of this invocation": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    return machine_tables(run, record.environment)


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
) -> tuple[Table, ...]:
    """Return how the decodes ended, and each image that did not decode cleanly or on one side.

    Without any such image there is no table: `coverage_words` says so.
    """
    ended: list[RowCells] = [
        (
            names.short(each.preprocess),
            each.split,
            grouped(each.ok),
            *map(alarm, (each.corrupt, each.failed, each.unsupported)),
        )
        for each in coverage
    ]
    columns = ("Path", "Split", *numbers("Decoded", "Corrupt", "Failed", "Unsupported"))
    lost = any(each.corrupt + each.failed + each.unsupported for each in coverage)
    tables = [Table.of("How the decodes ended, in images", columns, ended)] if lost else []
    bad = [
        (image.id, names.short(each.preprocess), each.split, image.outcome, image.reason)
        for each in coverage
        for image in each.examples
    ]
    if bad:
        caption = "Images that a path did not decode cleanly"
        tables.append(Table.of(caption, ("Image", "Path", "Split", "Outcome", "Reason"), bad))
    if any(each.only_reference or each.only_candidate for each in diffs):
        tables.append(_one_sided(diffs, names))
    return tuple(tables)


def coverage_parts(record: RunRecord | DiffRecord, names: Names) -> list[Part]:
    """Return whether every path decoded everything, and the tables of what did not."""
    said = coverage_words(record.coverage, record.coverage_diffs, names)
    return [
        Text(said, "lead", id="coverage"),
        *coverage_tables(record.coverage, record.coverage_diffs, names),
    ]


def _one_sided(diffs: Sequence[CoverageDiff], names: Names) -> Table:
    rows: list[RowCells] = [
        (
            f"{names.short(each.reference)} and {names.short(each.candidate)}",
            grouped(each.images),
            alarm(each.only_reference),
            ", ".join(each.reference_examples[:5]) or DASH,
            alarm(each.only_candidate),
            ", ".join(each.candidate_examples[:5]) or DASH,
        )
        for each in diffs
    ]
    columns = (
        "First and second",
        *numbers("Images", "Only first decodes"),
        "Examples",
        *numbers("Only second decodes"),
        "Examples",
    )
    return Table.of("Images that only one of two decodes", columns, rows)


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
