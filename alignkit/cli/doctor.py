"""`alignkit doctor`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from alignkit.cli.arguments import Json
from alignkit.errors import ExitCode
from alignkit.plugins import UNPROVEN
from alignkit.text.columns import columns

if TYPE_CHECKING:
    from alignkit.backends import Usable
    from alignkit.decoders.decoder_check import DecoderCheck
    from alignkit.plugins import Plugin
    from alignkit.record import Environment


def doctor(as_json: Json = False) -> None:
    """Report versions, decoder self-tests, and the plugins that this machine can use.

    Exits with 0 if everything in the base install works here.
    """
    from alignkit.backends import usable_backends
    from alignkit.decoders.decoder_check import self_test
    from alignkit.findings.environment import environment

    found = environment()
    tested = self_test()
    plugins = _plugins()
    if as_json:
        document = {
            "environment": found.model_dump(),
            "self_test": [asdict(each) | {"passed": each.passed} for each in tested],
            "backends": [asdict(each) for each in usable_backends()],
            "plugins": {name: plugin.missing() for name, plugin in plugins.items()},
            "unproven": [name for name, plugin in plugins.items() if plugin.unproven],
        }
        print(json.dumps(document, indent=1))
    else:
        parts = (_environment(found), _self_test(tested), _backends(), _missing(plugins))
        print(*parts, sep="\n\n")
    raise typer.Exit(_exit_code(plugins, tested))


def _plugins() -> dict[str, Plugin]:
    from alignkit.backends import BACKENDS
    from alignkit.datasets import DATASETS
    from alignkit.decoders import DECODERS
    from alignkit.resizers import RESIZERS

    families = {
        "decoder": DECODERS, "resizer": RESIZERS, "backend": BACKENDS, "dataset": DATASETS
    }  # fmt: skip
    return {
        f"{family} {name}": plugin
        for family, table in families.items()
        for name, plugin in table.items()
    }


def _environment(found: Environment) -> str:
    facts = [
        ("python", found.python),
        ("platform", found.platform),
        ("cpu", f"{found.cpu}, {found.cores} cores"),
        ("extensions", found.extensions),
        ("gpu", found.gpu),
        ("git", found.git or "not in a git repository"),
    ]
    tables = {"versions": found.versions, "codecs": found.codecs, "flags": found.flags}
    parts = ["environment", columns(facts, indent="  ")]
    for title, table in tables.items():
        parts += ["", title, columns(list(table.items()), indent="  ")]
    return "\n".join(parts)


def _self_test(tested: list[DecoderCheck]) -> str:
    rows = [("decoder", "file", "outcome", "pixels", "sha-256")]
    rows += [(t.decoder, t.kind, t.outcome, t.finding, t.sha256[:12]) for t in tested]
    return f"decoder self-test\n{columns(rows, indent='  ')}"


def _backends() -> str:
    """Format one line per backend and device, and one per reason that something cannot run."""
    from alignkit.backends import usable_backends

    groups: dict[tuple[str, str], list[Usable]] = {}
    for each in usable_backends():
        groups.setdefault((each.backend, each.device), []).append(each)
    rows = [("backend", "version", "usable", "not usable, and reason")]
    for (name, device), members in groups.items():
        usable = ", ".join(each.precision for each in members if not each.reason)
        reasons: dict[str, list[str]] = {}
        for each in members:
            if each.reason:
                reasons.setdefault(each.reason, []).append(each.precision)
        lines = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()] or [""]
        rows.append((f"{name} {device}", members[0].version or "none", usable or "-", lines[0]))
        rows += [("", "", "", line) for line in lines[1:]]
    return f"backends\n{columns(rows, indent='  ')}"


def _missing(plugins: dict[str, Plugin]) -> str:
    rows = [(name, plugin.missing()) for name, plugin in plugins.items() if plugin.missing()]
    usable = f"plugins\n  {len(plugins) - len(rows)} of {len(plugins)} usable"
    if unproven := [name for name, plugin in plugins.items() if plugin.unproven]:
        usable += f"\n  {UNPROVEN}: {', '.join(unproven)}"
    return f"{usable}\n{columns(rows, indent='  ')}" if rows else usable


def _exit_code(plugins: dict[str, Plugin], tested: list[DecoderCheck]) -> ExitCode:
    base = [plugin for plugin in plugins.values() if not plugin.extra and not plugin.gpu]
    if any(plugin.missing() for plugin in base):
        return ExitCode.MISSING
    return ExitCode.PASS if all(each.passed for each in tested) else ExitCode.CRASHED
