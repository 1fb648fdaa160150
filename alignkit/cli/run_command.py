"""`alignkit run`."""

from __future__ import annotations

import shlex
import sys
import time
import traceback
from collections.abc import Sequence
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
from alignkit.errors import AlignkitError, ConfigError, ExitCode, RankError, without_secrets, worst
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.record import PathFacts, RunRecord
    from alignkit.record.study_documents import BuiltEngine
    from alignkit.report.files_page import FileRun
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
    engines_only: Annotated[
        bool,
        typer.Option(
            "--engines-only",
            help="Build the engines of the file's models here, also where they cannot run.",
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
    Several files end with a table of them, DIR/index.html leads to their pages, and the exit code
    is the first of these that occurred: 143, 130, 3, 4, 2, 5, 6, 1, 7, 0. Finished work is kept:
    the same command continues an interrupted run. --json prints a list of results, one for each
    file that ran.

    --engines-only prepares and trains as a run does, prints each engine's layers by type, size and
    SHA-256, and runs none. Exit codes: 0 all built · 3 a build failed · 4 none failed, and one
    cannot be built here.

    Use torchrun --nproc-per-node N -m alignkit run to train and predict with several processes;
    --engine divides the preparation and comparison of images.
    """
    from alignkit.lots.engines import EngineOption
    from alignkit.rank import this_rank
    from alignkit.report.write_report import form

    if engines_only and (fresh or single_file or images or max_report_size):
        raise ConfigError("--engines-only writes no report and keeps engines; leave out the others")
    chosen = EngineOption(engine, address, workers)
    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    rank = this_rank()
    with rank.joined():
        if rank.number:
            rank.serve_calls()
            raise typer.Exit(ExitCode.PASS)
        experiments, ended = load_files(files, overrides, quick=quick)
        with chosen.when_used() as opened:
            shown = display(progress, quiet=quiet)
            context = Context(Workspace(reports), shown, rank, opened)
            documents: list[str] | None = [] if as_json else None
            own_page = open_ if len(files) == 1 else False
            job = _Job(context, fresh, engines_only, cells, wanted, own_page, documents)
            ended += [_run_one(experiment, job) for experiment in experiments]
        # only at the end: all experiments share the group
        rank.stop_followers()
    if len(files) > 1 and not engines_only:
        _tell_files(sorted(ended, key=lambda each: files.index(each.file)), job, open_)
    if job.documents is not None:
        print(f"[{','.join(job.documents)}]")
    raise typer.Exit(worst(each.code for each in ended))


@dataclass(frozen=True, slots=True)
class _Job:
    """Options of the command line that apply to every experiment."""

    context: Context
    fresh: bool
    engines_only: bool
    cells: list[str]
    wanted: ReportOptions
    open: bool | None
    documents: list[str] | None
    """Results as JSON, filled by every run; ``None`` to print each as text."""


def _run_one(experiment: Experiment, job: _Job) -> FileRun:
    from alignkit.errors import DEFECT
    from alignkit.extras import missing_dependency
    from alignkit.report.files_page import FileRun

    file, began = experiment.file, time.monotonic()
    try:
        if job.engines_only:
            return FileRun(file, _build(experiment, job), None)
        record, page = _measure(experiment, job)
    except RankError:
        raise  # the process group is lost: no other experiment can run
    except Exception as error:  # noqa: BLE001 - a bug in one experiment must not stop the others
        missing = isinstance(error, ModuleNotFoundError) and missing_dependency(error)
        if known := missing or (error if isinstance(error, AlignkitError) else None):
            code, message = print_error(known, file), str(known)
        else:
            traceback.print_exc()
            print(f"{file}: {DEFECT}", file=sys.stderr)
            code, message = ExitCode.CRASHED, f"{type(error).__name__}: {error}"
        return FileRun(file, code, time.monotonic() - began, message=message)
    code = ExitCode(record.verdict.exit_code)
    return FileRun(file, code, time.monotonic() - began, record, page)


def _measure(experiment: Experiment, job: _Job) -> tuple[RunRecord, Path]:
    from alignkit.gate import run_or_check
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.terminal_view import summary
    from alignkit.report.write_report import kept_report

    record, folder = run_or_check(experiment, job.context, fresh=job.fresh, cells=job.cells)
    written = kept_report(folder, job.wanted)
    if job.documents is None:
        print(summary(record, written.page))
    else:
        results = results_from_record(record).model_copy(update={"report": str(written.page)})
        job.documents.append(results_text(results))
    tell_left_out(written)
    open_page(written.page, wanted=job.open)
    return record, written.page


def _tell_files(runs: Sequence[FileRun], job: _Job, open_: bool | None) -> None:
    """Print the table of all files, write the page that leads to theirs, and open it."""
    from alignkit.report.files_page import files_text, write_files_page

    # an override that is refused may hold a password
    command = shlex.join(["alignkit", *map(without_secrets, sys.argv[1:])])
    page = write_files_page(runs, job.context.workspace, command)
    if job.documents is None:
        print(f"\n{files_text(runs)}\nall pages  {page}")
    open_page(page, wanted=open_)


def _build(experiment: Experiment, job: _Job) -> ExitCode:
    from alignkit.record.study_documents import EngineBuilds
    from alignkit.runner.engines_only import build_engines
    from alignkit.text.names import facts_of_paths
    from alignkit.version import __version__

    engines = build_engines(experiment, job.context, cells=job.cells)
    if job.documents is None:
        print(_engines_text(engines, facts_of_paths(experiment.paths)))
    else:
        document = EngineBuilds(
            alignkit=__version__,
            name=experiment.name,
            file=str(experiment.file),
            command=shlex.join(["alignkit", *sys.argv[1:]]),
            engines=engines,
        )
        job.documents.append(document.model_dump_json(indent=1))
    absent = [each for each in engines if each.engine is None]
    if not absent:
        return ExitCode.PASS
    return ExitCode.MISSING if all(each.missing for each in absent) else ExitCode.CRASHED


def _engines_text(engines: Sequence[BuiltEngine], facts: Sequence[PathFacts]) -> str:
    from alignkit.text import columns
    from alignkit.text.measured import layer_words
    from alignkit.text.names import Names, surrogate_lines
    from alignkit.text.numbers import megabytes

    rows: list[tuple[str, ...]] = [("model", "runtime", "layers that compute", "size", "SHA-256")]
    for each in engines:
        found = (
            (layer_words(each.engine), megabytes(each.engine.size), each.engine.sha256)
            if each.engine
            else (f"{'CANNOT BE BUILT HERE' if each.missing else 'FAILED'}: {each.reason}", "", "")
        )
        model = f"{Names(facts).short(each.trained_with)} seed {each.seed}"
        rows.append((model, f"{each.backend} {each.precision}", *found))
    lines = [*surrogate_lines(facts), columns(rows)]
    if any(each.engine for each in engines):
        lines += ["", "built here, not run: no prediction of these engines is known"]
    return "\n".join(lines)
