"""`alignkit doctor`: this machine, its libraries, and whether its decoders work."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from alignkit.backends import BACKENDS
from alignkit.cli.arguments import Json
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import ExitCode
from alignkit.extras import has_wheel
from alignkit.plugins import Plugin
from alignkit.resizers import RESIZERS
from alignkit.tasks import TASKS
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.decoders.decoder_check import DecoderCheck
    from alignkit.record import Environment


def doctor(as_json: Json = False) -> None:
    """Describe this machine: versions, codecs, extras, and a self-test of its decoders.

    `alignkit list` shows the names that a file can use here. Exit codes: 0 all of the base install
    works · 3 a decoder failed · 4 a library of the base install is missing.
    """
    from alignkit.decoders.decoder_check import self_test
    from alignkit.findings.environment import environment

    found = environment()
    tested = self_test()
    extras, missing, outside = _extras(), _missing(), _outside()
    if as_json:
        document = {
            "environment": found.model_dump(),
            "extras": extras,
            "missing": missing,
            "other_packages": outside,
            "self_test": [asdict(each) | {"passed": each.passed} for each in tested],
        }
        print(json.dumps(document, indent=1))
    else:
        parts = [_environment(found), _table("extras", extras), _self_test(tested)]
        if outside:
            parts.append(_table("plugins of other packages", outside))
        if missing:
            parts.append(_table("missing in the base install", missing))
        print(*parts, sep="\n\n")
    if missing:  # extras and GPUs are choices; a machine without them is healthy
        raise typer.Exit(ExitCode.MISSING)
    # another package's decoder may be one for other files than JPEG
    own = [each for each in tested if each.decoder in DECODERS.own]
    raise typer.Exit(ExitCode.PASS if all(each.passed for each in own) else ExitCode.CRASHED)


def _environment(found: Environment) -> str:
    facts = {
        "python": found.python,
        "platform": found.platform,
        "cpu": f"{found.cpu}, {found.cores} cores",
        "extensions": found.extensions,
        "gpu": found.gpu,
        "git": found.git or "not in a git repository",
    }
    tables = {
        "environment": facts, "versions": found.versions, "codecs": found.codecs,
        "flags": found.flags,
    }  # fmt: skip
    return "\n\n".join(_table(title, table) for title, table in tables.items())


def _table(title: str, table: dict[str, str]) -> str:
    return f"{title}\n{columns(list(table.items()), indent='  ')}"


def _self_test(tested: list[DecoderCheck]) -> str:
    """Format one line per finding of a decoder, with the files that it holds for."""
    files: dict[tuple[str, str, str], list[str]] = {}
    for each in tested:
        files.setdefault((each.decoder, each.outcome, each.finding), []).append(each.kind)
    rows = [("decoder", "outcome", "files", "pixels")]
    rows += [(name, outcome, ", ".join(kinds), finding)
             for (name, outcome, finding), kinds in files.items()]  # fmt: skip
    return f"decoder self-test\n{columns(rows, indent='  ')}"


def _plugins() -> dict[str, Plugin]:
    families = {
        "decoder": DECODERS, "resizer": RESIZERS, "backend": BACKENDS, "dataset": DATASETS,
        "task": TASKS,
    }  # fmt: skip
    return {
        f"{family} {name}": replace(plugin, broken=table.reason(name))
        for family, table in families.items()
        for name, plugin in table.items()
    }


def _extras() -> dict[str, str]:
    """Return each extra of the plugins with its library's version, or the command that installs it.

    A missing GPU does not matter here.
    """
    found: dict[str, str] = {}
    for plugin in _plugins().values():
        if plugin.extra:
            absent = f"not installed: pip install 'alignkit[{plugin.extra}]'"
            found.setdefault(plugin.extra, plugin.version() or absent)
    return found


def _outside() -> dict[str, str]:
    """Return the plugins of other packages, each with its version or why it does not run here."""
    return {
        name: f"{plugin.missing() or plugin.version()} (from {plugin.package})"
        for name, plugin in _plugins().items()
        if plugin.package
    }


def _missing() -> dict[str, str]:
    """Return the plugins of the base install that cannot run here, with the reason and the fix."""
    base = {
        name: each
        for name, each in _plugins().items()
        if not (each.extra or each.gpu or each.package) and has_wheel(each.module)
    }
    return {name: why for name, plugin in base.items() if (why := plugin.missing())}
