"""`alignkit gate FILE`, and `alignkit gate calibrate FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from alignkit.cli.arguments import Baselines, Form, Open, Out, Overrides, Quiet, Reports, open_page
from alignkit.cli.gate_calibrate import calibrate
from alignkit.cli.group import DEFAULT, WithDefault
from alignkit.progress import ProgressMode, progress_for
from alignkit.workspace import Workspace

app = typer.Typer(name="gate", cls=WithDefault, rich_markup_mode=None)
app.command()(calibrate)


@app.command(DEFAULT, hidden=True)
def gate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file of the gate or experiment.")
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    form: Form = "text",
    out: Out = [],  # noqa: B006 - typer copies it
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", help="Exit with 0 instead of 1 (drift) or 7 (inconclusive)."),
    ] = False,
    allow_missing: Annotated[
        Literal["gpu", "any"] | None,
        typer.Option(help="Skip what cannot run here instead of exiting with 4."),
    ] = None,
    changed_only: Annotated[
        bool,
        typer.Option(
            "--changed-only",
            help="With a baseline, check only stages that can have changed since the approval "
            "through images, options, library, code or an earlier stage.",
        ),
    ] = False,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast",
            help="Stop at the first path whose pixels fail, before training any model.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only every N-th image; store the result with --out shard=PATH and merge with "
            "`alignkit report merge`.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Compare with this run's folder instead of the baseline.",
            show_default=False,
        ),
    ] = None,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
    open_: Open = None,
    progress: Annotated[
        ProgressMode, typer.Option(help="auto: live on a terminal, plain lines elsewhere.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Fail if preprocessing or its effect on a model drifts past the rules in a file.

    Exit codes: 0 pass, 1 drift, 2 mistake in the file, 3 crash or failed self-test, 4 a decoder,
    backend or GPU is missing, 5 nothing compared, 6 no usable baseline, 7 inconclusive and the file
    fails on that, 130 interrupted.
    """
    from alignkit.gate.gate_run import GateRun, run_gate
    from alignkit.gate.gate_shard import Shard
    from alignkit.gate.outputs import deliver, output, targets

    to = targets(out)
    output(form)
    if allow_missing:
        value = "gpu" if allow_missing == "gpu" else "true"
        overrides = [*overrides, f"gate.allow_missing={value}"]
    run = GateRun(
        file,
        overrides,
        Workspace(reports),
        baselines=baselines,
        exit_zero=exit_zero,
        report=report,
        changed_only=changed_only,
        shard=Shard.parse(shard) if shard else None,
        fail_fast=fail_fast,
        against=against.parent if against and against.is_file() else against,
    )
    result = run_gate(run, progress_for("none" if quiet else progress))
    deliver(result, form=form, to=to)
    if result.page is not None:
        open_page(result.page, wanted=open_)
    raise typer.Exit(result.exit_code)
