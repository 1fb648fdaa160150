"""For a pull request's comment or a step's summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.judge.words import remark, worst_first
from alignkit.record import PixelStage, RuleOutcome
from alignkit.text.names import place_in_words
from alignkit.text.numbers import shorten

_MOST = 60_000
"""Characters: a comment on GitHub holds 65,536, a step's summary 1 MiB."""
ROWS = 50
_SIGNS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "inconclusive": "❔", "error": "💥"}


@dataclass(frozen=True, slots=True)
class Markdown:
    """``summary.md``: the verdict, the rules, the stages and how to go on."""

    def render(self, result: GateResult) -> str:
        """Return at most 60,000 characters."""
        verdict = result.verdict
        parts = [
            f"## {_SIGNS[verdict.state]} {result.name}: {verdict.state}",
            _quoted(verdict.sentence),
            _rules(verdict.rules),
            _stages(result),
            _next(result),
        ]
        return shorten("\n\n".join(part for part in parts if part), _MOST) + "\n"


def _quoted(text: str) -> str:
    # a mistake in the file is shown with a caret below it, which needs a fixed pitch
    return f"```\n{text}\n```" if "\n" in text else text


def _rules(outcomes: tuple[RuleOutcome, ...]) -> str:
    ordered = worst_first(outcomes)
    shown = [each for each in ordered if each.state != "pass"][:ROWS] or ordered[:ROWS]
    if not shown:
        return ""
    rows = [
        (
            f"{_SIGNS[each.state]} {each.state}",
            f"`{each.rule}`",
            place_in_words(each),
            each.observed,
            each.limit,
            remark(each),
        )
        for each in shown
    ]
    table = _table(("", "rule", "where", "observed", "limit", "why"), rows)
    left = len(outcomes) - len(shown)
    return f"{table}\n\n{left} more checks are in the report." if left else table


def _stages(result: GateResult) -> str:
    if result.record is None:
        return ""
    seen = [stage for stage in result.record.pixels if stage.mode == "isolated" and stage.max_abs]
    if not seen:
        return ""
    rows = [
        (f"{each.candidate} against {each.reference}", each.stage, *_numbers(each))
        for each in seen[:ROWS]
    ]
    head = ("paths", "stage alone", "mean", "max", "pixels that differ")
    return (
        "<details><summary>Stages that differ</summary>\n\n" + _table(head, rows) + "\n</details>"
    )


def _numbers(stage: PixelStage) -> tuple[str, str, str]:
    share = "" if stage.share_differing is None else f"{100 * stage.share_differing:.1f} %"
    return f"{stage.mean_abs or 0:.4g}", f"{stage.max_abs or 0:.4g}", share


def _next(result: GateResult) -> str:
    lines = [f"Again: `{result.command}`"]
    if result.pending is not None and result.pending.count:
        lines.append(f"If the change is meant: `alignkit review {result.file}`")
    return "  \n".join(lines)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return shorten(text, 300).replace("|", "\\|").replace("\n", " ")
