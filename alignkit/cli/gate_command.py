"""`alignkit gate FILE` and `alignkit gate thresholds FILE`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from alignkit.cli.arguments import (
    Baselines,
    ClusterAddress,
    EngineNames,
    EngineWorkers,
    ExitZero,
    GateFile,
    Json,
    NoPage,
    Open,
    Out,
    Overrides,
    ProgressOption,
    Quiet,
    Reports,
    ShardOption,
    display,
    open_page,
    refuse_outputs,
    tell_stored,
)
from alignkit.cli.commands import DEFAULT, WithDefault
from alignkit.stored_file import output_paths
from alignkit.workspace import Context, Workspace

app = typer.Typer(name="gate", cls=WithDefault, rich_markup_mode=None)


@app.command(DEFAULT, hidden=True)
def gate(
    file: GateFile,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
    out: Out = [],  # noqa: B006 - typer copies it
    exit_zero: ExitZero = False,
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
    shard: ShardOption = None,
    engine: EngineNames = "local",
    address: ClusterAddress = "",
    workers: EngineWorkers = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN_DIR", help="Compare with this run's folder instead of the baseline."
        ),
    ] = None,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    no_html: NoPage = False,
    open_: Open = None,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Fail if preprocessing or its effect on a model drifts past the rules in a file.

    Exit codes: 0 pass, 1 drift, 2 mistake in the file, 3 crash or failed self-test, 4 a decoder,
    backend or GPU is missing, 5 nothing compared, 6 no usable baseline, 7 inconclusive and the file
    fails on that, 130 interrupted, 143 terminated.
    """
    from alignkit.gate.gate_run import GateRun, run_gate, store_gate_shard
    from alignkit.gate.outputs import OUTPUTS, deliver
    from alignkit.lots import Shard
    from alignkit.lots.engines import EngineOption

    # first: a misspelt output must not cost the hours of a measurement
    to = output_paths([*out, *(["json=-"] if as_json else [])], OUTPUTS)
    part = Shard.parse(shard) if shard else None
    if part:
        refuse_outputs(to)
    # as an override, so that the option and the file's own key are one rule
    if allow_missing:
        value = "gpu" if allow_missing == "gpu" else "true"
        overrides = [*overrides, f"gate.allow_missing={value}"]
    run = GateRun(
        file,
        overrides,
        Workspace(reports),
        baselines=baselines,
        exit_zero=exit_zero,
        report=not no_html,
        changed_only=changed_only,
        fail_fast=fail_fast,
        against=against.parent if against and against.is_file() else against,
        engine=EngineOption(engine, address, workers),
    )
    shown = display(progress, quiet=quiet)
    if part:
        tell_stored(*store_gate_shard(run, part, shown), reports)
        return
    result = run_gate(run, shown)
    deliver(result, to)
    if result.page is not None:
        open_page(result.page, wanted=open_)
    raise typer.Exit(result.exit_code)


@app.command()
def thresholds(
    file: GateFile,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    repeats: Annotated[int, typer.Option(min=1, help="Number of repeats per path.")] = 3,
    reports: Reports = Path("reports"),
    as_json: Json = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Propose thresholds from the noise between repeats and between seeds; change no file."""
    from alignkit.experiment import load_experiment
    from alignkit.gate.gate_thresholds import proposal_text, propose
    from alignkit.runner import run_experiment

    experiment = load_experiment(file, overrides)
    context = Context(Workspace(reports), display(progress, quiet=quiet))
    # without a model there is no noise between seeds
    record = run_experiment(experiment, context)[0] if experiment.predicts else None
    proposals = propose(experiment, record, repeats=repeats, progress=context.progress)
    if as_json:
        print(json.dumps([asdict(each) for each in proposals], indent=1))
    else:
        print(proposal_text(proposals, experiment.paths))
