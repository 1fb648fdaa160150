"""`alignkit run`."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    Cells,
    ClusterAddress,
    EngineNames,
    EngineWorkers,
    Files,
    ImagesOption,
    Json,
    MaxReportSize,
    Open,
    Overrides,
    ProgressOption,
    Quick,
    Quiet,
    Reports,
    SingleFile,
    display,
    load_files,
    open_page,
    print_error,
)
from alignkit.cli.report_command import tell_left_out
from alignkit.errors import AlignkitError, ExitCode, RankError, worst
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.report.write_report import ReportOptions


def run(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    quick: Quick = False,
    reports: Reports = Path("reports"),
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Rerun every step in `alignkit plan`; exported models and engines are kept.",
        ),
    ] = False,
    engine: EngineNames = "local",
    address: ClusterAddress = "",
    workers: EngineWorkers = None,
    single_file: SingleFile = False,
    images: ImagesOption = "",
    max_report_size: MaxReportSize = "",
    open_: Open = None,
    as_json: Json = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Train matched models, evaluate every cell, and write the report.

    All files are checked before the first one runs, and a failing file does not stop the others.
    With several files the exit code is the first of these that occurred: 143, 130, 3, 4, 2, 5, 6,
    1, 7, 0. Finished work is kept: the same command continues an interrupted run. --json prints a
    list of results, one for each file that ran.

    Use torchrun --nproc-per-node N -m alignkit run to train and predict with several processes;
    --engine divides the preparation, prediction and comparison of images.
    """
    from alignkit.lots.engines import EngineOption
    from alignkit.rank import this_rank
    from alignkit.report.write_report import form

    chosen = EngineOption(engine, address, workers)
    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    rank = this_rank()
    with rank.joined():
        if rank.number:
            rank.serve_calls()
            raise typer.Exit(ExitCode.PASS)
        experiments, codes = load_files(files, overrides, quick=quick)
        with chosen.when_used() as opened:
            shown = display(progress, quiet=quiet)
            context = Context(Workspace(reports), shown, rank, opened)
            job = _Job(context, fresh, cells, wanted, open_, [] if as_json else None)
            for experiment in experiments:
                codes.append(_run_one(experiment, job))
        # only at the end: all experiments share the group
        rank.stop_followers()
    if job.documents is not None:
        print(f"[{','.join(job.documents)}]")
    raise typer.Exit(worst(codes))


@dataclass(frozen=True, slots=True)
class _Job:
    """Options of the command line that apply to every experiment."""

    context: Context
    fresh: bool
    cells: list[str]
    wanted: ReportOptions
    open: bool | None
    documents: list[str] | None
    """Results as JSON, filled by every run; ``None`` to print each as text."""


def _run_one(experiment: Experiment, job: _Job) -> ExitCode:
    from alignkit.gate import run_or_check
    from alignkit.report.kept_report import kept_report
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.terminal_view import summary

    try:
        record, folder = run_or_check(experiment, job.context, fresh=job.fresh, cells=job.cells)
        written = kept_report(folder, job.wanted)
    except RankError:
        raise  # the process group is lost: no other experiment can run
    except AlignkitError as error:
        return print_error(error, experiment.file)
    except Exception as error:  # noqa: BLE001 - a bug in one experiment must not stop the others
        from alignkit.errors import DEFECT
        from alignkit.extras import missing_dependency

        if isinstance(error, ModuleNotFoundError) and (missing := missing_dependency(error)):
            return print_error(missing, experiment.file)

        traceback.print_exc()
        print(f"{experiment.file}: {DEFECT}", file=sys.stderr)
        return ExitCode.CRASHED
    if job.documents is None:
        print(summary(record, written.page))
    else:
        results = results_from_record(record).model_copy(update={"report": str(written.page)})
        job.documents.append(results_text(results))
    tell_left_out(written)
    open_page(written.page, wanted=job.open)
    return ExitCode(record.verdict.exit_code)
