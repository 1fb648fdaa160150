"""`GateResult` → standard output, files, and the files that a CI system reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from alignkit.errors import ConfigError
from alignkit.gate.outputs import OUTPUTS, GateOutput, GateResult
from alignkit.plugins import did_you_mean, find_plugin
from alignkit.workspace import explained, write_atomically

STEP_SUMMARY = 900 * 1024
"""Bytes; GitHub refuses a step's summary above 1 MiB."""


def targets(arguments: Sequence[str]) -> list[tuple[GateOutput, Path]]:
    """Parse ``KIND=PATH``; raises `ConfigError` for an unknown kind or a missing path."""
    parsed = []
    for text in arguments:
        kind, equals, path = text.partition("=")
        if not equals or not path:
            raise ConfigError(f"--out {text}: write it as KIND=PATH, for example junit=junit.xml")
        parsed.append((output(kind), Path(path)))
    return parsed


def output(kind: str) -> GateOutput:
    """Load the output of that name; an unknown one raises `ConfigError` with the nearest."""
    if kind not in OUTPUTS:
        raise ConfigError(f"no output {kind!r}{did_you_mean(kind, OUTPUTS)}")
    built: GateOutput = find_plugin("outputs", OUTPUTS, kind).load()()
    return built


def deliver(result: GateResult, *, form: str, to: Sequence[tuple[GateOutput, Path]]) -> None:
    """Print one form and write the others; for ``github``, the step's summary and outputs too."""
    for rendered, path in to:
        write_atomically(path, rendered.render(result))
    print(output(form).render(result), end="")
    if form == "github":
        from alignkit.gate.outputs.github import step_outputs

        summary = output("md").render(result).encode()[:STEP_SUMMARY].decode(errors="ignore")
        _append("GITHUB_STEP_SUMMARY", summary)
        _append("GITHUB_OUTPUT", step_outputs(result))


def _append(variable: str, text: str) -> None:
    path = os.environ.get(variable)
    if path:
        with explained(Path(path)), Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
