"""`alignkit bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    Cells,
    Json,
    Open,
    Overrides,
    PageOut,
    ProgressOption,
    Quick,
    Quiet,
    Reports,
    display,
    listed,
    open_page,
)
from alignkit.errors import ConfigError, ExitCode
from alignkit.stored_file import output_paths
from alignkit.text.numbers import byte_count

if TYPE_CHECKING:
    from alignkit.studies.bench.begun_bench import BenchResult, TimedRecord

_CLIENTS, _REQUESTS = "1,5,10", 1000


def bench(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file in YAML.")],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    quick: Quick = False,
    clients: Annotated[
        list[str],
        typer.Option(metavar="K,…", help="Clients that each wait for their answer."),
    ] = [_CLIENTS],  # noqa: B006
    requests: Annotated[
        int,
        typer.Option(min=1, help="Least requests of each option and number of clients."),
    ] = _REQUESTS,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds in which the options take turns; of loaders, epochs.")
    ] = 12,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images of a request, by default 1; of loaders 16.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="CPUs for each option; by default all.")
    ] = None,
    loaders: Annotated[
        bool,
        typer.Option(
            "--loaders",
            help="Time torch's DataLoader, MixedLoader and DALI instead; no model needed.",
        ),
    ] = False,
    images: Annotated[
        int | None, typer.Option(min=1, help="Of loaders: images of an epoch, at most; 200.")
    ] = None,
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Of loaders: find the largest batch in e.g. 4GB."),
    ] = "",
    reports: Reports = Path("reports"),
    as_json: Json = False,
    out: PageOut = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
    open_: Open = None,
) -> None:
    """Time every serving option under load, beside its drift; with --loaders, data loaders.

    A serving option is a path × backend × precision of the file's model, on this machine or behind
    a live endpoint. Models are trained and exported as `alignkit run` does, and the drift
    is that of the run. Exit codes: 0 all options that can run here were timed · 2 usage · 3 one
    failed · 4 none can run here · 5 no image.
    """
    if loaders and (cells or clients != [_CLIENTS] or requests != _REQUESTS):
        raise ConfigError(
            "--clients, --requests and --cell are of serving options; leave them out with --loaders"
        )
    if not loaders and (memory or images is not None):
        raise ConfigError("--images and --memory are of loaders; add --loaders")
    size = byte_count(memory) if memory else None
    if memory and not size:
        raise ConfigError(f"--memory {memory}: give a size, for example 4GB")
    counts = _counts(clients)
    files = output_paths(out, ("html", "json"), folders=("html",))
    from alignkit.experiment import load_experiment
    from alignkit.report.bench_page import bench_text
    from alignkit.serve.rounds import Load
    from alignkit.studies.bench import bench as time_options
    from alignkit.workspace import Context, Workspace

    experiment = load_experiment(file, overrides, quick=quick)
    context = Context(Workspace(reports), display(progress, quiet=quiet))
    words = ["alignkit", *sys.argv[1:]]
    if loaders:
        from alignkit.report.timed_page import loader_text
        from alignkit.studies.bench.loaders import LoaderLoad, bench_loaders

        work = LoaderLoad(images or 200, batch or 16, rounds, size)
        ran = bench_loaders(experiment, context, work, cpus=cpus, words=words)
        _tell(ran, loader_text, files, as_json=as_json, open_=open_)
        raise typer.Exit(timed_code(each.state for each in ran.record.loaders))
    load = Load(counts, requests, rounds, batch or 1)
    if load.each_round < max(counts):
        raise ConfigError(
            f"--requests {requests}: a round has {load.each_round}, too few for {max(counts)} "
            f"clients; give at least {rounds * max(counts)}"
        )
    found = time_options(experiment, context, load, cpus=cpus, words=words, cells=cells)
    _tell(found, bench_text, files, as_json=as_json, open_=open_)
    raise typer.Exit(timed_code(each.state for each in found.record.options))


def _tell(
    found: BenchResult[TimedRecord],
    text: Callable[[TimedRecord, Path], str],
    files: Sequence[tuple[str, Path]],
    *,
    as_json: bool,
    open_: bool | None,
) -> None:
    """Render the page of a bench that is stored, print it, and write the ``files`` of ``--out``."""
    from alignkit.record.document import document_text
    from alignkit.report.bench_page import render_bench
    from alignkit.stored_file import write_output

    document, page = document_text(found.record), render_bench(found.folder)
    print(document if as_json else f"{text(found.record, found.folder)}\nreport     {page}")
    for kind, path in files:
        if kind == "json":
            write_output(path, document)
        else:
            render_bench(found.folder, path)
    open_page(page, wanted=open_)


def _counts(texts: list[str]) -> tuple[int, ...]:
    """Read the numbers of clients; raises `ConfigError` for anything else."""
    found = listed(texts)
    wrong = [each for each in found if not each.isdecimal() or not int(each)]
    if wrong or not found:
        named = wrong[0] if wrong else ""
        raise ConfigError(f"--clients {named}: give whole numbers above 0, for example 1,5,10")
    return tuple(sorted({int(each) for each in found}))


def timed_code(found: Iterable[str]) -> ExitCode:
    """Return the exit code for the states of what was to be timed."""
    states = {*found}
    if "failed" in states:
        return ExitCode.CRASHED
    return ExitCode.PASS if "measured" in states else ExitCode.MISSING
