"""`alignkit review`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Baselines, Overrides, Reports, open_page
from alignkit.workspace import Workspace


def review(
    file: Annotated[Path, typer.Argument(help="YAML file of the gate or experiment.")],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="Reason for the decision; prompted for if omitted."),
    ] = None,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
) -> None:
    """Review the pending changes of a gate: accept, reject or skip each.

    Without a terminal, print the commands that approve them and change nothing. Refused in CI.
    """
    from alignkit.baseline.pending import Undecided, apply_decisions
    from alignkit.baseline.review import commands, headline, model_lines, walk
    from alignkit.experiment import load_experiment

    waiting = Undecided.of(load_experiment(file, overrides), Workspace(reports), baselines)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        for group in waiting.groups:
            print(f"# {headline(group)}; {waiting.cause(group)}")
        print("\n".join([*commands(waiting.groups, file), *model_lines(waiting.metrics(), file)]))
        return
    decided = walk(
        waiting.groups,
        cause=waiting.cause,
        key=lambda: str(typer.getchar()),
        say=print,
        show_report=lambda: _show(waiting.page),
    )
    if decided.accept and reason is None:
        reason = str(typer.prompt("reason"))
    approval = apply_decisions(waiting, decided, reason=reason or "")
    print(f"approved {len(approval.lines) if approval else 0} lines")
    for line in model_lines(waiting.metrics(), file):
        print(line)


def _show(page: Path | None) -> None:
    if page is None:
        print("no report found; run alignkit gate FILE")
    else:
        open_page(page, wanted=True)
