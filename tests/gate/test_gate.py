"""Rules applied to evidence: states, exit codes, waivers, intervals."""

import math
from dataclasses import replace
from datetime import date

import pytest
from scipy.stats import norm, t

from alignkit.compare.statistics import required_sample
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    AdviceFacts,
    Cell,
    Control,
    CoverageDiff,
    Drift,
    Estimate,
    LogitDistance,
    MatrixEntry,
    Measurements,
    PathFacts,
    PixelStage,
    StageFacts,
    StandardError,
)
from alignkit.record.verdict_facts import Waived, stated

HELD = Control(name="A/A", expected="0", observed="0", passed=True)
BROKEN = Control(name="A/A", expected="0", observed="3", passed=False)
COVERED = CoverageDiff(reference="a", candidate="b", images=10, only_reference=0, only_candidate=0)


def stage(name: str = "decode", mode: str = "isolated", **values: object) -> PixelStage:
    numbers = {"images": 10, "identical": 2, "max_abs": 4.0, "mean_abs": 0.2, "p99": 2.0,
               "bias": (0.1, -0.3, 0.0), "share_differing": 0.5, "psnr": 48.0}  # fmt: skip
    return PixelStage(reference="a", candidate="b", stage=name, mode=mode, **{**numbers, **values})


def decoded_by(library: str) -> tuple[StageFacts, ...]:
    return (StageFacts(stage="decode", label=library, options={"stage": library}, version="1"),)


def drift(value: float | None, low: float, high: float, n: int = 100_000, **more: object) -> Drift:
    estimate = Estimate(value=value, low=low, high=high, reason="" if value is not None else "none")
    return Drift(
        n=n, metrics={"recall.macro": estimate, "top1": estimate}, churn=estimate,
        right_to_wrong=0, wrong_to_right=0, wrong_to_wrong=0, mcnemar_p=None,
        detectable=None,
        logits=LogitDistance(max_abs=1.0, mean_abs=0.1, cosine=0.9), **more,
    )  # fmt: skip


def entry(aligned: bool = False, **values: object) -> MatrixEntry:
    return MatrixEntry(
        trained_with="a", evaluated_with="a" if aligned else "b", backend="torch",
        precision="fp32", aligned=aligned, **{"state": "measured", **values},
    )  # fmt: skip


def matrix(*found: Drift) -> tuple[MatrixEntry, ...]:
    return (entry(aligned=True, metrics={"top1": 0.5}), *(entry(drift=each) for each in found))


def judged(gate: Gate, *, controls=(), today=None, **facts):
    return judge(gate, Measurements(**facts), controls=controls, today=today)


def pixel_verdict(*rules: Rule, pixels=None, coverage=(COVERED,), controls=(HELD,), **gate):
    return judged(
        Gate(rules=rules, **gate),
        pixels=pixels or (stage(),),
        coverage_diffs=coverage,
        controls=controls,
    )


@pytest.mark.parametrize(
    ("metric", "below", "above"),
    [
        ("decode.mean_abs", 0.19, 0.21), ("decode.max_abs", 3.0, 5.0), ("decode.p99", 1.0, 3.0),
        ("decode.bias", 0.29, 0.31), ("decode.share_differing", 0.4, 0.6),
        ("decode.changed", 0.7, 0.9),
    ],
)  # fmt: skip
def test_a_limit_fails_above_the_value_and_passes_below(metric, below, above):
    assert pixel_verdict(Rule(metric=metric, fail=below)).exit_code == 1
    assert pixel_verdict(Rule(metric=metric, fail=above)).exit_code == 0
    assert pixel_verdict(Rule(metric=metric, warn=below, fail=above)).state == "warn"


def test_psnr_fails_below_its_limit_and_passes_where_nothing_differs():
    assert pixel_verdict(Rule(metric="decode.psnr", fail=50)).exit_code == 1
    assert pixel_verdict(Rule(metric="decode.psnr", fail=40)).exit_code == 0
    same = stage(identical=10, psnr=None)
    assert pixel_verdict(Rule(metric="decode.psnr", fail=50), pixels=(same,)).exit_code == 0


def test_another_shape_fails_whatever_the_limit_is():
    verdict = pixel_verdict(
        Rule(metric="decode.max_abs", fail=250), pixels=(stage(shape_mismatches=1),)
    )
    assert verdict.exit_code == 1
    assert verdict.first.observed == (stated("shapes", images=1),)


