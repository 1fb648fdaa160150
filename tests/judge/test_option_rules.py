"""Rules about serving options under load and about headroom: when they pass, fail and are open."""

import re

import pytest

from alignkit.compare.statistics import exact_interval
from alignkit.experiment import load_experiment
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.metric_option import MOST_HEADROOM
from alignkit.judge import judge
from alignkit.judge.evidence import Evidence
from alignkit.plan import make_plan
from alignkit.record import Estimate, HeadroomFacts, PathFacts
from alignkit.record.bench_facts import ServedLoad, ServedRound, ServingOption
from alignkit.record.tolerance_facts import (
    MOST_CHECKED,
    CurvePoint,
    Limit,
    LineCheck,
    PixelTolerance,
    SeedCurve,
)
from tests.gate_case import make_case

QUIET = (100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 99.0)
"""Requests a second of each round."""
SERVING = {"metric": "throughput.ratio", "path": "serving"}
PATHS = tuple(PathFacts(name=name, stages=()) for name in ("training", "serving"))


def load(speeds=QUIET, tp99=10.0, clients=1, requests=112, **facts):
    rounds = tuple(
        ServedRound(
            # the clients drain at the end of a round, which is no part of requests/s
            requests=requests, seconds=1 + requests / speed, throughput=speed, tp50_ms=5,
            tp99_ms=tp99 * 100 / speed, cpu_seconds=1,
        )
        for speed in speeds
    )  # fmt: skip
    total = requests * len(speeds)
    few = Estimate(None, None, None, f"TP99 needs 1,000 requests; these are {total}")
    known = Estimate(tp99, tp99, tp99)
    return ServedLoad(
        clients=clients, requests=total, throughput=known, mean_ms=5, tp50_ms=known,
        tp90_ms=known, tp99_ms=few if total < 1000 else known, stages_ms={"decode": 400 / speeds[0]},
        cpu_ms=4, rounds=rounds, **facts,
    )  # fmt: skip


def option(path, *loads, row="training", **facts):
    place = {"evaluated_with": path, "backend": "onnxruntime", "precision": "fp32"}
    given = {"state": "measured", "reference": path == row, **facts}
    return ServingOption(trained_with=row, **place, loads=loads, **given)


def outcome(rule, *options, **evidence):
    gate = Gate.model_validate({"rules": [rule]})
    verdict = judge(gate, Evidence(served=options, paths=PATHS, **evidence), controls=())
    (only,) = verdict.rules
    return only, verdict


def slower(factor):
    return tuple(each * factor for each in QUIET)


REFERENCE = option("training", load())


@pytest.mark.parametrize(("factor", "state", "code"), [
    (1.0, "pass", 0), (1.3, "pass", 0), (0.85, "warn", 0), (0.5, "fail", 1),
])  # fmt: skip
def test_throughput_is_bounded_from_below(factor, state, code):
    rule = {**SERVING, "warn": 0.9, "fail": 0.7}
    found, verdict = outcome(rule, REFERENCE, option("serving", load(slower(factor))))
    assert (found.state, verdict.exit_code) == (state, code)


@pytest.mark.parametrize(("factor", "state"), [(1.0, "pass"), (2.0, "fail"), (0.7, "pass")])
def test_tp99_is_bounded_from_above(factor, state):
    rule = {"metric": "latency.p99.ratio", "fail": 1.5}
    found, _ = outcome(rule, REFERENCE, option("serving", load(tp99=10 * factor)))
    assert found.state == state
    assert found.observed == f"{factor:.3g} × [{factor:.3g}, {factor:.3g}]"


def test_the_interval_is_that_of_the_ratios_of_rounds():
    factors = (0.91, 0.99, 0.95, 0.93, 1.2, 0.2, 0.97, 0.94, 0.96)
    speeds = tuple(a * b for a, b in zip(QUIET, factors, strict=True))
    found, _ = outcome({**SERVING, "fail": 0.9}, REFERENCE, option("serving", load(speeds)))
    # the median, and the second least and second greatest of nine: the sign test
    assert found.observed == "0.95 × [0.91, 0.99]"
    assert found.state == "pass"
    found, _ = outcome({**SERVING, "fail": 0.93}, REFERENCE, option("serving", load(speeds)))
    assert found.state == "inconclusive"


@pytest.mark.parametrize("factor", [0.1, 1.0])
@pytest.mark.parametrize("side", ["training", "serving"])
def test_a_busy_machine_decides_nothing(factor, side):
    busy = {side: {"contended": "other programs took 40 % of the CPU time"}}
    sides = (
        option("training", load(**busy.get("training", {}))),
        option("serving", load(slower(factor), **busy.get("serving", {}))),
    )
    for metric in ("throughput.ratio", "latency.p99.ratio"):
        found, verdict = outcome({"metric": metric, "fail": 0.5}, *sides)
        assert found.state == "inconclusive"
        assert "the machine was busy" in found.observed
        assert "other programs took 40 %" in found.observed
        assert "nothing else" in verdict.actions[0].words
    gate = Gate.model_validate({"rules": [{**SERVING, "fail": 0.5}], "on_inconclusive": "fail"})
    assert judge(gate, Evidence(served=sides, paths=PATHS), controls=()).exit_code == 7


