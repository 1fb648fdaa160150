"""`alignkit bench`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from alignkit.cli.arguments import (
    Cells,
    Json,
    JsonOut,
    Overrides,
    ProgressOption,
    Quick,
    Quiet,
    Reports,
    display,
    json_paths,
    listed,
)
from alignkit.errors import ConfigError, ExitCode
from alignkit.text.numbers import byte_count

What = Literal["serving", "loader"]
_ONLY: dict[What, tuple[str, ...]] = {
    "serving": ("cells", "clients", "requests", "rounds"),
    "loader": ("images", "epochs", "workers", "memory"),
}
"""Options that one kind of bench alone has."""


def bench(
    called: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file in YAML.")],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    quick: Quick = False,
    what: Annotated[
        What,
        typer.Option(help="serving: path × backend × precision; loader: files → batches."),
    ] = "serving",
    clients: Annotated[
        list[str],
        typer.Option(metavar="K,…", help="Clients that each wait for their answer."),
    ] = ["1,5,10"],  # noqa: B006
    requests: Annotated[
        int,
        typer.Option(min=1, help="Least requests of each option and number of clients."),
    ] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds in which the options take turns.")] = 9,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images of a request: 1; of a loader's batch: 16.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="CPUs for each option; by default all.")
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="Loader: images of an epoch, at most.")] = 200,
    epochs: Annotated[int, typer.Option(min=1, help="Loader: epochs in turn.")] = 12,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Loader: processes or threads; by default one for each CPU."),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Loader: search the largest batch that fits, e.g. in 4GB."
        ),
    ] = "",
    reports: Reports = Path("reports"),
    as_json: Json = False,
    out: JsonOut = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Time every serving option under a closed loop of clients, beside its drift; or loaders.

    A serving option is a path × backend × precision of the file's model, on this machine or behind
    a live endpoint. Models are trained and exported as `alignkit run` does, and the drift
    is that of the run. With --what loader it times torch's DataLoader, MixedLoader and DALI on
    every path of the file: images a second, growth of memory, largest batch, and the drift of their
    pixels; no model is needed. Exit codes: 0 all options that can run here were timed · 2 usage ·
    3 one failed · 4 none can run here · 5 no image.
    """
    _refuse_options_of_another(called, what)
    counts, limit = _counts(clients), _memory(memory)
    files = json_paths(out)
    from alignkit.experiment import load_experiment
    from alignkit.record.document import document_text
    from alignkit.stored_file import write_output
    from alignkit.workspace import Context, Workspace

    experiment = load_experiment(file, overrides, quick=quick)
    context = Context(Workspace(reports), display(progress, quiet=quiet))
    words = ["alignkit", *sys.argv[1:]]
    if what == "loader":
        from alignkit.studies.bench.loaders import LoaderLoad, bench_loaders
        from alignkit.studies.bench.loaders.loader_text import loader_text

        loaders = LoaderLoad(images, batch or LoaderLoad().batch, epochs, workers, limit)
        compared = bench_loaders(experiment, context, loaders, cpus=cpus, words=words)
        document = document_text(compared.record)
        text = loader_text(compared.record, compared.folder)
        code = _code(each.state for each in compared.record.loaders)
    else:
        from alignkit.serve.rounds import Load
        from alignkit.studies.bench import bench as time_options
        from alignkit.studies.bench.bench_text import bench_text

        load = Load(counts, requests, rounds, batch or 1)
        if load.each_round < max(counts):
            raise ConfigError(
                f"--requests {requests}: a round has {load.each_round}, too few for {max(counts)} "
                f"clients; give at least {rounds * max(counts)}"
            )
        found = time_options(experiment, context, load, cpus=cpus, words=words, cells=cells)
        document = document_text(found.record)
        text = bench_text(found.record, found.folder)
        code = _code(each.state for each in found.record.options)
    print(document if as_json else text)
    for path in files:
        write_output(path, document)
    raise typer.Exit(code)


def _counts(texts: list[str]) -> tuple[int, ...]:
    """Read the numbers of clients; raises `ConfigError` for anything else."""
    found = listed(texts)
    wrong = [each for each in found if not each.isdecimal() or not int(each)]
    if wrong or not found:
        named = wrong[0] if wrong else ""
        raise ConfigError(f"--clients {named}: give whole numbers above 0, for example 1,5,10")
    return tuple(sorted({int(each) for each in found}))


def _memory(text: str) -> int | None:
    """Read ``--memory``; raises `ConfigError` for anything but a size."""
    if not text:
        return None
    size = byte_count(text)
    if not size:
        raise ConfigError(f"--memory {text}: give a size, for example 4GB")
    return size


def _refuse_options_of_another(called: typer.Context, what: What) -> None:
    """Raise `ConfigError` for an option that only another kind of bench reads."""
    for other, names in _ONLY.items():
        sources = ((each, called.get_parameter_source(each)) for each in names)
        given = [name for name, source in sources if source and source.name != "DEFAULT"]
        if other != what and given:
            option = "cell" if given[0] == "cells" else given[0]
            raise ConfigError(f"--{option}: --what {what} has no such option; leave it out")


def _code(found: Iterable[str]) -> ExitCode:
    states = {*found}
    if "failed" in states:
        return ExitCode.CRASHED
    return ExitCode.PASS if "measured" in states else ExitCode.MISSING