def test_isolated_is_the_default_and_cumulative_is_asked_for():
    pixels = (stage(mean_abs=0.1), stage(mode="cumulative", mean_abs=0.9))
    assert pixel_verdict(Rule(metric="decode.mean_abs", fail=0.5), pixels=pixels).exit_code == 0
    rule = Rule(metric="decode.mean_abs", fail=0.5, mode="cumulative")
    assert pixel_verdict(rule, pixels=pixels).exit_code == 1


def test_images_that_one_side_cannot_decode_fail_though_no_rule_says_so():
    lost = COVERED.model_copy(update={"only_reference": 3, "reference_examples": ("x.jpg",)})
    verdict = pixel_verdict(Rule(metric="decode.max_abs", fail=9), coverage=(lost,))
    assert verdict.exit_code == 1
    assert verdict.cause == (stated("stage", stage="coverage"),)
    assert verdict.first.cause == (
        stated("one-sided", images=3, of=10, by="a", names=("x.jpg",)),
    )  # fmt: skip
    allowed = Rule(metric="coverage", fail=0.5)
    assert (
        pixel_verdict(Rule(metric="decode.max_abs", fail=9), allowed, coverage=(lost,)).exit_code
        == 0
    )


def test_a_stage_that_was_not_compared_is_an_error_and_no_pass():
    empty = stage(images=0, identical=0, mean_abs=None, reason="no image could be compared")
    verdict = pixel_verdict(Rule(metric="decode.mean_abs", fail=1), pixels=(empty,))
    assert (verdict.state, verdict.exit_code) == ("error", 5)


def test_nan_is_an_error_with_its_reason():
    broken = stage(bias=None, reason="7 values are NaN or infinite")
    verdict = pixel_verdict(Rule(metric="decode.bias", fail=1), pixels=(broken,))
    assert (verdict.state, verdict.exit_code) == ("error", 3)
    assert verdict.first.value.reason == broken.reason


def test_a_cell_that_no_machine_has_is_no_missing_one_and_no_rule_applies_to_it():
    def verdict(unsuited, **rule):
        absent = {
            "backend": "torch",
            "precision": "fp32",
            "state": "skipped",
            "reason": "an ONNX file",
        }
        where = {"trained_with": "a", "evaluated_with": "b", "aligned": False, "unsuited": unsuited}
        found = (*matrix(drift(0.0, 0.0, 0.0, n=10_000)), MatrixEntry(**where, **absent))
        cell = Cell(**where, **absent, seed=0, key="k")
        rules = (Rule(metric="churn", fail=0.02, **rule),)
        return judged(Gate(rules=rules), matrix=found, cells=[cell], controls=(HELD,))

    assert verdict(unsuited=False).exit_code == 4
    assert (verdict(unsuited=True).exit_code, len(verdict(unsuited=True).rules)) == (0, 1)
    assert verdict(unsuited=True, precision="fp16").exit_code == 5  # it applies to nothing else


def test_a_path_that_cannot_run_here_is_missing_unless_that_is_allowed():
    gpu = "needs an NVIDIA GPU, and this machine has none"
    a, b = (PathFacts(name=name, stages=decoded_by(name)) for name in "ab")
    missing = PathFacts(name="c", stages=decoded_by("c"), skipped=gpu)

    def code(allowed, reason=gpu, paths=(a, b, missing)):
        skipped = [p.model_copy(update={"skipped": reason}) if p.skipped else p for p in paths]
        gate = Gate(rules=(Rule(metric="decode.max_abs", fail=9),), allow_missing=allowed)
        return judged(
            gate, controls=(HELD,), paths=skipped, pixels=(stage(),), coverage_diffs=(COVERED,)
        )

    assert code(False).exit_code == 4
    assert code("gpu").exit_code == 0
    assert {rule.evaluated_with: rule.not_run for rule in code("gpu").rules} == {
        "b": False,
        "c": True,
    }
    assert stated("not run", path="c", reason=gpu) in code("gpu").sentence
    assert code("gpu", "dali is not installed").exit_code == 4
    assert code(True, "dali is not installed").exit_code == 0
    # with no candidate left, nothing was compared
    assert code("gpu", paths=(missing, a)).exit_code == 5
    assert code(True, paths=(a, missing)).exit_code == 5


