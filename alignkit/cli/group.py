"""Groups with a default command: `alignkit gate FILE` and `alignkit gate calibrate FILE`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

DEFAULT = "default"
"""Internal name of a group's default command; users never type it."""


class Commands(TyperGroup):
    """Top-level group; it suggests the subcommand if an unknown command exists in a group."""

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
            _refuse_file_of_that_name(args, parent)
        elif first not in ("-h", "--help") and not (extra.get("resilient_parsing") and not args):
            self._refuse_typo(first, parent)
            return self.commands[DEFAULT].make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _named(self) -> list[str]:
        return [name for name in self.commands if name != DEFAULT]

    def _refuse_typo(self, first: str, parent: Any) -> None:
        near = get_close_matches(first, self._named(), n=1)
        if near and parent is not None and not Path(first).exists():
            parent.fail(f"No such file or command '{first}'. Did you mean '{near[0]}'?")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the default command's help, then the other commands."""
        default = self.commands[DEFAULT]
        default.format_help(typer.Context(default, ctx.parent, ctx.info_name), formatter)
        self.format_commands(ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the short help of the default command."""
        return self.commands[DEFAULT].get_short_help_str(limit)


def _refuse_file_of_that_name(args: list[str], parent: Any) -> None:
    if len(args) == 1 and parent is not None and Path(args[0]).exists():
        parent.fail(f"'{args[0]}' is a command. Did you mean the file './{args[0]}'?")
