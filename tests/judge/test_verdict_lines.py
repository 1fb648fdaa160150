"""A verdict names the rule that failed, its cause, and a step that this run measured."""

from dataclasses import replace

import pytest

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    CoverageDiff,
    DataFacts,
    Estimate,
    FactorShare,
    Measurements,
    NoiseFloor,
    PixelStage,
)
from alignkit.record.verdict_facts import stated
from tests.judge.cases import CHURN, ZERO, attributed, entry, judged, paths, shares

BOTH = entry("a", "fp32", 0), entry("b", "fp32", 12)


def kinds(statements) -> list[str]:
    return [each.kind for each in statements]


@pytest.mark.parametrize(
    ("flips", "share", "place"),
    [
        (0, 0.02, ("b", "fp32", 0.12)),  # innocent: the numbers of the path alone are shown
        (1, 0.0004, ("b", "fp32", 0.12)),
        (1, -0.02, ("b", "bf16", 0.13)),
        (1, None, ("b", "bf16", 0.13)),  # an unknown share is not zero
    ],
)
def test_a_runtime_is_named_unless_it_is_innocent(flips, share, place):
    first = judged(*BOTH, entry("b", "bf16", 13, flips), attributions=(shares(share),)).first
    assert (first.evaluated_with, first.precision, first.value.value) == place


def test_a_runtime_that_alone_differs_is_the_cause_and_the_baselines_is_advised():
    verdict = judged(entry("a", "fp32", 0), entry("a", "bf16", 5, 5))
    assert verdict.first.precision == "bf16"
    assert kinds(verdict.cause) == ["runtime"]
    assert verdict.steps[0].what == stated("serve runtime", runtime="torch fp32")


def test_models_of_the_reference_come_first_and_a_worse_row_is_named_beside_them():
    worse = entry("a", "fp32", 9).model_copy(
        update={"trained_with": "b", "aligned": False, "drift": entry("b", "fp32", 9).drift}
    )
    verdict = judged(entry("a", "fp32", 0), entry("b", "fp32", 4), worse)
    assert verdict.first.place == entry("b", "fp32", 4).place
    (failed,) = verdict.sentence
    assert verdict.rules[int(failed.number("elsewhere"))].place == worse.place
    # where theirs hold, the worst of all rows is the headline
    alone = judged(entry("a", "fp32", 0), entry("b", "fp32", 1), worse)
    assert alone.first.place == worse.place


def test_the_stage_that_costs_is_swapped_and_what_remains_is_called_measured():
    two = attributed(("resize", 0.10), ("decode", 0.02))
    (first,) = judged(*BOTH, attributions=(two,)).steps
    assert (first.what.kind, first.what.names("stages")) == ("swap", ["resize"])
    assert first.what.number("remains") == pytest.approx(0.02)
    assert first.measured
    assert first.command == "alignkit run x.yaml --set 'preprocess.b.resize={name: a}'"
    # of three factors the rest was never measured together
    three = attributed(("resize", 0.10), ("decode", 0.01), ("orient", 0.01))
    (first,) = judged(*BOTH, attributions=(three,)).steps
    assert first.measured is False
    assert "remains" not in first.what.values


def test_the_path_that_serves_is_advised_for_training_where_that_was_measured():
    trained = entry("a", "fp32", 0).model_copy(
        update={"trained_with": "b", "evaluated_with": "b", "metrics": {"recall.macro": 0.9}}
    )
    served = entry("b", "fp32", 12).model_copy(update={"metrics": {"recall.macro": 0.8}})
    (first,) = judged(entry("a", "fp32", 0), served, trained).steps
    advised = {"path": "b", "metric": "recall.macro", "then": 0.9, "now": 0.8}
    assert first.what == stated("train served", **advised)
    assert first.measured
    # another runtime of those models was not measured
    int8 = served.model_copy(update={"precision": "int8"})
    assert judged(entry("a", "fp32", 0), int8, trained).steps == ()


def test_a_swap_that_makes_two_paths_one_says_that_this_is_meant():
    a, b, _ = paths("a", "b", "c")
    b = b.model_copy(update={"stages": (a.stages[0], b.stages[1])})
    evidence = Measurements(
        matrix=BOTH, paths=(a, b), command="alignkit gate x.yaml",
        attributions=(attributed(("resize", 0.12)),),
    )  # fmt: skip
    (first,) = judge(CHURN, evidence, controls=()).steps
    swap = "--set 'preprocess.b.resize={name: a}' --set preprocess.b.same=true"
    assert first.command == f"alignkit gate x.yaml {swap}"


def test_an_unknown_share_is_not_called_nothing():
    unknown = FactorShare("decode", Estimate(None, None, None, "no class is defined"), ZERO)
    found = attributed(("resize", 0.12))
    found = found.model_copy(update={"shares": (*found.shares, unknown)})
    (cause,) = judged(*BOTH, attributions=(found,)).cause
    assert (cause.kind, cause.names("factors")) == ("most", ["resize", "decode"])
    alone = found.model_copy(update={"shares": (unknown,)})
    assert kinds(judged(*BOTH, attributions=(alone,)).cause) == ["shares unknown"]


