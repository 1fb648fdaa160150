"""`alignkit run`."""

from __future__ import annotations

import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    Files,
    Images,
    MaxReportSize,
    Open,
    Overrides,
    Quiet,
    Reports,
    SingleFile,
    open_page,
)
from alignkit.cli.report import tell_left_out
from alignkit.cli.tell import tell
from alignkit.errors import AlignkitError, ExitCode, worst
from alignkit.progress import Mode, Progress, progress_for

if TYPE_CHECKING:
    from alignkit.load.experiment import Experiment
    from alignkit.report.form import Form
    from alignkit.workspace import Workspace


def run(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    reports: Reports = Path("reports"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do finished work of these experiments again.")
    ] = False,
    single_file: SingleFile = False,
    images: Images = "",
    max_report_size: MaxReportSize = "",
    open_: Open = None,
    progress: Annotated[
        Mode, typer.Option(help="auto: live on a terminal, plain lines elsewhere.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Train matched models, evaluate every cell, and write the report.

    All files are checked before the first is run. One that fails does not stop the others; the exit
    code is the gravest. Finished work is kept: the same command continues an interrupted run.
    """
    from alignkit.load import load_experiment
    from alignkit.report.form import form
    from alignkit.workspace import Workspace

    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    codes = []
    experiments = []
    for file in files:
        try:
            experiments.append(load_experiment(file, overrides))
        except AlignkitError as error:
            codes.append(tell(error, file))
    display = progress_for("none" if quiet else progress)
    for experiment in experiments:
        code = _run_one(
            experiment, Workspace(reports), display, fresh=fresh, wanted=wanted, open_=open_
        )
        codes.append(code)
        if code == ExitCode.INTERRUPTED:
            break
    raise typer.Exit(worst(codes))


def _run_one(
    experiment: Experiment,
    workspace: Workspace,
    progress: Progress,
    *,
    fresh: bool,
    wanted: Form,
    open_: bool | None,
) -> ExitCode:
    from alignkit.report.write import write_report
    from alignkit.run import run_experiment
    from alignkit.summary import summary

    try:
        record, folder = run_experiment(experiment, workspace, progress=progress, fresh=fresh)
        written = write_report(folder, wanted)
    except AlignkitError as error:
        return tell(error, experiment.file)
    except KeyboardInterrupt:
        command = shlex.join(["alignkit", *sys.argv[1:]])
        print(f"interrupted; finished work is kept. Continue with:\n  {command}", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001 - a defect met in one experiment must not stop the others
        from alignkit.cli import DEFECT

        traceback.print_exc()
        print(f"{experiment.file}: {DEFECT}", file=sys.stderr)
        return ExitCode.CRASHED
    print(summary(record, written.page))
    tell_left_out(written)
    open_page(written.page, wanted=open_)
    return ExitCode(record.verdict.exit_code)
