"""Groups of commands: that of all, which imports a command when it is called, and one kind more.

The other kind runs a default command unless a word names another one.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperGroup

from alignkit.datasets import listed_once
from alignkit.errors import ExitCode, interruption_code
from alignkit.rank import this_rank
from alignkit.removed import instead_of


def _reader_left() -> bool:
    """Tell whether nobody reads the output any more, as after ``| head``."""
    import select

    ends = select.poll()
    for stream in (sys.stdout, sys.stderr):
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


_KEEPING = ("run", "gate", "baseline record")
"""Commands that keep finished work below ``--reports``, without the option too."""


_OTHER_NAMES = {"--paths": "--preprocess", "--path": "--preprocess"}
"""Names that people type for an option, whose letters lead to others."""


class Late(NamedTuple):
    """A command or group that is imported when it is called or asked for its own help."""

    target: str
    """Module in this folder and attribute: a function, or the `typer.Typer` of a group."""
    summary: str
    """First sentence of its help."""


COMMANDS = {
    "run": Late(
        "run_command:run", "Train matched models, evaluate every cell, and write the report."
    ),
    "plan": Late("plan_command:plan", "Show the work of a run without doing it."),
    "check": Late(
        "check_command:check",
        "Report every mistake in experiment files; run nothing, "
        "and read no image but the first mask.",
    ),
    "diff": Late(
        "diff_command:diff",
        "Compare preprocessing stacks on any images, stage by stage, without labels.",
    ),
    "bisect": Late(
        "bisect_command:bisect",
        "Find the first layer at which two runtimes of a model, or two graphs, diverge.",
    ),
    "tolerance": Late(
        "tolerance_command:tolerance",
        "Find how much difference of logits and of pixels the models of a run bear.",
    ),
    "bench": Late(
        "bench_command:bench",
        "Time every serving option under load, beside its drift; with --loaders, data loaders.",
    ),
    "compare-runs": Late(
        "report_command:compare",
        "Compare two runs: verdict, drift of recall, precision and churn, images, pixels.",
    ),
    "list": Late(
        "list_command:list_names",
        "List the names that a file can use: those that run here, and why the others do not.",
    ),
    "doctor": Late(
        "doctor_command:doctor",
        "Describe this machine: versions, codecs, extras, and a self-test of its decoders.",
    ),
    "match": Late(
        "match_command:match",
        "Find the configurations on this machine whose pixels are nearest to a serving stack's.",
    ),
    "calibrate": Late(
        "calibrate_command:calibrate",
        "Measure surrogates against the real stacks, or find the rule that made given pixels.",
    ),
    "gate": Late(
        "gate_command:app",
        "Fail if preprocessing or its effect on a model drifts past the rules in a file.",
    ),
    "baseline": Late(
        "baseline_command:app", "Record, show, review and approve the baseline of a gate."
    ),
    "report": Late(
        "report_command:report", "Render the report of a run or bench again from its record."
    ),
    "data": Late(
        "data_command:app",
        "Describe a data set (`stats`), or split it (`split`).",
    ),
}
"""All commands."""
_GROUPS = {
    "Measure": ("run", "plan", "check", "diff", "match", "bench", "bisect", "tolerance", "data",
                "report", "compare-runs"),
    "Guard": ("gate", "baseline"),
    "This machine": ("doctor", "list", "calibrate"),
}  # fmt: skip
"""Their order in the help."""
_BEGINNINGS = (
    ("nothing yet", "run experiments/quickstart.yaml --quick"),
    ("images and two stacks", "diff IMAGES -p pillow-train -p torchpipe-cpu"),
    ("images and a model", "diff IMAGES --model FILE.onnx -p pillow-train -p torchpipe-cpu"),
    ("a repository with CI", "gate experiments/gate.yaml"),
)
"""Where to begin: a thing that a user has, and the words after ``alignkit``."""


class _Imported(Mapping[str, Any]):
    """Commands as typer's groups keep them; a value imports its module."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        return _imported(name)


@cache  # a process that calls a command often, as tests do, reads its parameters once
def _imported(name: str) -> Any:
    module, _, attribute = COMMANDS[name].target.partition(":")
    found = getattr(import_module(f"alignkit.cli.{module}"), attribute)
    around = typer.Typer(add_completion=False, rich_markup_mode=None)
    around.callback()(lambda: None)  # without one, typer makes a single command no group
    if isinstance(found, typer.Typer):
        around.add_typer(found)
    else:
        around.command(name)(found)
    return cast("TyperGroup", typer.main.get_command(around)).commands[name]


class Commands(TyperGroup):
    """Top-level group; it imports one command, that which is called.

    It suggests the subcommand if an unknown command exists in a group.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = cast("dict[str, Any]", _Imported())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's
        """Return the names, without importing the commands."""
        return [*COMMANDS]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's
        """Write each command's summary by group, without importing it."""
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name].summary) for name in names])

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what alignkit does, and where to begin with what one has."""
        super().format_help_text(ctx, formatter)
        formatter.write("\n  I have …                   → type …\n")
        for have, line in _BEGINNINGS:  # whole lines, to be copied
            formatter.write(f"  {have:<27}→ alignkit {line}\n")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; name the command that continues if Ctrl-C or SIGTERM ends it."""
        try:
            with listed_once():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            rank = this_rank()
            if not rank.number:  # the first of the processes of torchrun speaks for all
                words = " ".join(sys.argv[1:3])
                kept = any(f"{words} ".startswith(f"{each} ") for each in _KEEPING)
                if words.startswith("diff "):
                    kept = any(each.partition("=")[0] == "--reports" for each in sys.argv)
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
            # Python flushes it at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.CRASHED) from error
        except Exception as error:
            # the class of typer's error is not public; it suggests options that are spelled alike
            refused: Any = error
            option = getattr(refused, "option_name", "")
            # the program may be called `python -m alignkit`
            if option and (
                gone := instead_of(
                    refused.ctx.command_path.removeprefix(refused.ctx.find_root().command_path)[1:]
                    + f" {option}"
                )
            ):
                refused.ctx.fail(f"No such option {option}{gone}")
            other = _OTHER_NAMES.get(option)
            if other and any(other in each.opts for each in refused.ctx.command.params):
                refused.possibilities = [other]
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command as typer does; fail with a suggestion for an unknown one."""
        word = args[0]
        for words in (word, " ".join(args[:2])):
            if gone := instead_of(words):
                ctx.fail(f"No such command '{words}'{gone}")
        if word not in COMMANDS and word != DEFAULT:
            for name, each in self.commands.items():
                if isinstance(each, TyperGroup) and word in each.commands:
                    ctx.fail(f"No such command '{word}'. Did you mean '{name} {word}'?")
            from alignkit.plugins import nearest

            if near := nearest(word, COMMANDS):
                ctx.fail(f"No such command '{word}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)


class WithDefault(TyperGroup):
    """Group that runs its default command unless the first word names another of its commands."""

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the selected command; the default command uses the group's name."""
        first = args[0] if args else ""
        if first in self._named():
            # `alignkit gate thresholds` with a file ./thresholds: either could be meant
            if len(args) == 1 and parent is not None and Path(first).exists():
                parent.fail(f"'{first}' is a command. Did you mean the file './{first}'?")
        # a shell that completes parses an empty line, and must see the group's own commands
        elif first not in ("-h", "--help") and not (extra.get("resilient_parsing") and not args):
            from alignkit.plugins import nearest

            near = nearest(first, self._named())
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
