"""`alignkit tolerance`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Json, PageOut, ProgressOption, Quiet, display
from alignkit.errors import ConfigError
from alignkit.extras import require_libraries
from alignkit.text.numbers import share_of


def tolerance(
    run: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run: reports/<experiment>/<run>.")
    ],
    budget: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Greatest share of answers that may change: 0.5% or 0.005."
        ),
    ] = "0.5%",
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Run the models between the paths; a line that they contradict is replaced.",
        ),
    ] = True,
    as_json: Json = False,
    out: PageOut = [],  # noqa: B006 - typer copies it
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Find how much difference of logits and of pixels the models of a run bear.

    Prints the greatest |Δlogit| with which no more answers than the budget can change, as
    `polygraphy run` takes it, and how much of the difference of each two paths may be served.
    Exit codes: 0 measured, whatever the result · 2 usage, or stored work is gone · 4 a library is
    missing · 5 no model ran, or answers of its task have no tolerance.
    """
    from alignkit.report.tolerance_page import tolerance_text, write_tolerance
    from alignkit.stored_file import output_paths, write_output
    from alignkit.studies.tolerance import tolerance as measured

    files, share = output_paths(out, ("json", "html"), folders=("html",)), budget_share(budget)
    require_libraries("scipy")
    found = measured(
        run,
        budget=share,
        check=check,
        command=shlex.join(["alignkit", *sys.argv[1:]]),
        progress=display(progress, quiet=quiet),
    )
    document = found.model_dump_json(indent=1)
    print(document if as_json else tolerance_text(found))
    for kind, path in files:
        if kind == "json":
            write_output(path, document + "\n")
        else:
            page = write_tolerance(found, path)
            print(f"page: {page}", file=sys.stderr)


def budget_share(text: str) -> float:
    """Read a share of answers, ``0.5%`` or ``0.005``; raise `ConfigError` unless 0 < share < 1.

    >>> budget_share("0.5 %"), budget_share("0.005")
    (0.005, 0.005)
    """
    share = share_of(text)
    if share is None or not 0 < share < 1:  # NaN too
        raise ConfigError(
            f"--budget {text}: give a share of answers above 0 and below 100 %, as 0.5% or 0.005"
        )
    return share
