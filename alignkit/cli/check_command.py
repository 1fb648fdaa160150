"""`alignkit check` and `alignkit schema`: experiment files, without a run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from alignkit.cli.arguments import Files, Overrides, load_files, print_error
from alignkit.errors import AlignkitError, worst
from alignkit.text import printable


def check(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
) -> None:
    """Report every mistake in experiment files; read no image and run nothing.

    Models must fit the classes of the data and the paths' size, as far as both are on this machine.
    """
    from alignkit.plan import counted
    from alignkit.plan.required_models import require_models, unseen

    experiments, codes = load_files(files, overrides)
    for each in experiments:
        try:
            require_models(each)
        except AlignkitError as error:
            codes.append(print_error(error, each.file))
        else:
            absent = unseen(each)
            but = f"; not here, and not checked: {', '.join(absent)}" if absent else ""
            print(printable(f"{each.file} is right: {counted(each)}{but}"))
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
