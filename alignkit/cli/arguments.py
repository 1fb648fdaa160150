"""Arguments, groups and messages that several commands share."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from alignkit.errors import AlignkitError, ConfigError, ExitCode, interruption_code
from alignkit.progress import ProgressMode
from alignkit.rank import this_rank
from alignkit.text import printable

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment

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
        help="Only this cell and its reference; repeatable.",
    ),
]
Reports = Annotated[
    Path, typer.Option("--reports", metavar="DIR", help="Folder for runs and finished work.")
]
Baselines = Annotated[
    Path | None,
    typer.Option(
        "--baselines",
        metavar="DIR",
        help="Folder of the baselines; by default alignkit.baseline next to the file.",
    ),
]
Form = Annotated[
    str, typer.Option("--format", help="Format to print; see `alignkit list outputs`.")
]
Out = Annotated[
    list[str],
    typer.Option("--out", metavar="KIND=PATH", help="Also write this format; repeatable."),
]
JsonOut = Annotated[
    list[str], typer.Option("--out", metavar="json=PATH", help="Also write the result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors to stderr.")]
ProgressOption = Annotated[
    ProgressMode,
    typer.Option("--progress", help="auto: live on a terminal, plain lines elsewhere."),
]
ExitZero = Annotated[
    bool, typer.Option("--exit-zero", help="Exit with 0 instead of 1 (drift) or 7 (inconclusive).")
]
WithReport = Annotated[bool, typer.Option("--report/--no-report", help="Write the HTML report.")]
Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open the report in a browser; by default on a terminal outside CI.",
    ),
]
SingleFile = Annotated[
    bool,
    typer.Option(
        "--single-file", help="Write one HTML file with the 20 worst images, at most 15 MB."
    ),
]
ImagesOption = Annotated[
    str,
    typer.Option(
        "--images",
        metavar="none|worst:N|all",
        help="Images to show per pair of paths; by default all that the run stored.",
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
    files: Sequence[Path], overrides: Sequence[str]
) -> tuple[list[Experiment], list[ExitCode]]:
    """Load experiments; return them with the exit codes of invalid files, which it prints."""
    from alignkit.experiment import load_experiment

    experiments, codes = [], []
    for file in files:
        try:
            experiments.append(load_experiment(file, overrides))
        except AlignkitError as error:
            codes.append(print_error(error, file))
    return experiments, codes


def json_paths(out: Sequence[str]) -> list[Path]:
    """Return the files of ``--out json=PATH``; raises `ConfigError` for another kind."""
    paths = []
    for text in out:
        kind, _, path = text.partition("=")
        if kind != "json" or not path:
            raise ConfigError(f"--out {text}: expected json=PATH")
        paths.append(Path(path))
    return paths


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


@contextmanager
def asking() -> Iterator[None]:
    """Take the end of a user's input as Ctrl-C."""
    try:
        yield
    except (EOFError, typer.Abort) as error:
        raise KeyboardInterrupt from error


def _reader_left() -> bool:
    """Tell whether nobody reads the output any more, as after ``| head``."""
    import select

    ends = select.poll()
    for stream in (1, 2):
        ends.register(stream, 0)
    return any(event & select.POLLERR for _, event in ends.poll(0))


def _this_command(processes: int) -> str:
    if processes == 1:
        return shlex.join(["alignkit", *sys.argv[1:]])
    # torchrun takes the processes of this machine, not those of the group
    here = os.environ.get("LOCAL_WORLD_SIZE", str(processes))
    return shlex.join(["torchrun", "--nproc-per-node", here, "-m", "alignkit", *sys.argv[1:]])


DEFAULT = "default"
"""Internal name of a group's default command; users never type it."""


_KEEPING = ("run", "build", "gate", "baseline record", "review")
"""Commands that keep finished work below ``--reports``."""


class Commands(TyperGroup):
    """Top-level group; it suggests the subcommand if an unknown command exists in a group."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; name the command that continues if Ctrl-C or SIGTERM ends it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            rank = this_rank()
            if not rank.number:  # the first of the processes of torchrun speaks for all
                words = " ".join(sys.argv[1:3])
                kept = any(f"{words} ".startswith(f"{each} ") for each in _KEEPING)
                message = (
                    "; finished work is kept. Continue with:" if kept else ". Begin again with:"
                )
                print(f"interrupted{message}\n  {_this_command(rank.world)}", file=sys.stderr)
            raise typer.Exit(interruption_code(error)) from error
        # typer would end with 1, which means drift
        except (EOFError, typer.Abort) as error:
            raise RuntimeError("an input ended that no user was asked for") from error
        except BrokenPipeError as error:
            if not _reader_left():
                raise RuntimeError("a pipe broke that is not the output") from error
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes it at the end
            raise typer.Exit(ExitCode.CRASHED) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command as typer does; fail with a suggestion for an unknown one."""
        word = args[0]
        if word not in self.commands and word != DEFAULT:
            for name, each in self.commands.items():
                if isinstance(each, TyperGroup) and word in each.commands:
                    ctx.fail(f"No such command '{word}'. Did you mean '{name} {word}'?")
        return super().resolve_command(ctx, args)


class WithDefault(TyperGroup):
    """Group that runs its default command unless the first word names another of its commands."""

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the selected command; the default command uses the group's name."""
        first = args[0] if args else ""
        if first in self._named():
            # `alignkit gate calibrate` with a file ./calibrate: either could be meant
            if len(args) == 1 and parent is not None and Path(first).exists():
                parent.fail(f"'{first}' is a command. Did you mean the file './{first}'?")
        # a shell that completes parses an empty line, and must see the group's own commands
        elif first not in ("-h", "--help") and not (extra.get("resilient_parsing") and not args):
            near = get_close_matches(first, self._named(), n=1)
            if near and parent is not None and not Path(first).exists():
                parent.fail(f"No such file or command '{first}'. Did you mean '{near[0]}'?")
            return self.commands[DEFAULT].make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _named(self) -> list[str]:
        return [name for name in self.commands if name != DEFAULT]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the default command's help, then the other commands."""
        default = self.commands[DEFAULT]
        default.format_help(typer.Context(default, ctx.parent, ctx.info_name), formatter)
        self.format_commands(ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the short help of the default command."""
        return self.commands[DEFAULT].get_short_help_str(limit)
