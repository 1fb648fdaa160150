"""`alignkit check`: experiment files, without a run, and the JSON Schema for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from alignkit.cli.arguments import Overrides, load_files, print_error
from alignkit.errors import AlignkitError, ConfigError, worst
from alignkit.text import printable


def check(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILES…", help="Experiment files in YAML.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    schema: Annotated[
        Literal["experiment", "results"] | None,
        typer.Option(
            "--schema",
            help="Instead, print the JSON Schema of experiment files or of results.json.",
        ),
    ] = None,
) -> None:
    """Report every mistake in experiment files; read no image and run nothing.

    Models must fit the classes of the data and the paths' size, as far as both are on this machine.

    For completion and hints in an editor, save the schema (alignkit check --schema experiment >
    alignkit.schema.json) and start an experiment file with this line: # yaml-language-server:
    $schema=alignkit.schema.json
    """
    if schema is not None:
        if files:
            raise ConfigError("--schema prints a JSON Schema and checks no file; use one of them")
        print(json.dumps(_schema(schema), indent=2))
        return
    if not files:
        raise ConfigError("give experiment files: alignkit check FILE…")
    from alignkit.plan import counted
    from alignkit.plan.required_models import require_models, unseen

    experiments, codes = load_files(files, overrides)
    for each in experiments:
        try:
            require_models(each)
        except AlignkitError as error:
            codes.append(print_error(error, each.file))
        else:
            work = counted(each)
            if absent := unseen(each):
                missing = f"not here, and not checked: {', '.join(absent)}"
                print(printable(f"{each.file}: {work}; no mistake in what is here; {missing}"))
            else:
                print(printable(f"{each.file} is right: {work}"))
    raise typer.Exit(worst(codes))


def _schema(kind: Literal["experiment", "results"]) -> object:
    if kind == "results":
        from alignkit.report.results import results_schema

        return results_schema()
    from alignkit.experiment.experiment import experiment_schema

    return experiment_schema()
