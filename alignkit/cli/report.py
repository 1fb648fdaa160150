"""`alignkit report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Open, open_page


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="A run's folder: reports/<experiment>/<run>.")
    ],
    open_: Open = None,
) -> None:
    """Render a run's report again from its record, without running anything."""
    from alignkit.report import render

    page = render(folder)
    print(page)
    open_page(page, wanted=open_)
