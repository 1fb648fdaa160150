"""Check that the rules of a gate fit the rest of their file; each mistake has its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic_core import InitErrorDetails

from alignkit.experiment.option import wrong
from alignkit.experiment.rule import Gate, Rule
from alignkit.plugins import did_you_mean


def misplaced(
    gate: Gate, *, paths: Sequence[str], backends: Sequence[str], labelled: bool
) -> list[InitErrorDetails]:
    """Return one line for each rule that this file can never measure."""
    rules = gate.rules or ()
    lines = []
    if len(paths) == 1 and not (rules and all(rule.against == "baseline" for rule in rules)):
        message = (
            "needs two paths or more; the first is the reference (one is enough where every rule "
            "is against the baseline)"
        )
        lines.append(wrong("paths", message, "preprocess", given=paths[0]))
    for index, rule in enumerate(rules):
        for key, message in _mistakes(rule, paths, backends, labelled=labelled):
            given = getattr(rule, key)
            lines.append(wrong("rule", message, "gate", "rules", index, key, given=given))
    for index, waiver in enumerate(gate.waive):
        if waiver.path is not None and waiver.path not in paths:
            message = f"no path {waiver.path!r}{did_you_mean(waiver.path, paths)}"
            lines.append(
                wrong("waiver", message, "gate", "waive", index, "path", given=waiver.path)
            )
    return lines


def _mistakes(
    rule: Rule, paths: Sequence[str], backends: Sequence[str], *, labelled: bool
) -> Iterator[tuple[str, str]]:
    kinds = {each.measured.kind for each in rule.expanded()}
    inference = any(each.metric and each.metric.startswith("latency.inference") for each in
                    rule.expanded())  # fmt: skip
    if not labelled and (kinds & {"model", "class"} or inference):
        yield (
            "preset" if rule.preset else "metric",
            "needs a model, and these images have no labels to train one with",
        )
    if rule.path is not None and rule.path not in paths:
        yield "path", f"no path {rule.path!r}{did_you_mean(rule.path, paths)}"
    if (
        rule.path == paths[0]
        and rule.against == "reference"
        and kinds & {"pixel", "coverage", "latency"}
    ):
        yield "path", f"{rule.path!r} is the reference itself; name one of the others"
    if not labelled and rule.where and "class" in rule.where:
        yield "where", "these images have no labels"
    if rule.backend is not None and rule.backend not in backends:
        yield "backend", f"no backend {rule.backend!r}{did_you_mean(rule.backend, backends)}"
