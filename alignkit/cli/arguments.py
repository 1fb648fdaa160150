"""Arguments that several commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

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
        help="Only this cell and what it is compared with; repeatable.",
        show_default=False,
    ),
]
Reports = Annotated[
    Path, typer.Option("--reports", metavar="DIR", help="Where runs and finished work are kept.")
]
Baselines = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="DIR",
        help="Where baselines lie; by default alignkit.baseline beside the file.",
        show_default=False,
    ),
]
Form = Annotated[str, typer.Option("--format", help="What is printed: `alignkit list outputs`.")]
Out = Annotated[
    list[str],
    typer.Option(
        "--out", metavar="KIND=PATH", help="Also write this; repeatable.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]
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
        help="One HTML file to send: the page and its 20 worst images, at most 15 MB.",
    ),
]
Images = Annotated[
    str,
    typer.Option(
        "--images",
        metavar="none|worst:N|all",
        help="Images shown of each pair of paths; all that the run kept.",
        show_default=False,
    ),
]
MaxReportSize = Annotated[
    str,
    typer.Option(
        "--max-report-size",
        metavar="SIZE",
        help="Show no more images than fit, e.g. 100MB.",
        show_default=False,
    ),
]


def open_page(page: Path, *, wanted: bool | None) -> None:
    """Show a page in the browser, if that was asked for or somebody sits in front of it."""
    if wanted or (wanted is None and _somebody_watches()):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _somebody_watches() -> bool:
    # without a display, webbrowser would start a text browser in the terminal
    display = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return on_terminal() and not os.environ.get("CI") and display


def on_terminal() -> bool:
    """Whether results are read as they appear, and not piped or redirected."""
    return sys.stdout.isatty()