def test_what_nobody_watched_is_decided_and_said():
    unwatched = load(unwatched="this system does not tell who computes on its CPUs")
    found, _ = outcome({**SERVING, "fail": 0.9}, REFERENCE, option("serving", unwatched))
    assert found.state == "pass"
    assert "not known whether the machine was busy: this system" in found.cause


def test_tp99_of_few_requests_is_inconclusive():
    few = [option(each, load(requests=11)) for each in ("training", "serving")]
    found, _ = outcome({"metric": "latency.p99.ratio", "fail": 1.5}, *few)
    assert (found.state, "TP99 needs 1,000 requests; these are 99" in found.observed) == (
        "inconclusive", True,
    )  # fmt: skip
    assert outcome({**SERVING, "fail": 0.9}, *few)[0].state == "pass"


@pytest.mark.parametrize("metric", ["throughput.ratio", "latency.p99.ratio"])
def test_an_option_that_was_not_timed_is_no_pass(metric):
    surrogate = {"state": "skipped", "reason": "a surrogate's time is not that of the stack"}
    for state, code in ((surrogate, 4), ({"state": "failed", "reason": "crashed: SIGABRT"}, 3)):
        rule = {"metric": metric, "fail": 1.0, "path": "serving"}
        found, verdict = outcome(rule, REFERENCE, option("serving", **state))
        assert (found.state, verdict.exit_code) == ("error", code)
        assert found.observed == state["reason"]
        found, verdict = outcome(rule, option("training", **state), option("serving", load()))
        assert (found.state, verdict.exit_code) == ("error", code)
        assert found.observed == f"the reference: {state['reason']}"


def test_a_rule_reads_its_own_number_of_clients_and_its_own_option():
    sides = (
        option("training", load(), load(clients=5)),
        option("serving", load(), load(slower(0.5), clients=5)),
        option("pillow", load(slower(0.2)), load(slower(0.2), clients=5)),
    )
    rule = {**SERVING, "fail": 0.9}
    assert outcome(rule, *sides)[0].state == "pass"
    found, verdict = outcome({**rule, "clients": 5}, *sides)
    assert (found.state, found.rule) == ("fail", "throughput.ratio serving clients=5")
    assert verdict.sentence.startswith("Requests/s over those of the reference 0.5 ×")
    assert "0.9 × asked" in verdict.sentence
    assert verdict.cause.startswith("100 → 50 requests/s, 9")
    assert "the mean of decode changed most, 4 → 8 ms" in verdict.cause


def test_options_are_compared_with_the_reference_of_their_own_model():
    other = [
        option("training", load(slower(0.1)), row="b"),
        option("b", load(slower(0.1)), row="b"),
    ]
    rule = {"metric": "throughput.ratio", "fail": 0.9, "path": "training"}
    found, _ = outcome(rule, REFERENCE, *other)
    assert (found.trained_with, found.state) == ("b", "pass")


def test_a_rule_that_nothing_is_about_is_no_pass():
    found, verdict = outcome({**SERVING, "fail": 0.9}, REFERENCE)
    assert (found.state, verdict.exit_code) == ("error", 5)


def test_the_reference_under_another_name_is_no_candidate():
    stages = ()
    paths = (PathFacts(name="training", stages=stages),
             PathFacts(name="serving", stages=stages, same_as="training"))  # fmt: skip
    gate = Gate.model_validate({"rules": [{**SERVING, "fail": 0.9}]})
    verdict = judge(gate, Evidence(served=(REFERENCE, option("serving", load())), paths=paths),
                    controls=())  # fmt: skip
    assert verdict.exit_code == 5
    assert [each.metric for each in verdict.rules] == ["comparison"]


def curve(limit, *changed, source="line, checked", images=1000, reason="", far=None):
    """A curve; ``far``: the network's changed answers at 2 in its check."""
    points = tuple(
        CurvePoint(factor, images, some, *exact_interval(some, images), None, None, {})
        for factor, some in ((factor, round(images * share)) for factor, share in changed)
    )
    found = Limit(limit, None if limit is None else 2, None,
                  reason="inconclusive: a budget of 0.5 % needs 598 images" if limit is None else "")  # fmt: skip
    return SeedCurve(
        seed=0, images=images, source=source, limit=found, points=points, reason=reason,
        checks=() if far is None else (LineCheck(2.0, images, far, far, 0, 0, 1.0),),
    )  # fmt: skip


