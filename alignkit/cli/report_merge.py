"""`alignkit report merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Baselines, Form, Open, Out, Overrides, Reports, open_page
from alignkit.workspace import Workspace


def merge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of the gate.")],
    parts: Annotated[
        list[Path],
        typer.Argument(metavar="PARTS…", help="All shards written by --out shard=PATH."),
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    form: Form = "text",
    out: Out = [],  # noqa: B006 - typer copies it
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", help="Exit with 0 instead of 1 (drift) or 7 (inconclusive)."),
    ] = False,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
    open_: Open = None,
) -> None:
    """Merge the shards of a gate and judge them as one run without measuring again."""
    from alignkit.gate.gate_run import GateRun, merge_gate
    from alignkit.gate.outputs import deliver, output, targets

    to = targets(out)
    output(form)
    run = GateRun(file, overrides, Workspace(reports), baselines, exit_zero, report)
    result = merge_gate(run, parts)
    deliver(result, form=form, to=to)
    if result.page is not None:
        open_page(result.page, wanted=open_)
    raise typer.Exit(result.exit_code)
