"""Controls, data, paths and environment: what the run was made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alignkit.progress import duration
from alignkit.record import Environment, PathFacts, RunRecord
from alignkit.report.table import RowCells, Shown, Table, facts, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped


def controls_table(record: RunRecord) -> Table | None:
    """The checks of the measurement itself; ``None`` if none was made."""
    rows: list[RowCells] = [
        (
            control.name,
            control.expected,
            control.observed,
            Shown("passed", tone="pass") if control.passed else Shown("not passed", tone="fail"),
        )
        for control in record.controls
    ]
    columns = text_columns("Control", "Expected", "Observed", "Outcome")
    return (
        Table.of("Checks of the measurement itself, made with this run", columns, rows)
        if rows
        else None
    )


def paths_table(paths: Sequence[PathFacts], names: Names) -> Table:
    """Every stage of every path with the code that ran."""
    rows = [row for path in paths for row in _path_rows(path, names.short(path.name))]
    columns = text_columns("Path", "Stage", "What it does", "Options", "Library that ran")
    notes = [f"{path.name}: {note}." for path in paths if (note := names.of(path.name).note)]
    caption = " ".join(["Preprocessing paths, the reference first.", *notes])
    return Table.of(caption if notes else caption.removesuffix("."), columns, rows)


def _path_rows(path: PathFacts, name: str) -> list[RowCells]:
    if path.skipped:
        return [(name, "all", f"skipped: {path.skipped}", "", "")]
    return [
        (name, stage.stage, stage.label, _options(stage.options), stage.version or "alignkit")
        for stage in path.stages
    ]


def data_table(record: RunRecord) -> Table:
    """The data set."""
    data = record.data
    classes = ", ".join(data.classes[:20]) + (", …" if len(data.classes) > 20 else "")
    pairs = {
        "Data set": f"{data.name} {data.version}".strip(),
        "Options": _options(data.options),
        "Training images": grouped(data.train),
        "Evaluation images": grouped(data.eval),
        "Classes": f"{len(data.classes)}: {classes}" if data.classes else DASH,
        "Fingerprint (SHA-256)": data.fingerprint,
    }
    pairs |= {f"Note {index}": note for index, note in enumerate(data.notes, 1)}
    return facts("The data set", ("Fact", "Value"), pairs)


def environment_tables(record: RunRecord) -> tuple[Table, ...]:
    """The machine and the run; installed versions; codecs; flags."""
    machine = record.environment
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration of this invocation": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    return (
        facts("Run and machine", ("Fact", "Value"), run | machine_facts(machine)),
        *library_tables(machine),
    )


def machine_facts(machine: Environment) -> dict[str, str]:
    """Name → value."""
    extensions = {"Vector extensions": machine.extensions} if machine.extensions else {}
    return {
        "Git revision": machine.git or "not in a git repository",
        "Python": machine.python,
        "Platform": machine.platform,
        "CPU": f"{machine.cpu}, {machine.cores} cores",
        **extensions,
        "GPU": machine.gpu,
    }


def library_tables(machine: Environment) -> tuple[Table, ...]:
    """Flags; codecs; installed versions."""
    tables = []
    if machine.flags:
        tables.append(facts("Settings that change numbers", ("Setting", "Value"), machine.flags))
    if machine.codecs:
        tables.append(facts("JPEG codec builds", ("Library", "Codec"), machine.codecs))
    tables.append(facts("Installed versions", ("Distribution", "Version"), machine.versions))
    return tuple(tables)


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_written(value)}" for name, value in options.items()) or DASH


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "(" + _options(value) + ")"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    return "none" if value is None else str(value)