def test_a_rule_that_only_the_gate_can_judge_is_left_to_it():
    gate = Gate(rules=(Rule(metric="resize.max_abs", fail=2, against="baseline"),))
    verdict = judged(entry("a", "fp32", 0), entry("b", "fp32", 0), gate=gate)
    assert {each.metric: kinds(each.observed) for each in verdict.rules} == {
        "resize.max_abs": ["left baseline"], "coverage": ["left baseline"],
    }  # fmt: skip
    assert verdict.state == "inconclusive"
    (step,) = verdict.steps
    assert (step.what.kind, step.command) == ("let gate judge", "alignkit gate x.yaml")


@pytest.mark.parametrize(
    ("gate", "command", "then"),
    [
        # the gate of a narrowed run is that of its file
        (0.2, "alignkit run x.yaml --cell a/b/torch/fp32 --set train.epochs=2",
         "alignkit gate x.yaml --set train.epochs=2"),
        (0.2, "alignkit run x.yaml", "alignkit gate x.yaml"),
        # a quick look is to be measured whole
        (0.02, "alignkit run x.yaml --quick", "alignkit run x.yaml"),
    ],
)  # fmt: skip
def test_a_pass_is_kept_by_the_gate_and_a_quick_look_measured_whole(gate, command, then):
    quick = ("train.epochs: 30 → 3",) if "--quick" in command else ()
    rules = Gate(rules=(Rule(metric="churn", fail=gate),))
    verdict = judged(*BOTH, gate=rules, command=command, quick=quick)
    assert verdict.state == ("fail" if quick else "pass")
    assert verdict.steps[0].command == then
    held = [int(each.number("nearest")) for each in verdict.sentence if each.kind == "held"]
    assert [verdict.rules[each].place for each in held] == [BOTH[1].place] * (not quick)


@pytest.mark.parametrize(
    ("rule", "stage"),
    [
        ({"metric": "resize.max_abs", "fail": 2}, "resize"),
        ({"metric": "resize.max_abs", "fail": 2, "mode": "isolated"}, "resize"),
        ({"metric": "resize.max_abs", "fail": 2, "mode": "cumulative"}, "decode"),
        ({"metric": "colour.mean_abs", "fail": 0.5, "mode": "cumulative"}, "decode"),
        ({"metric": "colour.ssim", "fail": 0.9}, "decode"),
    ],
)
def test_a_rule_about_a_stage_with_those_before_it_advises_the_one_that_differs_most(rule, stage):
    means = {"decode": 3.0, "resize": 1.0, "colour": 0.0}
    pixels = tuple(
        PixelStage(
            reference="a", candidate="b", stage=name, mode=mode, images=10, identical=0,
            mean_abs=4.0 if mode == "cumulative" else mean, max_abs=9.0, share_differing=0.5,
            psnr=40.0, ssim=0.5, bias=(0.0, 0.0, 0.0),
        )
        for name, mean in means.items()
        for mode in ("isolated", "cumulative")
    )  # fmt: skip
    coverage = CoverageDiff(
        reference="a", candidate="b", images=10, only_reference=0, only_candidate=0
    )
    evidence = Measurements(
        pixels=pixels,
        coverage_diffs=(coverage,),
        paths=paths("a", "b"),
        command="alignkit gate x.yaml",
    )
    verdict = judge(Gate.model_validate({"rules": [rule]}), evidence, controls=())
    first, value = verdict.steps[0], verdict.first.value.value
    fields = {"mean_abs": 4.0, "max_abs": 9.0, "ssim": 0.5}
    assert (value, verdict.first.limits.decides) == (
        fields[rule["metric"].split(".")[1]], rule["fail"],
    )  # fmt: skip
    assert first.what == stated("run with", served="b", own="a", stage=stage)
    assert first.measured is False
    assert first.command.endswith(f"'preprocess.b.{stage}={{name: a}}'")


def test_an_unknown_churn_is_no_comparison_without_a_change():
    unknown = entry("b", "fp32", 0)
    drift = replace(unknown.drift, churn=Estimate(None, None, None, "no image is in both"))
    assert drift.changed is None
    verdict = judged(entry("a", "fp32", 0), unknown.model_copy(update={"drift": drift}))
    assert (verdict.state, kinds(verdict.sentence)) == ("error", ["error"])


@pytest.mark.parametrize(("floor", "seeds", "cause"), [
    (0.136, (0, 1), (stated("below floor", share=0.136),)), (0.136, (0,), ()), (0.01, (0, 1), ()),
])  # fmt: skip
def test_a_failed_limit_of_churn_below_what_retraining_changes_says_so(floor, seeds, cause):
    floors = (NoiseFloor(preprocess="a", seeds=seeds, metrics={}, churn=floor),)
    (outcome,) = judged(*BOTH, noise_floor=floors).rules
    assert (outcome.state, outcome.cause) == ("fail", cause)


@pytest.mark.parametrize("copies", [0, 1, 540])
def test_the_verdict_says_how_many_images_are_copies(copies):
    data = DataFacts(
        name="folder", options={}, train=0, eval=600, classes=(), fingerprint="0" * 64, version="",
        copies={str(each): "first" for each in range(copies)},
    )  # fmt: skip
    evidence = Measurements(matrix=(entry("a", "fp32", 0), entry("b", "fp32", 3)), data=data)
    found = [e for e in judge(Gate(), evidence, controls=()).sentence if e.kind == "copies"]
    assert found == [stated("copies", copies=copies, images=600)] * bool(copies)
