"""`alignkit compare`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Open, open_page


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="The earlier run's folder.", show_default=False)
    ],
    after: Annotated[
        Path, typer.Argument(metavar="B", help="The later run's folder.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the report; by default next to B."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compare even if the runs differ; the report lists the reasons against it.",
        ),
    ] = False,
    open_: Open = None,
) -> None:
    """Compare two runs: new, fixed, worse and unchanged cells and images.

    Exit codes: 0 compared · 2 a folder contains no run · 5 the runs have nothing in common · 6 the
    images, classes or environments differ, without --force.
    """
    from alignkit.report.compare_page import render_comparison, sentence
    from alignkit.studies.compare_runs import compare_runs

    words = ["alignkit", "compare", str(before), str(after), *(["--force"] if force else [])]
    made = compare_runs(before, after, force=force, command=shlex.join(words))
    target = out or after.resolve().parent / f"{made.before.folder}-to-{made.after.folder}"
    page = render_comparison(made, target)
    print(sentence(made))
    print(page)
    open_page(page, wanted=open_)
