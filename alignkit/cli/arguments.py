"""Arguments shared by several commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from alignkit.errors import AlignkitError, ExitCode

Files = Annotated[list[Path], typer.Argument(help="Experiment files in YAML.", show_default=False)]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a value of the file, e.g. train.epochs=2.",
        show_default=False,
    ),
]  # fmt: skip
Cells = Annotated[
    list[str],
    typer.Option(
        "--cell",
        metavar="TRAINED/EVALUATED/BACKEND/PRECISION",
        help="Only this cell and its reference; repeatable.",
        show_default=False,
    ),
]
Reports = Annotated[
    Path, typer.Option("--reports", metavar="DIR", help="Folder for runs and finished work.")
]
Baselines = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="DIR",
        help="Folder of the baselines; by default alignkit.baseline next to the file.",
        show_default=False,
    ),
]
Form = Annotated[
    str, typer.Option("--format", help="Format to print; see `alignkit list outputs`.")
]
Out = Annotated[
    list[str],
    typer.Option(
        "--out", metavar="KIND=PATH", help="Also write this format; repeatable.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors to stderr.")]
Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open the report in a browser; by default on a terminal outside CI.",
        show_default=False,
    ),
]

SingleFile = Annotated[
    bool,
    typer.Option(
        "--single-file",
        help="Write one HTML file with the 20 worst images, at most 15 MB.",
    ),
]
ImagesOption = Annotated[
    str,
    typer.Option(
        "--images",
        metavar="none|worst:N|all",
        help="Images to show per pair of paths; by default all that the run stored.",
        show_default=False,
    ),
]
MaxReportSize = Annotated[
    str,
    typer.Option(
        "--max-report-size",
        metavar="SIZE",
        help="Omit images until the report fits this size, e.g. 100MB.",
        show_default=False,
    ),
]


def print_error(error: AlignkitError, file: Path) -> ExitCode:
    """Print a user's error with its file on stderr, without ending the command.

    Returns the error's exit code.
    """
    located = str(error).startswith((str(file), "--set "))
    print(error if located else f"{file}: {error}", file=sys.stderr)
    return error.exit_code


def open_page(page: Path, *, wanted: bool | None) -> None:
    """Open a page in the browser if requested or if the session is interactive."""
    if wanted or (wanted is None and _somebody_watches()):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _somebody_watches() -> bool:
    # without a display, webbrowser would start a text browser in the terminal
    display = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return on_terminal() and not os.environ.get("CI") and display


def on_terminal() -> bool:
    """Tell whether stdout is a terminal, not a pipe or file."""
    return sys.stdout.isatty()