def test_a_control_that_fails_makes_every_verdict_an_error():
    verdict = pixel_verdict(Rule(metric="decode.max_abs", fail=9), controls=(HELD, BROKEN))
    assert (verdict.state, verdict.exit_code) == ("error", 3)
    assert [each.kind for each in verdict.sentence] == ["distrust"]


def test_informational_pardons_drift_and_nothing_else():
    assert pixel_verdict(Rule(metric="decode.max_abs", fail=1), informational=True).exit_code == 0
    verdict = pixel_verdict(
        Rule(metric="decode.max_abs", fail=1), informational=True, controls=(BROKEN,)
    )
    assert verdict.exit_code == 3


def test_a_waiver_holds_until_its_day_and_for_its_path():
    def state(today, path="b"):
        waive = [
            {"rule": "decode.max_abs", "until": "2027-03-01", "reason": "codec bug", "path": path}
        ]
        gate = Gate(rules=(Rule(metric="decode.max_abs", fail=1),), waive=waive)
        return judged(
            gate, pixels=(stage(),), coverage_diffs=(COVERED,), controls=(HELD,), today=today
        )

    held = state(date(2027, 3, 1))
    assert (held.state, held.exit_code) == ("warn", 0)
    assert held.rules[0].waived == Waived("2027-03-01", "codec bug")
    assert state(date(2027, 3, 2)).exit_code == 1
    assert state(date(2027, 3, 1), path="c").exit_code == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.004, 0.002, "pass"), (0.011, 0.02, "fail"), (-0.004, 0.012, "inconclusive")],
)
def test_a_margin_is_held_against_the_whole_interval(low, high, expected):
    rule = Rule(metric="recall.macro", margin=0.01)
    found = matrix(drift((low + high) / 2, low, high))
    assert judged(Gate(rules=(rule,)), matrix=found, controls=()).rules[0].state == expected


@pytest.mark.parametrize(
    ("direction", "low", "high", "expected"),
    [
        ("drop", -0.004, 0.5, "pass"), ("drop", -0.5, -0.02, "fail"),
        ("drop", -0.02, 0.5, "inconclusive"), ("drop", 0.1, 0.5, "pass"),
        ("rise", -0.5, 0.004, "pass"), ("rise", 0.02, 0.5, "fail"),
        ("rise", -0.5, 0.02, "inconclusive"),
    ],
)  # fmt: skip
def test_non_inferiority_looks_at_one_side(direction, low, high, expected):
    rule = Rule(metric="recall.macro", margin=0.01, direction=direction)
    found = matrix(drift((low + high) / 2, low, high))
    assert judged(Gate(rules=(rule,)), matrix=found, controls=()).rules[0].state == expected


def test_inconclusive_says_how_many_images_would_settle_it():
    rule = Rule(metric="recall.macro", margin=0.01)
    found = matrix(drift(0.005, -0.015, 0.025, n=400))
    gate = Gate(rules=(rule,), on_inconclusive="fail")
    verdict = judged(gate, matrix=found, controls=())
    assert verdict.exit_code == 7
    # half the width, and what 400 images need not show, must shrink to the 0.005 up to the margin
    unseen = -math.log(0.025) / 400

    def width(n: int) -> float:
        student = t.ppf(0.975, n - 1) / norm.ppf(0.975)
        return 0.02 * student * math.sqrt(400 / n) + unseen * 400 / n

    needed = verdict.rules[0].needed.images
    assert width(needed) <= 0.005 < width(needed - 1)
    assert judged(Gate(rules=(rule,)), matrix=found, controls=()).exit_code == 0


def test_inconclusive_says_how_many_seeds_would_settle_it():
    rule = Rule(metric="recall.macro", margin=0.01)
    facts = drift(0.002, -0.015, 0.019, n=1_200_000)
    errors = {"recall.macro": StandardError(images=0.002, seeds=0.004)}
    found = entry(drift=replace(facts, errors=errors), seeds=(0, 1, 2))
    outcome = judged(Gate(rules=(rule,)), matrix=[found], controls=()).rules[0]
    # of 400,000 images, each seen by 3 seeds; more of them leave the two degrees of freedom of seeds
    assert (outcome.state, outcome.needed.images) == ("inconclusive", None)
    expected = required_sample(
        0.008, images_error=0.002, seeds_error=0.004, images=400_000, seeds=3
    )
    assert outcome.needed.seeds == expected.seeds


