"""`alignkit check`."""

from __future__ import annotations

import sys

import typer

from alignkit.cli.arguments import Files, Overrides
from alignkit.errors import AlignkitError, worst


def check(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
) -> None:
    """Report every mistake in experiment files; read no image and run nothing."""
    from alignkit.experiment import load_experiment

    codes = []
    for file in files:
        try:
            load_experiment(file, overrides)
        except AlignkitError as error:
            print(error, file=sys.stderr)
            codes.append(error.exit_code)
    raise typer.Exit(worst(codes))
