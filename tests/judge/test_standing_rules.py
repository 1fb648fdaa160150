"""A gate that compared nothing says so, whatever its outcomes are about."""

import pytest

from alignkit.errors import ExitCode
from alignkit.experiment.gate_option import Gate
from alignkit.judge.standing_rules import JudgedRule, standing_outcomes
from alignkit.record import Cell, Measurements, PathFacts, RuleOutcome, StageFacts
from alignkit.record.verdict_facts import stated


def path(name: str, decoder: str) -> PathFacts:
    stage = StageFacts(stage="decode", label=decoder, options={"stage": decoder}, version="1")
    return PathFacts(name=name, stages=(stage,))


def passed(evaluated_with: str) -> JudgedRule:
    outcome = RuleOutcome(
        metric="latency.total.p50", trained_with="a", evaluated_with=evaluated_with,
        backend="", precision="", state="pass", rule="x",
    )  # fmt: skip
    return JudgedRule(outcome, ExitCode.PASS)


@pytest.mark.parametrize(
    ("names", "place", "found"),
    [
        (["every path"], "every path", stated("no rule")),
        (["a"], "a", stated("no rule")),
        (["every path", "a", "b"], "b", stated("no rule", path="b", stages=("decode",))),
    ],
)
def test_an_outcome_about_no_candidate_rests_on_no_comparison(names, place, found):
    evidence = Measurements(paths=(path("a", "pillow"), path("b", "opencv")))
    judged = [passed(name) for name in names]
    (outcome,) = standing_outcomes(
        Gate(rules=({"metric": "decode.max_abs", "fail": 9},)), evidence, judged
    )
    assert outcome.code is ExitCode.NOTHING_COMPARED
    assert outcome.outcome.evaluated_with == place
    assert outcome.outcome.observed == (found,)


def cell(state: str, reason: str = "") -> Cell:
    return Cell(
        trained_with="a", evaluated_with="b", backend="x", precision="fp16", aligned=False,
        state=state, reason=reason, seed=0, key="",
    )  # fmt: skip


def test_missing_cells_are_counted_state_by_state():
    cells = [cell("built", "it needs a GPU"), *[cell("skipped", "x is not installed")] * 4]
    cells += [cell("measured"), cell("simulated")]
    (found,) = standing_outcomes(Gate(), Measurements(cells=cells), [])
    assert found.code is ExitCode.MISSING
    assert [each.values for each in found.outcome.observed] == [
        {"cells": 1, "of": 7, "state": "built, not run", "reason": "it needs a GPU"},
        {"cells": 4, "of": 7, "state": "skipped", "reason": "x is not installed"},
    ]
