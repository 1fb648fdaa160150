"""`alignkit schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    results: Annotated[
        bool, typer.Option("--results", help="Of results.json instead, for programs that read it.")
    ] = False,
) -> None:
    """Print the JSON Schema of experiment files, for editors.

    Save it (alignkit schema > alignkit.schema.json) and name it in the first line of an experiment:
    # yaml-language-server: $schema=alignkit.schema.json
    """
    if results:
        from alignkit.report.results import results_schema

        document = results_schema()
    else:
        from alignkit.experiment.experiment import experiment_schema

        document = experiment_schema()
    print(json.dumps(document, indent=2))
