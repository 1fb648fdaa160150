"""A verdict is stored as data: kinds, names and numbers, which one module says."""

import ast
import dataclasses
from pathlib import Path
from typing import get_args

import pytest

from alignkit.record import Estimate, RuleOutcome, Verdict
from alignkit.record.verdict_facts import (
    Needed,
    NextStep,
    RuleLimits,
    Statement,
    StatementKind,
    Waived,
)
from alignkit.text import outcome, statements, verdict

ROOT = Path(__file__).parents[2] / "alignkit"
NAMES = {
    # names that a file, a path or a table gives, and no sentence of ours
    RuleOutcome: {"trained_with", "evaluated_with", "backend", "precision", "metric", "label",
                  "rule"},
    NextStep: {"command", "yaml"},
    Verdict: set(),
    RuleLimits: {"unit"},
    Needed: {"of"},
    Waived: {"until", "reason"},
    Statement: set(),
    Estimate: {"reason"},
}  # fmt: skip


@pytest.mark.parametrize("model", NAMES, ids=lambda each: each.__name__)
def test_no_field_of_a_verdict_holds_a_sentence(model):
    if dataclasses.is_dataclass(model):
        texts = {each.name for each in dataclasses.fields(model) if each.type == "str"}
    else:
        texts = {name for name, each in model.model_fields.items() if each.annotation is str}
    assert texts == NAMES[model]


def test_every_kind_that_is_stated_has_words_and_every_kind_is_stated():
    def kinds(file: Path) -> set[str]:
        tree = ast.parse(file.read_text())
        return {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)
                if isinstance(each.value, str)} & {*get_args(StatementKind)}  # fmt: skip

    stated = set().union(
        *map(kinds, [*(ROOT / "judge").glob("*.py"), *(ROOT / "gate").glob("*.py")])
    )
    said = set().union(
        *(kinds(Path(str(each.__file__))) for each in (outcome, statements, verdict))
    )
    assert stated == said == {*get_args(StatementKind)}
