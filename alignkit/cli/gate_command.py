"""`alignkit gate FILE`, `alignkit gate thresholds FILE` and `alignkit report merge FILE PARTS…`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    display,
    open_page,
)
from alignkit.cli.commands import DEFAULT, WithDefault
from alignkit.stored_file import output_paths
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.gate.outputs import GateResult

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
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only every N-th image; store the result with --out shard=PATH and merge with "
            "`alignkit report merge`.",
        ),
    ] = None,
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
    from alignkit.gate.gate_run import GateRun, run_gate
    from alignkit.lots import Shard
    from alignkit.lots.engines import EngineOption

    # first: a misspelt output must not cost the hours of a measurement
    to = _outputs(out, as_json=as_json)
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
        shard=Shard.parse(shard) if shard else None,
        fail_fast=fail_fast,
        against=against.parent if against and against.is_file() else against,
        engine=EngineOption(engine, address, workers),
    )
    result = run_gate(run, display(progress, quiet=quiet))
    _deliver(result, to, open_)


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


# a command of `alignkit report`: see its module
def merge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of the gate.")],
    parts: Annotated[
        list[Path], typer.Argument(metavar="PARTS…", help="All shards written by --out shard=PATH.")
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
    out: Out = [],  # noqa: B006 - typer copies it
    exit_zero: ExitZero = False,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    no_html: NoPage = False,
    open_: Open = None,
) -> None:
    """Merge the shards of a gate and judge them as one run without measuring again."""
    from alignkit.gate.gate_run import GateRun, merge_gate

    to = _outputs(out, as_json=as_json)
    run = GateRun(
        file, overrides, Workspace(reports), baselines, exit_zero, not no_html, parts=tuple(parts)
    )
    _deliver(merge_gate(run), to, open_)


def _outputs(out: Sequence[str], *, as_json: bool) -> list[tuple[str, Path]]:
    from alignkit.gate.outputs import OUTPUTS

    return output_paths([*out, *(["json=-"] if as_json else [])], OUTPUTS)


def _deliver(result: GateResult, to: Sequence[tuple[str, Path]], open_: bool | None) -> None:
    from alignkit.gate.outputs import deliver

    deliver(result, to)
    if result.page is not None:
        open_page(result.page, wanted=open_)
    raise typer.Exit(result.exit_code)
