"""Arguments and messages that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.errors import AlignkitError, ConfigError, ExitCode
from alignkit.progress import Progress, ProgressMode, progress_for
from alignkit.stored_file import output_paths
from alignkit.text import printable

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.report.files_page import FileRun

Files = Annotated[list[Path], typer.Argument(help="Experiment files in YAML.")]
GateFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="YAML file of the gate or experiment.")
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a value of the file, e.g. train.epochs=2."
    ),
]
Cells = Annotated[
    list[str],
    typer.Option(
        "--cell",
        metavar="TRAINED/EVALUATED/BACKEND/PRECISION",
        help="Only this cell, or those of a pattern with *, and the reference; repeatable.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Take a first look: fewer images and epochs, one seed; no evidence."
    ),
]
Reports = Annotated[
    Path, typer.Option("--reports", metavar="DIR", help="Folder for runs and finished work.")
]
EngineNames = Annotated[
    Literal["local", "dask", "ray"],
    typer.Option(
        "--engine",
        help="Where lots of 512 images are prepared, compared and, in diff, predicted: all equal.",
    ),
]
ClusterAddress = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Cluster of --engine: tcp://HOST:8786 for dask, ray://HOST:10001 or auto for ray; by "
        "default workers are started here.",
    ),
]
EngineWorkers = Annotated[
    int | None,
    typer.Option(min=1, help="Workers that --engine starts here; by default one per CPU."),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Compare only every N-th lot of 512 images and store it in --reports; the same "
        "command without --shard then adds up all.",
    ),
]
Baselines = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="DIR",
        help="Folder of the baselines; by default alignkit.baseline next to the file.",
    ),
]
Out = Annotated[
    list[str],
    typer.Option(
        "--out",
        metavar="KIND=PATH",
        help="Also write this kind of `alignkit list outputs`; repeatable; github=- prints it.",
    ),
]
JsonOut = Annotated[
    list[str],
    typer.Option("--out", metavar="json=FILE", help="Also write the result; repeatable."),
]
PageOut = Annotated[
    list[str],
    typer.Option(
        "--out", metavar="KIND=PATH", help="Also write json=FILE or html=DIR; repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors to stderr.")]
ProgressOption = Annotated[
    ProgressMode,
    typer.Option("--progress", help="auto: live on a terminal, plain lines elsewhere."),
]
ExitZero = Annotated[
    bool, typer.Option("--exit-zero", help="Exit with 0 instead of 1 (drift) or 7 (inconclusive).")
]
NoPage = Annotated[bool, typer.Option("--no-html", help="Do not write the HTML report.")]
Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open the report in a browser; by default on a terminal outside CI.",
    ),
]
SingleFile = Annotated[
    bool,
    typer.Option("--single-file", help="Write one HTML file with about 20 images, at most 15 MB."),
]
ImagesOption = Annotated[
    str,
    typer.Option(
        "--images",
        metavar="none|N|all",
        help="Images to show per pair of paths and reason; by default all that the run stored.",
    ),
]
MaxReportSize = Annotated[
    str,
    typer.Option(
        "--max-report-size",
        metavar="SIZE",
        help="Omit images until the report fits this size, e.g. 100MB.",
    ),
]


def print_error(error: AlignkitError, file: Path) -> ExitCode:
    """Print a user's error with its file on stderr, without ending the command.

    Returns the error's exit code.
    """
    # mistakes in a file carry its line; others do not say which of several files it was
    located = str(error).startswith((str(file), "--set "))
    print(printable(str(error) if located else f"{file}: {error}"), file=sys.stderr)
    return error.exit_code


def load_files(
    files: Sequence[Path], overrides: Sequence[str], *, quick: bool = False
) -> tuple[list[Experiment], list[FileRun]]:
    """Load experiments; return them with the files that have mistakes, which it prints."""
    from alignkit.experiment import load_experiment

    experiments, wrong = [], []
    for file in files:
        try:
            experiments.append(load_experiment(file, overrides, quick=quick))
        except AlignkitError as error:
            from alignkit.report.files_page import FileRun

            wrong.append(FileRun(file, print_error(error, file), None, message=str(error)))
    return experiments, wrong


def json_paths(out: Sequence[str]) -> list[Path]:
    """Return the files of ``--out json=FILE``; raises `ConfigError` for another kind."""
    return [path for _, path in output_paths(out, ("json",))]


def refuse_outputs(outputs: Sequence[object], *, as_json: bool = False) -> None:
    """Raise `ConfigError` for the outputs of a shard, which has no result."""
    if outputs or as_json:
        raise ConfigError(
            "--shard has no result of its own; leave --out and --json to the same command without "
            "it"
        )


def tell_stored(lots: int, images: int, reports: Path | None) -> None:
    """Print how many of the lots of all images a shard has stored."""
    from alignkit.lots import lot_count

    print(
        f"{lots} of {lot_count(images)} lots are stored below {reports}; when all shards are, run "
        "the same command without --shard"
    )


def listed(texts: Sequence[str]) -> list[str]:
    """Return the names of a repeated option, each of which may be several with commas.

    A mapping and the name of a file that exists stay whole.

    >>> listed(["opencv,pillow", "torch", "{preset: plsc, size: 112}"])
    ['opencv', 'pillow', 'torch', '{preset: plsc, size: 112}']
    """
    names = []
    for text in texts:
        # Path.exists raises for a text longer than a file's name may be
        whole = "{" in text or os.path.exists(text)  # noqa: PTH110
        names += [text] if whole else [name.strip() for name in text.split(",") if name.strip()]
    return names


def display(progress: ProgressMode, *, quiet: bool) -> Progress:
    """Return the display that ``--progress`` and ``--quiet`` ask for."""
    return progress_for("none" if quiet else progress)


def open_page(page: Path, *, wanted: bool | None) -> None:
    """Open a page in the browser if requested or if the session is interactive."""
    # without a display, webbrowser would start a text browser in the terminal
    display = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    watched = on_terminal() and not os.environ.get("CI") and display
    if wanted or (wanted is None and watched):
        import webbrowser

        # a relative path is no address of a page
        webbrowser.open(page.resolve().as_uri())


def on_terminal() -> bool:
    """Tell whether stdout is a terminal, not a pipe or file."""
    return sys.stdout.isatty()