def headroom(rule, *seeds, budget=0.005):
    facts = HeadroomFacts(
        budget=budget,
        pixels=(
            PixelTolerance(
                trained_with="training", backend="torch", precision="fp32", reference="training",
                candidate="serving", mean_abs=1.0, factor=None, levels=None, seeds=seeds,
            ),
        ),
    )  # fmt: skip
    given = {"metric": "headroom", **rule}
    gate = Gate.model_validate({"rules": [given]})
    verdict = judge(gate, Evidence(headrooms=(facts,), paths=PATHS), controls=())
    (only,) = verdict.rules
    return only, verdict


@pytest.mark.parametrize(("limit", "exceeded", "state"), [
    (0.4, 0.5, "fail"), (1.0, 1.5, "fail"), (1.0, 2.0, "inconclusive"),
])  # fmt: skip
def test_headroom_is_decided_by_both_of_its_bounds(limit, exceeded, state):
    found, _ = headroom({"fail": 1.5}, curve(limit, (0.25, 0.0), (exceeded, 0.02)))
    assert found.state == state
    assert found.observed == f"{limit:g} × or more, and less than {exceeded:g} ×"


def test_the_seed_that_bears_least_decides():
    seeds = (curve(2.0, (3.0, 0.02)), curve(0.4, (0.5, 0.02)))
    found, _ = headroom({"fail": 1.0}, *seeds)
    assert found.state == "fail"
    assert found.observed == "0.4 × or more, and less than 0.5 ×"
    # within the budget for one seed only is within it for none
    assert headroom({"fail": 0.3}, curve(2.0), curve(None))[0].state == "inconclusive"


def test_too_few_images_are_inconclusive_and_say_how_many_suffice():
    found, verdict = headroom({"fail": 1.5}, curve(None, (1.0, 0.0), images=40))
    assert (found.state, found.needed) == ("inconclusive", 598)
    assert "598" in verdict.actions[0].words
    # few can still show that a budget is exceeded
    assert headroom({"fail": 1.5}, curve(None, (1.0, 0.2), images=40))[0].state == "fail"


def test_a_line_that_no_network_confirmed_ends_at_the_path():
    unchecked = {"source": "line, not checked", "reason": "models gone"}
    loose = curve(2.5, (2.0, 0.02), **unchecked)
    found, _ = headroom({"fail": 1.5}, loose)
    assert found.state == "inconclusive"
    assert found.observed == "1 × or more"
    assert "the network was run at 1 × alone: models gone" in found.cause
    assert headroom({"fail": 1.0}, loose)[0].state == "pass"
    # between its ends it is a guess, and decides nothing
    guess = curve(0.6, (0.5, 0.0), (0.75, 0.5), **unchecked)
    assert headroom({"fail": 0.5}, guess)[0].state == "inconclusive"
    assert headroom({"fail": 0.9}, guess)[0].state == "inconclusive"
    assert headroom({"fail": 1.0}, curve(0.6, (1.0, 0.5), **unchecked))[0].state == "fail"


def test_a_line_decides_as_far_as_the_network_was_run():
    found, _ = headroom({"fail": 2.0}, curve(2.5, (2.0, 0.0), (3.0, 0.5), far=1))
    assert (found.state, found.observed) == ("pass", "2 × or more")


@pytest.mark.parametrize(("limit", "far", "state"), [
    (2.5, 1, "pass"), (2.5, 2, "inconclusive"), (2.5, None, "inconclusive"),
    (1.9, 1, "inconclusive"),
])  # fmt: skip
def test_more_than_the_path_itself_takes_the_networks_own_answers(limit, far, state):
    # of 1,000 images one may change within 0.5 %, by its one-sided 95 % bound
    found, _ = headroom({"fail": 1.5}, curve(limit, far=far))
    assert found.state == state
    assert headroom({"fail": 1.0}, curve(limit, far=far))[0].state == "pass"


@pytest.mark.parametrize(("source", "seeds", "state"), [
    ("line, checked", 1, "fail"), ("line, checked", 2, "inconclusive"),
    ("measured points", 1, "inconclusive"),
])  # fmt: skip
def test_more_seeds_and_points_that_could_err_need_more_evidence(source, seeds, state):
    # 10 of 1,000 or more are found in 3.1 % of samples of a share of 0.5 %
    points = ((0.25, 0.0), (0.5, 0.01))
    found, _ = headroom({"fail": 1.5}, *[curve(0.25, *points, source=source)] * seeds)
    assert found.state == state


def test_a_rule_reads_the_curve_of_its_own_budget():
    found, verdict = headroom(
        {"fail": 1.5, "budget": "1%"}, curve(2.0, (3.0, 0.05), far=4), budget=0.01
    )
    assert (found.state, found.rule) == ("pass", "headroom budget=0.01")
    found, verdict = headroom({"fail": 1.5, "budget": 0.02}, curve(2.0))
    assert (found.state, verdict.exit_code) == ("error", 5)