def test_relative_limits_are_shares_of_the_reference():
    rules = Rule(preset="mlperf-99").expanded()
    # of an accuracy of 0.5, a drop of 0.004 is 0.8 % and one of 0.006 is 1.2 %
    assert (
        judged(Gate(rules=rules), matrix=matrix(drift(-0.004, -0.1, 0.1)), controls=()).exit_code
        == 0
    )
    assert (
        judged(Gate(rules=rules), matrix=matrix(drift(-0.006, -0.1, 0.1)), controls=()).exit_code
        == 1
    )
    assert (
        judged(Gate(rules=rules), matrix=matrix(drift(0.2, 0.1, 0.3)), controls=()).exit_code == 0
    )


def test_an_empty_class_and_an_unknown_one_are_errors_with_codes_of_their_own():
    from alignkit.record import ClassDrift

    nothing = Estimate(value=None, low=None, high=None, reason="no image is of this class")
    owl = ClassDrift(name="owl", support=0, recall=nothing, precision=nothing)
    found = matrix(drift(0.0, 0.0, 0.0, classes=(owl,)))
    empty = judged(Gate(rules=(Rule(metric="recall[owl]", fail=0.1),)), matrix=found, controls=())
    assert empty.exit_code == 5
    assert empty.rules[0].value.reason == nothing.reason
    unknown = judged(Gate(rules=(Rule(metric="recall[cat]", fail=0.1),)), matrix=found, controls=())
    assert unknown.exit_code == 2
    assert "there are owl" in unknown.rules[0].value.reason


def test_a_rule_that_applies_to_nothing_compares_nothing():
    rule = Rule(metric="churn", fail=0.1, backend="tensorrt")
    verdict = judged(Gate(rules=(rule,)), matrix=matrix(drift(0.0, 0.0, 0.0)), controls=())
    assert verdict.exit_code == 5


def test_what_was_not_measured_outweighs_a_finding():
    pixels = (stage(), stage("resize", images=0, identical=0, max_abs=None, reason="none"))
    rules = (Rule(metric="decode.max_abs", fail=1), Rule(metric="resize.max_abs", fail=1))
    assert pixel_verdict(*rules, pixels=pixels).exit_code == 5


def test_a_run_without_a_baseline_leaves_its_rules_to_the_gate():
    rule = Rule(metric="decode.changed", fail=0, against="baseline")
    verdict = pixel_verdict(rule, on_inconclusive="fail")
    assert (verdict.state, verdict.exit_code) == ("inconclusive", 0)
    assert verdict.first.observed == (stated("left baseline"),)


UNLEARNED = Control(
    name="the reference models learned",
    expected="more than 10 of 100",
    observed="seed 0 is right on 10 of 100 images; train longer",
    passed=False,
    failing="inconclusive",
)


def test_models_that_did_not_learn_leave_a_pass_inconclusive_and_a_finding_standing():
    rule = Rule(metric="churn", fail=0.5)
    found = matrix(drift(0.0, 0.0, 0.0))
    verdict = judged(Gate(rules=(rule,)), matrix=found, controls=(HELD, UNLEARNED))
    assert (verdict.state, verdict.exit_code) == ("inconclusive", 3)  # docs/commands.md
    assert verdict.sentence == (
        stated("doubt", observed=UNLEARNED.observed), stated("nothing changed", comparisons=1),
    )  # fmt: skip
    shown = Gate(rules=(rule,), informational=True)  # which excuses drift alone
    assert judged(shown, matrix=found, controls=(UNLEARNED,)).exit_code == 3
    failing = judged(
        Gate(rules=(Rule(metric="churn", fail=0.1),)),
        matrix=matrix(drift(0.2, 0.1, 0.3)),
        controls=(UNLEARNED,),
    )
    assert (failing.state, failing.exit_code) == ("fail", 1)


def test_values_that_are_not_finite_fail_every_pixel_rule():
    broken = stage(non_finite=7, reason="7 values are NaN or infinite")
    for metric in ("decode.mean_abs", "decode.max_abs", "decode.changed", "decode.psnr"):
        limit = 0.99 if metric.endswith("changed") else 10
        outcome = pixel_verdict(Rule(metric=metric, fail=limit), pixels=(broken,)).rules[0]
        assert (outcome.state, outcome.observed) == ("fail", (stated("not finite", values=7),))


