"""A gate that compared nothing says so, whatever its outcomes are about."""

import pytest

from alignkit.errors import ExitCode
from alignkit.experiment.gate_option import Gate
from alignkit.judge.evidence import Evidence
from alignkit.judge.standing_rules import JudgedRule, standing_outcomes
from alignkit.record import PathFacts, RuleOutcome, StageFacts


def path(name: str, decoder: str) -> PathFacts:
    stage = StageFacts(stage="decode", label=decoder, options={"stage": decoder}, version="1")
    return PathFacts(name=name, stages=(stage,))


def passed(evaluated_with: str) -> JudgedRule:
    outcome = RuleOutcome(
        metric="latency.total.p50", limit="", trained_with="a", evaluated_with=evaluated_with,
        backend="", precision="", state="pass", observed="", rule="x",
    )  # fmt: skip
    return JudgedRule(outcome, ExitCode.PASS)


@pytest.mark.parametrize(
    ("names", "place", "end"),
    [
        (["every path"], "every path", "nothing was compared"),
        (["a"], "a", "nothing was compared"),
        (["every path", "a", "b"], "b", "nothing was compared; b differs in decode"),
    ],
)
def test_an_outcome_about_no_candidate_rests_on_no_comparison(names, place, end):
    evidence = Evidence(paths=(path("a", "pillow"), path("b", "opencv")))
    judged = [passed(name) for name in names]
    (found,) = standing_outcomes(
        Gate(rules=({"metric": "decode.max_abs", "fail": 9},)), evidence, judged
    )
    assert found.code is ExitCode.NOTHING_COMPARED
    assert found.outcome.evaluated_with == place
    assert found.outcome.observed.endswith(end)