def test_no_headroom_beyond_what_is_looked_at_is_asked_for():
    assert MOST_HEADROOM == MOST_CHECKED


def test_a_run_leaves_them_to_the_gate():
    for metric, said in (
        ("throughput.ratio", "`alignkit gate` loads serving options"),
        ("headroom", "`alignkit gate` measures headroom"),
    ):
        gate = Gate.model_validate({"rules": [{"metric": metric, "fail": 0.5}]})
        (found,) = judge(gate, Evidence(), controls=()).rules
        assert (found.left_to_gate, found.observed) == (True, said)


MODELS = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {epochs: 1, seeds: [0]}
"""


def written(tmp_path, *rules, bench=""):
    file = tmp_path / "small.yaml"
    lines = "".join(f"    - {rule}\n" for rule in rules)
    file.write_text(f"{MODELS}gate:\n{bench}  rules:\n{lines}")
    return load_experiment(file)


@pytest.mark.parametrize(("rule", "said"), [
    ("{metric: throughput.ratio, fail: 0.9, path: pilow}", "did you mean 'pillow'"),
    ("{metric: throughput.ratio, fail: 0.9, backend: torhc}", "did you mean 'torch'"),
    ("{metric: throughput.ratio, fail: 0.9, precision: fp23}", "no precision 'fp23'"),
    ("{metric: throughput.ratio, fail: 0.9, clients: 0}", "greater than or equal to 1"),
    ("{metric: churn, fail: 0.9, clients: 5}", "'clients' is for throughput.ratio"),
    ("{metric: churn, fail: 0.9, budget: 1%}", "'budget' is for headroom"),
    ("{metric: headroom, fail: 1, budget: 100%}", "no share above 0 and below 1"),
    ("{metric: headroom, fail: 3.5}", "always fires"),
    ("{metric: headroom, fail: 1, backend: torch}", "the models' own runtime"),
    ("{metric: headroom, fail: 1, against: baseline}", "a baseline keeps no outputs"),
    ("{metric: throughput.ratio, fail: 0.9, against: baseline}", "belongs to the machine"),
    ("{metric: throughput.ratio, fail: 0.9, relative: true}", "leave 'relative' out"),
    ("{metric: throughput.ratio, margin: 0.1}", "use 'warn' or 'fail'"),
    ("{metric: throughput.ratio, warn: 0.7, fail: 0.9}", "can never fire"),
    ("{preset: mlperf-99, clients: 5}", "a preset has its own limits"),
])  # fmt: skip
def test_what_such_a_rule_cannot_mean_is_refused(tmp_path, rule, said):
    with pytest.raises(Exception, match=re.escape(said)):
        written(tmp_path, rule)


@pytest.mark.parametrize(("rule", "bench", "said"), [
    ("{metric: churn, fail: 0.9}", "{requests: 500}", "no rule is about their speed or memory"),
    ("{metric: latency.p99.ratio, fail: 2}", "{requests: 500}", "needs 1,000 requests or more"),
    ("{metric: throughput.ratio, fail: 0.5}", "{request: 500}", "requests"),
])  # fmt: skip
def test_a_load_that_no_rule_can_use_is_refused(tmp_path, rule, bench, said):
    with pytest.raises(Exception, match=said):
        written(tmp_path, rule, bench=f"  bench: {bench}\n")


@pytest.mark.parametrize("metric", ["throughput.ratio", "headroom"])
def test_a_gate_of_pixels_has_no_such_rule(tmp_path, metric):
    with pytest.raises(Exception, match="needs a model"):
        load_experiment(make_case(tmp_path).write(f"{{metric: {metric}, fail: 1}}"))


def test_every_option_of_such_a_rule_is_in_the_key(tmp_path):
    speed, room = "metric: throughput.ratio, fail: 0.9", "metric: headroom, fail: 1"
    files = [
        ([f"{{{speed}}}"], ""),
        ([f"{{{speed}, clients: 5}}"], ""),
        ([f"{{{speed}, path: pillow}}"], ""),
        ([f"{{{speed}}}"], "  bench: {requests: 2000}\n"),
        ([f"{{{speed}}}"], "  bench: {cpus: 1}\n"),
        ([f"{{{room}}}"], ""),
        ([f"{{{room}, budget: 1%}}"], ""),
    ]
    keys = [make_plan(written(tmp_path, *rules, bench=bench)).key for rules, bench in files]
    assert len({*keys}) == len(files)
    # two ways to write one share are one rule
    assert make_plan(written(tmp_path, f"{{{room}, budget: 0.01}}")).key == keys[-1]
