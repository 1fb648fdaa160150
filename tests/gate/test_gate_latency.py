"""Latency: both sides are timed in turn, and what noise hides is inconclusive."""

import time

import pytest

from alignkit.experiment import load_experiment
from alignkit.experiment.gate_option import Gate
from alignkit.gate import gate_latency as module
from alignkit.judge import judge
from alignkit.judge.evidence import Evidence
from alignkit.judge.observe import slowdown
from alignkit.progress import NoProgress
from alignkit.record import LatencyFacts, PathFacts
from alignkit.workspace import Context, Workspace
from tests.gate_case import PATHS, make_case

QUIET = (10.0, 10.1, 10.2, 10.0, 10.1, 10.2, 10.0, 10.1, 10.2)
"""Milliseconds, one a round."""


SIMULATED = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {epochs: 1, seeds: [0]}
evaluate: {backends: [torch, {name: simulated, precision: fp16}]}
gate: {rules: [{metric: latency.inference.p50, fail: 9}]}
"""


def side(rounds, *, reference=False, **where):
    where = where or {"path": "training" if reference else "serving"}
    return LatencyFacts(part="preprocess", reference=reference, images=32, p50=rounds, p95=rounds,
                        **where)  # fmt: skip


def outcome(rule, *sides):
    gate = Gate.model_validate({"rules": [{"metric": "latency.preprocess.p50", **rule}]})
    verdict = judge(gate, Evidence(latencies=sides), controls=())
    (only,) = verdict.rules
    return only, verdict.exit_code


def slower(factor):
    return tuple(each * factor for each in QUIET)


@pytest.mark.parametrize(("factor", "state", "code"), [
    (1.0, "pass", 0), (0.5, "pass", 0), (1.6, "fail", 1), (1.25, "warn", 0),
])  # fmt: skip
def test_a_share_of_the_references_time_is_bounded(factor, state, code):
    rule = {"warn": 0.2, "fail": 0.5, "relative": True}
    found, exit_code = outcome(rule, side(QUIET, reference=True), side(slower(factor)))
    assert (found.state, exit_code) == (state, code)


def test_a_difference_in_milliseconds_is_bounded():
    found, code = outcome({"fail": 2.0}, side(QUIET, reference=True), side(slower(1.5)))
    assert (found.state, code) == ("fail", 1)
    assert found.observed.startswith("+5.05 ms [+5")
    assert "9 rounds of 32 images" in found.cause


def test_noise_across_the_limit_is_inconclusive():
    noisy = (9.0, 14.0, 11.0, 16.0, 10.0, 15.0, 12.0, 9.5, 13.0)
    found, code = outcome({"fail": 0.2, "relative": True}, side(QUIET, reference=True), side(noisy))
    assert (found.state, code) == ("inconclusive", 0)


def test_one_disturbed_round_does_not_decide():
    disturbed = (*QUIET[:8], 500.0)
    found, _ = outcome({"fail": 0.1, "relative": True}, side(QUIET, reference=True),
                       side(disturbed))  # fmt: skip
    assert found.state == "pass"


def test_the_interval_is_the_sign_tests():
    from scipy.stats import binom

    inside = binom.cdf(7, 9, 0.5) - binom.cdf(1, 9, 0.5)
    assert inside > 0.95
    rounds = tuple(float(each) for each in range(1, 10))
    found = slowdown(side((1.0,) * 9, reference=True), side(rounds), "p50", relative=False)
    assert found == (4.0, 1.0, 7.0)


def test_a_side_that_cannot_run_is_missing():
    absent = side((), path="gpu").model_copy(update={"reason": "no NVIDIA GPU", "images": 0})
    found, code = outcome({"fail": 1.0}, side(QUIET, reference=True), absent)
    assert (found.state, code) == ("error", 4)


def test_a_run_leaves_timing_to_the_gate():
    gate = Gate.model_validate({"rules": [{"metric": "latency.preprocess.p50", "fail": 1.0}]})
    verdict = judge(gate, Evidence(), controls=())
    assert verdict.rules[0].observed == "`alignkit gate` measures latency"


@pytest.mark.parametrize(("rule", "said"), [
    ("{metric: latency.preprocess.p50, fail: 1, against: baseline}", "another machine's"),
    ("{metric: latency.preprocess.p50, fail: 1, backend: torch}", "before any backend"),
    ("{metric: latency.preprocess.p50, fail: 1, where: {mode: grey}}", "over all images"),
    ("{metric: latency.inference.p50, fail: 1}", "needs a model"),
    ("{metric: latency.preprocess.p50, margin: 1}", "no interval to hold against a margin"),
])  # fmt: skip
def test_rules_that_cannot_be_measured_are_refused(tmp_path, rule, said):
    with pytest.raises(Exception, match=said):
        load_experiment(make_case(tmp_path).write(rule), [])


def test_every_side_is_timed_on_every_image_in_every_round(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROUNDS", 3)
    case = make_case(tmp_path)
    file = case.write("{metric: latency.preprocess.p95, fail: 1000}")
    before = time.perf_counter()
    found = module.measure_latency(
        load_experiment(file, []), Context(Workspace(case.reports), NoProgress())
    )
    took = 1000 * (time.perf_counter() - before)
    assert [(each.path, each.reference, each.images) for each in found] == [
        ("pillow", True, 5), ("opencv", False, 5),
    ]  # fmt: skip
    for each in found:
        assert len(each.p50) == len(each.p95) == 3
        assert all(0 < p50 <= p95 for p50, p95 in zip(each.p50, each.p95, strict=True))
    # no more can have been measured than passed
    assert sum(5 / 2 * p50 for each in found for p50 in each.p50) < took


def test_the_time_of_a_surrogate_is_not_taken(tmp_path):
    case = make_case(tmp_path)
    gpu = PATHS + "  gpu: {preset: torchpipe-gpu-surrogate, size: 32}\n"
    experiment = load_experiment(case.write("{metric: latency.preprocess.p50, fail: 9}", paths=gpu))
    found = module.measure_latency(experiment, Context(Workspace(case.reports), NoProgress()))
    reasons = {each.path: (each.reason, bool(each.p50)) for each in found}
    said = "a surrogate's time is not that of the stack that it imitates"
    assert reasons == {"pillow": ("", True), "opencv": ("", True), "gpu": (said, False)}


def test_the_time_of_a_simulation_is_not_taken(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SIMULATED)
    experiment = load_experiment(file, [])
    found = module.measure_latency(experiment, Context(Workspace(tmp_path), NoProgress()))
    reasons = {each.backend: (each.path, each.reason, bool(each.p50)) for each in found}
    said = "a simulation's time is not that of the hardware"
    assert reasons == {"torch": ("opencv", "", True), "simulated": ("opencv", said, False)}


def test_a_time_is_told_with_its_place():
    runtimes = [
        {"path": "opencv", "backend": "torch", "precision": "fp32"},
        {"path": "opencv", "backend": "onnxruntime", "precision": "int8"},
    ]
    sides = [
        side(QUIET, reference=runtime["backend"] == "torch", **runtime).model_copy(
            update={"part": "inference"}
        )
        for runtime in runtimes
    ]
    place = "trained with opencv, served with opencv in onnxruntime int8"
    gate = Gate.model_validate({"rules": [{"metric": "latency.inference.p50", "fail": 2.0}]})
    for factor, said in (
        (1, f"All 1 checks hold: {place}."),
        (2, f", 2 ms allowed: {place}."),
    ):
        slow = sides[1].model_copy(update={"p50": slower(factor)})
        evidence = Evidence(latencies=(sides[0], slow), paths=[PathFacts(name="opencv", stages=())])
        assert said in judge(gate, evidence, controls=()).sentence


def test_nothing_is_timed_unless_a_rule_asks(tmp_path):
    case = make_case(tmp_path)
    experiment = load_experiment(case.write("{preset: decode}"), [])
    assert module.measure_latency(experiment, Context(Workspace(case.reports), NoProgress())) == ()
