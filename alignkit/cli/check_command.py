"""`alignkit check` and `alignkit schema`: experiment files, without a run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from alignkit.cli.arguments import Files, Overrides, load_files
from alignkit.errors import worst


def check(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
) -> None:
    """Report every mistake in experiment files; read no image and run nothing."""
    _, codes = load_files(files, overrides)
    raise typer.Exit(worst(codes))


def schema(
    results: Annotated[
        bool, typer.Option("--results", help="Print the schema of results.json instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of experiment files for editors.

    Save it (alignkit schema > alignkit.schema.json) and start an experiment file with this line:
    # yaml-language-server: $schema=alignkit.schema.json
    """
    if results:
        from alignkit.report.results import results_schema

        document = results_schema()
    else:
        from alignkit.experiment.experiment import experiment_schema

        document = experiment_schema()
    print(json.dumps(document, indent=2))
