"""`alignkit run`."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    Cells,
    Files,
    ImagesOption,
    MaxReportSize,
    Open,
    Overrides,
    Quiet,
    Reports,
    SingleFile,
    open_page,
    print_error,
)
from alignkit.cli.report import tell_left_out
from alignkit.errors import AlignkitError, ExitCode, RankError, worst
from alignkit.progress import ProgressMode, progress_for
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.rank import Rank
    from alignkit.report.form import ReportOptions


def run(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    reports: Reports = Path("reports"),
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Repeat everything that `alignkit plan` lists as cached."),
    ] = False,
    single_file: SingleFile = False,
    images: ImagesOption = "",
    max_report_size: MaxReportSize = "",
    open_: Open = None,
    progress: Annotated[
        ProgressMode, typer.Option(help="auto: live on a terminal, plain lines elsewhere.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Train matched models, evaluate every cell, and write the report.

    All files are checked before the first one runs. A failing file does not stop the others; the
    exit code is the most severe one. Finished work is kept: the same command continues an
    interrupted run.

    Use torchrun --nproc-per-node N -m alignkit run to train and predict with several processes.
    """
    from alignkit.rank import this_rank
    from alignkit.report.form import form

    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    rank = this_rank()
    with rank.joined():
        if rank.number:
            raise typer.Exit(_follow(rank))
        experiments, codes = _loaded(files, overrides)
        display = progress_for("none" if quiet else progress)
        context = Context(Workspace(reports), display, rank)
        job = _Job(context, fresh, cells, wanted, open_)
        for experiment in experiments:
            codes.append(_run_one(experiment, job))
            if codes[-1] == ExitCode.INTERRUPTED:
                raise typer.Exit(ExitCode.INTERRUPTED)
        rank.stop_followers()
    raise typer.Exit(worst(codes))


@dataclass(frozen=True, slots=True)
class _Job:
    """Options of the command line that apply to every experiment."""

    context: Context
    fresh: bool
    cells: list[str]
    wanted: ReportOptions
    open: bool | None


def _follow(rank: Rank) -> ExitCode:
    try:
        rank.serve_calls()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED  # rank 0 prints the command that continues
    return ExitCode.PASS


def _loaded(files: list[Path], overrides: list[str]) -> tuple[list[Experiment], list[ExitCode]]:
    """Load the experiments; return them with the exit codes of invalid files."""
    from alignkit.experiment import load_experiment

    experiments, codes = [], []
    for file in files:
        try:
            experiments.append(load_experiment(file, overrides))
        except AlignkitError as error:
            codes.append(print_error(error, file))
    return experiments, codes


def _run_one(experiment: Experiment, job: _Job) -> ExitCode:
    from alignkit.gate.gate_check import run_or_check
    from alignkit.report.terminal import summary
    from alignkit.report.write import write_report

    try:
        record, folder = run_or_check(
            experiment,
            job.context,
            fresh=job.fresh,
            cells=job.cells,
        )
        written = write_report(folder, job.wanted)
    except RankError:
        raise  # the process group is lost: no other experiment can run
    except AlignkitError as error:
        return print_error(error, experiment.file)
    except KeyboardInterrupt:
        again = _command(job.context.rank)
        message = f"interrupted; finished work is kept. Continue with:\n  {again}"
        print(message, file=sys.stderr)
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001 - a bug in one experiment must not stop the others
        from alignkit.errors import DEFECT

        traceback.print_exc()
        print(f"{experiment.file}: {DEFECT}", file=sys.stderr)
        return ExitCode.CRASHED
    print(summary(record, written.page))
    tell_left_out(written)
    open_page(written.page, wanted=job.open)
    return ExitCode(record.verdict.exit_code)


def _command(rank: Rank) -> str:
    if rank.world == 1:
        return shlex.join(["alignkit", *sys.argv[1:]])
    here = os.environ.get("LOCAL_WORLD_SIZE", str(rank.world))
    return shlex.join(["torchrun", "--nproc-per-node", here, "-m", "alignkit", *sys.argv[1:]])
