"""`alignkit bench-loaders`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import (
    Json,
    Open,
    Overrides,
    PageOut,
    ProgressOption,
    Quick,
    Quiet,
    Reports,
    display,
)
from alignkit.cli.bench_command import tell_bench, timed_code
from alignkit.errors import ConfigError
from alignkit.stored_file import output_paths
from alignkit.text.numbers import byte_count


def bench_loaders(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file in YAML.")],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    quick: Quick = False,
    images: Annotated[int, typer.Option(min=1, help="Images of an epoch, at most.")] = 200,
    batch: Annotated[int, typer.Option(min=1, help="Images of a batch.")] = 16,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each loader, in turn.")] = 12,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes or threads of a loader; by default one a CPU."),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Search the largest batch that fits, e.g. in 4GB."),
    ] = "",
    cpus: Annotated[
        int | None, typer.Option(min=1, help="CPUs for each loader; by default all.")
    ] = None,
    reports: Reports = Path("reports"),
    as_json: Json = False,
    out: PageOut = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
    open_: Open = None,
) -> None:
    """Time torch's DataLoader, MixedLoader and DALI on every path of a file.

    Gives images a second, memory, the largest batch, and the drift of their pixels;
    no model is needed. Exit codes: 0 all loaders that can run here were timed · 2 usage · 3 one
    failed · 4 none can run here · 5 no image.
    """
    limit, files = _memory(memory), output_paths(out, ("html", "json"), folders=("html",))
    from alignkit.experiment import load_experiment
    from alignkit.studies.bench.loaders import LoaderLoad
    from alignkit.studies.bench.loaders import bench_loaders as time_loaders
    from alignkit.text.loader_words import loader_text
    from alignkit.workspace import Context, Workspace

    experiment = load_experiment(file, overrides, quick=quick)
    context = Context(Workspace(reports), display(progress, quiet=quiet))
    load = LoaderLoad(images, batch, epochs, workers, limit)
    words = ["alignkit", *sys.argv[1:]]
    found = time_loaders(experiment, context, load, cpus=cpus, words=words)
    tell_bench(found, loader_text, files, as_json=as_json, open_=open_)
    raise typer.Exit(timed_code(each.state for each in found.record.loaders))


def _memory(text: str) -> int | None:
    """Read ``--memory``; raises `ConfigError` for anything but a size."""
    if not text:
        return None
    size = byte_count(text)
    if not size:
        raise ConfigError(f"--memory {text}: give a size, for example 4GB")
    return size
