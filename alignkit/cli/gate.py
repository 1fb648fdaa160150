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
        Path, typer.Argument(metavar="FILE", help="An experiment, or a gate's own file, in YAML.")
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    form: Form = "text",
    out: Out = [],  # noqa: B006 - typer copies it
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="End with 0 for drift (1) and indecision (7) only.")
    ] = False,
    allow_missing: Annotated[
        Literal["gpu", "any"] | None,
        typer.Option(help="Skip what cannot run here instead of ending with 4."),
    ] = None,
    changed_only: Annotated[
        bool,
        typer.Option(
            "--changed-only",
            help="Against a baseline, look only at stages that can have changed since the "
            "approval: by their images, options, library, code, or a stage before.",
        ),
    ] = False,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast",
            help="End with the first path whose pixels fail, before any model is trained.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only every n-th image; keep it with --out shard=PATH and join with "
            "`alignkit report merge`.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Another run's folder, which takes the place of the recorded baseline.",
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
    """Fail if preprocessing, or what it does to a model, drifted past the rules of a file.

    Exit codes: 0 pass, 1 drift, 2 mistake in the file, 3 crash or failed self-test, 4 a decoder,
    backend or GPU is missing, 5 nothing compared, 6 no usable baseline, 7 inconclusive where the
    file says that fails, 130 interrupted.
    """
    from alignkit.gate.deliver import deliver, output, targets
    from alignkit.gate.result import GateRun, run_gate
    from alignkit.gate.shard import Shard

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
