"""Rules as the YAML writes them: what is refused, and why."""

import re

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
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


@pytest.mark.parametrize("metric", [*metric_names(), "recall[barn owl]"])
def test_no_metric_takes_a_limit_beyond_its_range(metric):
    limits = [float("nan"), float("inf"), -0.1, *([] if metric.endswith("psnr") else [1e300])]
    for limit in limits:
        refusal(metric=metric, fail=limit)
    if not metric.endswith("psnr"):
        assert re.search("(can never|always) fire", refusal(metric=metric, fail=1e300))
    if metric.startswith(("recall", "top1", "latency")) and "[" not in metric:
        assert "can never fire" in refusal(metric=metric, fail=1e300, relative=True)


def test_identical_images_pass_any_limit_of_psnr():
    assert Rule(metric="decode.psnr", fail=1e300).fail == 1e300


@pytest.mark.parametrize(("metric", "limit"), [("colour.ssim", 1.01), ("logits.cosine", 2.0)])
def test_a_limit_that_no_value_keeps_is_refused(metric, limit):
    assert f"always fires: {metric} is at most 1" in refusal(metric=metric, fail=limit)
    Rule(metric=metric, fail=1.0)


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


UNIT = "normalise: {mean: [0, 0, 0], std: [1, 1, 1]}"
HALF = "normalise: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.25]}"


@pytest.mark.parametrize(
    ("reference", "candidate", "greatest"),
    [(UNIT, UNIT, 1.0), (UNIT, HALF, 3.0), (HALF, UNIT, 3.0), (HALF, HALF, 4.0)],
)
def test_mean_and_std_bound_a_limit_in_normalised_units(tmp_path, reference, candidate, greatest):
    def load(limit: float):
        file = tmp_path / "small.yaml"
        file.write_text(f"""\
name: small
data: {{name: images, root: images}}
preprocess:
  a: {{decode: pillow, resize: {{name: opencv, size: 32}}, {reference}}}
  b: {{decode: opencv, resize: {{name: opencv, size: 32}}, {candidate}}}
gate:
  rules:
    - {{metric: decode.max_abs, fail: 1}}
    - {{metric: normalise.max_abs, fail: {limit}, mode: cumulative}}
""")
        return load_experiment(file)

    load(0.99 * greatest)
    with pytest.raises(ConfigError, match=r"small.yaml:9:7: gate.rules.1: .*can never fire"):
        load(greatest)
    # the furthest two pixels, by another way: every pair of levels
    levels = np.arange(256) / 255
    sides = [yaml.safe_load(f"{{{each}}}")["normalise"] for each in (reference, candidate)]
    tables = [
        [(levels - m) / s for m, s in zip(each["mean"], each["std"], strict=True)] for each in sides
    ]
    pairs = zip(*tables, strict=True)
    assert max(np.abs(a[:, None] - b).max() for a, b in pairs) == pytest.approx(greatest)
