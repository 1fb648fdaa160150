"""The `alignkit` command: files of subcommands, which parse, call and return an exit code.

Results go to stdout, everything else to stderr. A command is imported when it is called, and
imports heavy libraries when it needs them.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from alignkit.cli.commands import Commands
from alignkit.errors import (
    DEFECT,
    STUCK,
    AlignkitError,
    ConfigWarning,
    ExitCode,
    Terminated,
    interruption_code,
)
from alignkit.extras import missing_dependency
from alignkit.version import __version__

app = typer.Typer(
    name="alignkit",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:  # typer calls it without the option as well
        print(f"alignkit {__version__}")
        raise typer.Exit


@app.callback()
def alignkit(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Measure how far an image model drifts if training and serving differ."""


def _format(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a warning; one meant for the user omits the source location."""
    if issubclass(category, ConfigWarning):
        return f"warning: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n{line or ''}"


def main() -> None:
    """Run the command line; errors that a user can act on are shown without a traceback."""
    try:
        _run()
    except SystemExit as end:
        if any(thread.name == STUCK for thread in threading.enumerate()):
            # Python's end around such a thread can crash, which would change the exit code
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # closed, or nobody reads it
                    stream.flush()
            os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _run() -> None:
    # Python would print the source line of ours that warned
    warnings.formatwarning = _format
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with _reserved_stdout():
            app()
    except AlignkitError as error:
        _end(error)
    except Exception as error:  # noqa: BLE001 - Python's status 1 would mean drift here
        if isinstance(error, ModuleNotFoundError) and (missing := missing_dependency(error)):
            _end(missing)
        traceback.print_exc()
        print(DEFECT, file=sys.stderr)
        sys.exit(ExitCode.CRASHED)
    except KeyboardInterrupt as error:  # a second one, while the first was being handled
        sys.exit(interruption_code(error))
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(error: AlignkitError) -> NoReturn:
    from alignkit.text import printable

    print(printable(str(error)), file=sys.stderr)
    sys.exit(error.exit_code)


@contextmanager
def _reserved_stdout() -> Iterator[None]:
    """Keep stdout for our results; libraries that write to descriptor 1 reach stderr."""
    results: Any = sys.stdout
    try:
        real = (results.fileno(), sys.stderr.fileno()) == (1, 2)
    except (AttributeError, OSError):  # closed, or replaced by a test or a notebook
        real = False
    if not real:
        yield
        return
    results.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = io.TextIOWrapper(
        os.fdopen(kept, "wb", buffering=0 if results.write_through else -1),
        encoding=results.encoding,
        errors=results.errors,
        line_buffering=results.line_buffering,
        write_through=results.write_through,
    )
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # as after `| head`: nobody reads the rest
            os.dup2(os.open(os.devnull, os.O_WRONLY), kept)
            sys.exit(ExitCode.CRASHED)
        finally:
            os.dup2(kept, 1)
            sys.stdout = results


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a signal handler's
    raise Terminated