def test_a_path_that_was_advised_is_not_judged():
    own = matrix(drift(0.0, 0.0, 0.0))
    advised = entry(drift=drift(0.2, 0.1, 0.3)).model_copy(update={"evaluated_with": "advised-b"})
    crashed = Cell(
        trained_with="advised-b", evaluated_with="b", backend="torch", precision="fp32",
        seed=0, aligned=False, key="k", state="failed", reason="died",
    )  # fmt: skip
    found = Measurements(matrix=[*own, advised], cells=[crashed])
    gate = Gate(rules=(Rule(metric="churn", fail=0.1),))
    advice = AdviceFacts(served="b", change="serving", advised="advised-b")
    assert judge(gate, found, controls=()).exit_code == 3
    found = found.model_copy(update={"advice": (advice,)})
    assert judge(gate, found, controls=()).exit_code == 0


def rows_of(*paths: PathFacts) -> list[MatrixEntry]:
    """Every path a row, evaluated with every path in two runtimes; without any drift."""
    return [
        MatrixEntry(
            trained_with=row.name, evaluated_with=path.name, backend=backend, precision="fp32",
            state="measured", aligned=aligned, drift=None if aligned else drift(0.0, 0.0, 0.0),
        )
        for row in paths
        for path in paths
        for backend in ("torch", "onnxruntime")
        for aligned in [row == path and backend == "torch"]
    ]  # fmt: skip


def test_a_model_served_with_its_own_path_under_another_name_is_not_judged():
    a = PathFacts(name="a", stages=decoded_by("a"))
    b = PathFacts(name="b", stages=decoded_by("a"), same_as="a")
    gate = Gate(rules=(Rule(metric="churn", fail=0.1),))

    def places(*paths):
        verdict = judged(gate, paths=paths, matrix=rows_of(*paths))
        of_rules = [each for each in verdict.rules if each.metric == "churn"]
        return verdict.exit_code, {(e.trained_with, e.evaluated_with, e.backend) for e in of_rules}

    other_runtime = {(row, path, "onnxruntime") for row in "ab" for path in "ab"}
    assert places(a, b) == (5, other_runtime)
    on_purpose = b.model_copy(update={"same": True})
    crossed = {("a", "b", "torch"), ("b", "a", "torch")}
    assert places(a, on_purpose) == (0, other_runtime | crossed)
    # of two candidates that are the same, each is compared with the reference
    c = PathFacts(name="c", stages=decoded_by("c"))
    d = PathFacts(name="d", stages=decoded_by("c"), same_as="c")
    code, found = places(a, c, d)
    assert code == 0
    assert {("a", "c", "torch"), ("a", "d", "torch")} < found
    assert not {("c", "d", "torch"), ("d", "c", "torch")} & found


def test_cells_that_all_are_missing_leave_nothing_compared():
    a, b = (PathFacts(name=name, stages=decoded_by(name)) for name in "ab")
    reason = "needs an NVIDIA GPU"
    absent = {"state": "skipped", "reason": reason}
    cell = Cell(trained_with="a", evaluated_with="b", backend="tensorrt", precision="fp16", seed=0,
                aligned=False, key="", **absent)  # fmt: skip
    skipped = entry(**absent).model_copy(update={"backend": "tensorrt"})
    for allowed, code in ((False, 4), (True, 5)):
        gate = Gate(rules=(Rule(metric="churn", fail=0.1),), allow_missing=allowed)
        facts = {"paths": (a, b), "cells": [cell], "matrix": [entry(aligned=True), skipped]}
        assert judged(gate, **facts).exit_code == code


def test_a_cell_that_is_missing_is_no_pass_of_rules_about_pixels():
    a, b = (PathFacts(name=name, stages=decoded_by(name)) for name in "ab")
    cell = Cell(trained_with="a", evaluated_with="b", backend="tensorrt", precision="fp16", seed=0,
                aligned=False, key="", state="skipped", reason="no GPU")  # fmt: skip
    verdict = judged(
        Gate(rules=(Rule(metric="decode.max_abs", fail=9),)),
        paths=(a, b), cells=[cell], pixels=(stage(),), coverage_diffs=(COVERED,),
        matrix=matrix(drift(0.0, 0.0, 0.0)),
    )  # fmt: skip
    assert (verdict.state, verdict.exit_code) == ("error", 4)
    (skipped,) = [each for each in verdict.rules if each.metric == "cells"]
    counts = {"cells": 1, "of": 1, "state": "skipped", "reason": "no GPU"}
    assert skipped.observed == (stated("cells", **counts),)
