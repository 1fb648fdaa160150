"""`alignkit conformance FAMILY NAME`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alignkit.cli.arguments import Json
from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.studies.conformance import Conformance


def conformance(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help="decoder, resizer, backend, dataset or task.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Plugin; see `alignkit list`.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE…]", help="Options of the plugin, as in a file."),
    ] = None,
    images: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Also decode these images; for a decoder; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Check that a plugin keeps the contract of its family; print each check with its numbers.

    Exit codes: 0 all checks passed · 1 one failed · 2 usage · 4 the plugin cannot run here ·
    5 no check could be made.
    """
    from alignkit.studies.conformance import conformance as check_plugin

    found = check_plugin(family, name, dict(map(_option, options or [])), images=images)
    print(json.dumps(asdict(found), indent=1) if as_json else _text(found))
    raise typer.Exit(found.exit_code)


def _option(text: str) -> tuple[str, Any]:
    from alignkit.experiment.yaml_source import parse

    key, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f"{text!r} is no option; give KEY=VALUE")
    source = parse(value, key)
    if source.problems:
        raise ConfigError(f"{text!r}: {source.problems[0].message}; put the value in quotes")
    return key, source.value


def _text(found: Conformance) -> str:
    from alignkit.text import columns

    package = f", from {found.package}" if found.package else ""
    version = f" ({found.version})" if found.version else ""
    rows = [(each.state, each.name, each.finding) for each in found.results]
    counts = ", ".join(
        f"{found.count(state)} {state}"
        for state in ("passed", "failed", "skipped")
        if found.count(state) or state != "skipped"
    )
    title = f"{found.family} {found.name}{version}{package}"
    return f"{title}\n{columns(rows, indent='  ')}\n{counts}"
