"""Rules as the YAML writes them: what is refused, and why."""

import pytest
from pydantic import ValidationError

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.metric_option import find_metric, metric_names
from alignkit.experiment.rule_option import Rule
from alignkit.preprocess import STAGES


def refusal(**rule: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Rule(**rule)
    return caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "decode.max_abs", "fail": 255.0},
        {"metric": "decode.mean_abs", "warn": 300.0},
        {"metric": "resize.changed", "fail": 1.0},
        {"metric": "coverage", "fail": 1.0},
        {"metric": "churn", "margin": 1.0},
        {"metric": "recall.macro", "fail": 1.0},
        {"metric": "decode.psnr", "fail": 0.0},
        {"metric": "colour.ssim", "fail": 0.0},
        {"metric": "decode.max_abs", "warn": 3.0, "fail": 2.0},
        {"metric": "decode.psnr", "warn": 30.0, "fail": 40.0},
        {"metric": "top1", "fail": 1.0, "relative": True, "direction": "drop"},
    ],
)
def test_a_threshold_that_no_value_can_pass_is_refused(rule):
    assert "can never fire" in refusal(**rule)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({}, "either a 'metric' or a 'preset'"),
        ({"metric": "churn", "preset": "strict", "fail": 0.1}, "either"),
        ({"metric": "churn"}, "needs 'warn', 'fail' or 'margin'"),
        ({"preset": "strict", "fail": 0.1}, "its own limits"),
        ({"metric": "recal.macro", "fail": 0.1}, "did you mean 'recall.macro'?"),
        ({"metric": "decode.mean", "fail": 0.1}, "did you mean 'decode.mean_abs'?"),
        ({"metric": "churn", "fail": 0.1, "direction": "drop"}, "has no direction"),
        ({"metric": "decode.mean_abs", "margin": 0.1}, "no interval"),
        ({"metric": "churn", "fail": 0.1, "relative": True}, "relative to nothing"),
        ({"metric": "recall[a]", "fail": 0.1, "relative": True}, "limits in points"),
        ({"metric": "churn", "fail": 0.1, "mode": "isolated"}, "for pixel metrics"),
        ({"metric": "decode.mean_abs", "fail": 0.1, "backend": "torch"}, "before any backend"),
        ({"metric": "logits.max_abs", "fail": 0.1, "against": "baseline"}, "keeps predicted classes"),
        ({"metric": "resize.max_abs", "fail": 1.0, "against": "baseline", "mode": "isolated"},
         "all that came before it"),
    ],
)  # fmt: skip
def test_what_a_rule_cannot_mean_is_refused_with_its_reason(rule, said):
    assert said in refusal(**rule)


def test_nan_and_infinite_limits_are_refused():
    for limit in (float("nan"), float("inf"), -0.1):
        refusal(metric="decode.mean_abs", fail=limit)


def test_every_stage_has_pixel_metrics_and_ssim_where_it_is_measured():
    names = metric_names()
    assert all(f"{stage}.mean_abs" in names for stage in STAGES)
    assert [name for name in names if name.endswith(".ssim")] == ["colour.ssim"]
    assert find_metric("normalise.max_abs").unit == "normalised units"


def test_a_class_is_named_in_brackets():
    metric = find_metric("recall[barn owl]")
    assert (metric.field, metric.of_class, metric.kind) == ("recall", "barn owl", "class")


def test_strict_is_bit_exact_at_every_stage_and_covers_every_image():
    rules = Rule(preset="strict", against="baseline").expanded()
    assert {rule.metric for rule in rules} == {"coverage"} | {f"{s}.changed" for s in STAGES}
    assert all(rule.fail == 0 and rule.against == "baseline" for rule in rules)


def test_mlperf_presets_bound_the_relative_drop_of_accuracy():
    (rule,) = Rule(preset="mlperf-99.9").expanded()
    assert (rule.metric, rule.fail, rule.relative, rule.direction) == ("top1", 0.001, True, "drop")


def test_a_waiver_needs_a_rule_a_day_and_a_reason():
    rules = (Rule(preset="decode"),)
    Gate(
        rules=rules,
        waive=[{"rule": "decode.max_abs", "until": "2027-03-01", "reason": "new codec"}],
    )
    for wrong in (
        {"rule": "decode.max_ab", "until": "2027-03-01", "reason": "new codec"},
        {"rule": "decode.max_abs", "until": "someday", "reason": "new codec"},
        {"rule": "decode.max_abs", "until": "2027-03-01", "reason": "x"},
    ):
        with pytest.raises(ValidationError):
            Gate(rules=rules, waive=[wrong])


def test_a_waiver_names_a_rule_that_is_judged_defaults_and_the_implied_coverage_included():
    def waived(rule: str, **gate: object) -> Gate:
        return Gate(waive=[{"rule": rule, "until": "2027-03-01", "reason": "new codec"}], **gate)

    of_pixels = (Rule(metric="decode.max_abs", fail=1),)
    for rule, rules in (("churn", None), ("decode.changed", None), ("coverage", of_pixels)):
        assert waived(rule, rules=rules).waive[0].rule == rule
    for rule, rules in (("no.such", None), ("churn", of_pixels)):
        with pytest.raises(ValidationError, match="which is no rule's id: c"):
            waived(rule, rules=rules)
