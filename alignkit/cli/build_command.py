"""`alignkit build`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    Cells,
    GateFile,
    Json,
    JsonOut,
    Overrides,
    ProgressOption,
    Quiet,
    Reports,
    display,
    json_paths,
)
from alignkit.errors import ExitCode
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.record import PathFacts
    from alignkit.record.study_documents import BuiltEngine

_SECOND = {
    "equal": "two builds equal",
    "same layers": "two builds NOT equal: other bytes, same layers",
    "other layers": "two builds NOT equal: other layers",
    "not built": "built once",
}


def build(
    file: GateFile,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    once: Annotated[
        bool, typer.Option("--once", help="Do not compare each engine with a second build.")
    ] = False,
    reports: Reports = Path("reports"),
    as_json: Json = False,
    out: JsonOut = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Build the engines of an experiment on this machine, without running them.

    Prints each engine's layers by type, size and SHA-256, and whether a second build is equal;
    engines.json in the run's folder names the engines that a machine with a GPU must run. Exit
    codes: 0 all built · 2 usage · 3 a build failed · 4 none failed, and one cannot be built here.
    """
    from alignkit.experiment import load_experiment
    from alignkit.record.study_documents import EngineBuilds
    from alignkit.stored_file import write_atomically, write_output
    from alignkit.studies.build_engines import build_engines
    from alignkit.text.names import facts_of_paths
    from alignkit.version import __version__
    from alignkit.workspace import Context, Workspace

    files = json_paths(out)
    experiment = load_experiment(file, overrides)
    context = Context(Workspace(reports), display(progress, quiet=quiet))
    engines, folder = build_engines(experiment, context, cells=cells, twice=not once)
    document = EngineBuilds(
        alignkit=__version__,
        name=experiment.name,
        file=str(experiment.file),
        command=shlex.join(["alignkit", *sys.argv[1:]]),
        engines=engines,
    ).model_dump_json(indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "engines.json", document + "\n")
    facts = facts_of_paths(experiment.paths)
    print(document if as_json else _as_text(engines, facts, folder))
    for path in files:
        write_output(path, document + "\n")
    absent = [each for each in engines if each.engine is None]
    if not absent:
        raise typer.Exit(ExitCode.PASS)
    missing = all(each.missing for each in absent)
    raise typer.Exit(ExitCode.MISSING if missing else ExitCode.CRASHED)


def _as_text(engines: Sequence[BuiltEngine], facts: Sequence[PathFacts], folder: Path) -> str:
    from alignkit.report.engine_view import layer_words, size_words
    from alignkit.text.names import Names, surrogate_lines

    names = Names(facts)
    rows = []
    for each in engines:
        made = each.engine
        found = (
            (layer_words(made), size_words(made), made.sha256, _SECOND[each.second])
            if made
            else (f"{'CANNOT BE BUILT HERE' if each.missing else 'FAILED'}: {each.reason}", *"   ")
        )
        rows.append(
            (
                f"{names.short(each.trained_with)} seed {each.seed}",
                f"{each.backend} {each.precision}",
                *found,
            )
        )
    head = ("model", "runtime", "layers that compute", "size", "SHA-256", "")
    lines = [*surrogate_lines(facts), columns([head, *rows]), ""]
    if any(each.engine for each in engines):
        lines.append("built here, not run: no prediction of these engines is known")
    return "\n".join([*lines, f"record     {folder / 'engines.json'}"])
