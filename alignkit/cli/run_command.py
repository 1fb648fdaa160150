"""`alignkit run`."""

from __future__ import annotations

import shlex
import sys
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
from alignkit.errors import AlignkitError, ConfigError, ExitCode, RankError, worst
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.record import PathFacts
    from alignkit.record.study_documents import BuiltEngine
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
    With several files the exit code is the first of these that occurred: 143, 130, 3, 4, 2, 5, 6,
    1, 7, 0. Finished work is kept: the same command continues an interrupted run. --json prints a
    list of results, one for each file that ran.

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
        experiments, codes = load_files(files, overrides, quick=quick)
        with chosen.when_used() as opened:
            shown = display(progress, quiet=quiet)
            context = Context(Workspace(reports), shown, rank, opened)
            documents: list[str] | None = [] if as_json else None
            job = _Job(context, fresh, engines_only, cells, wanted, open_, documents)
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
    engines_only: bool
    cells: list[str]
    wanted: ReportOptions
    open: bool | None
    documents: list[str] | None
    """Results as JSON, filled by every run; ``None`` to print each as text."""


def _run_one(experiment: Experiment, job: _Job) -> ExitCode:
    try:
        return _build(experiment, job) if job.engines_only else _measure(experiment, job)
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


def _measure(experiment: Experiment, job: _Job) -> ExitCode:
    from alignkit.gate import run_or_check
    from alignkit.report.kept_report import kept_report
    from alignkit.report.results import results_from_record, results_text
    from alignkit.report.terminal_view import summary

    record, folder = run_or_check(experiment, job.context, fresh=job.fresh, cells=job.cells)
    written = kept_report(folder, job.wanted)
    if job.documents is None:
        print(summary(record, written.page))
    else:
        results = results_from_record(record).model_copy(update={"report": str(written.page)})
        job.documents.append(results_text(results))
    tell_left_out(written)
    open_page(written.page, wanted=job.open)
    return ExitCode(record.verdict.exit_code)


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
    from alignkit.report.engine_view import layer_words, size_words
    from alignkit.text import columns
    from alignkit.text.names import Names, surrogate_lines

    names = Names(facts)
    rows: list[tuple[str, ...]] = [("model", "runtime", "layers that compute", "size", "SHA-256")]
    for each in engines:
        found = (
            (layer_words(each.engine), size_words(each.engine), each.engine.sha256)
            if each.engine
            else (f"{'CANNOT BE BUILT HERE' if each.missing else 'FAILED'}: {each.reason}", "", "")
        )
        model = f"{names.short(each.trained_with)} seed {each.seed}"
        rows.append((model, f"{each.backend} {each.precision}", *found))
    lines = [*surrogate_lines(facts), columns(rows)]
    if any(each.engine for each in engines):
        lines += ["", "built here, not run: no prediction of these engines is known"]
    return "\n".join(lines)
