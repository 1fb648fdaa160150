"""No stage is called a cause, and no step is advised, where its swap leaves as much as there was."""

from itertools import chain, combinations, permutations

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    AttributionFacts,
    CoverageDiff,
    Estimate,
    FactorShare,
    MatrixEntry,
    Measurements,
    PathFacts,
    PixelStage,
    StageFacts,
)
from alignkit.record.verdict_facts import stated
from alignkit.report.cause_view import cause_parts
from alignkit.text.names import Names
from tests.report.records import quickstart

IMAGES = 600
STAGES = ("decode", "orient", "resize", "quantise", "normalise")
ZERO = Estimate(0.0, 0.0, 0.0)
CHURN = Gate(rules=(Rule(metric="churn", fail=0.001),))


def paths(*names):
    return tuple(
        PathFacts(name=name, stages=tuple(
            StageFacts(stage=stage, label=name, options={"of": name}, version="", yaml=name)
            for stage in STAGES
        ))
        for name in names
    )  # fmt: skip


def subsets(factors):
    return map(frozenset, chain(*(combinations(factors, n) for n in range(len(factors) + 1))))


def estimate(values, draws):
    """The mean over images with its percentile interval."""
    low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
    return Estimate(float(values.mean()), float(low), float(high))


def attributed(factors, mixtures, metric="churn", images=IMAGES):
    """Attribute by the definition of Shapley; ``mixtures``: factors → each image's change."""
    values = {frozenset(name.split()): np.zeros(images) for name in ("", *mixtures)}
    for name, changes in mixtures.items():
        for change, rows in changes:
            values[frozenset(name.split())][rows] = change
    values[frozenset()] = values.pop(frozenset([""]), np.zeros(images))
    draws = np.random.default_rng(0).integers(images, size=(500, images))
    whole = frozenset(factors)
    every = len(factors) <= 4

    def share(factor):
        alone = values[frozenset([factor])]
        if not every:
            return FactorShare(factor, estimate(alone, draws), estimate(alone, draws))
        orders = [frozenset(e[: e.index(factor)]) for e in permutations(factors)]
        mean = np.mean([values[e | {factor}] - values[e] for e in orders], axis=0)
        last = estimate(values[whole] - values[whole - {factor}], draws)
        return FactorShare(factor, estimate(mean, draws), estimate(alone, draws), last)

    return AttributionFacts(
        reference="a", candidate="b", backend="torch", precision="int8", metric=metric,
        unit="fraction", method="shapley" if every else "one-at-a-time", images=images,
        shares=tuple(map(share, factors)), interaction=ZERO, total=estimate(values[whole], draws),
    )  # fmt: skip


def entry(path, answers, precision="int8", name="a", **more):
    own = flipped(0, images=len(answers))
    answers = np.r_[answers[:-1], answers[-1] or 1]
    reference, candidate = (predictions(each) for each in (own, answers))
    aligned = path == "a" and precision == "fp32"
    return MatrixEntry(
        trained_with=name, evaluated_with=path, backend="torch", precision=precision, seeds=(0,),
        aligned=aligned, state="measured", non_finite=int((~candidate.finite()).sum()),
        drift=None if aligned else drift([reference], [candidate], draws=SharedDraws(200)), **more,
    )  # fmt: skip


def predictions(answers):
    """Class 0 or 1, NaN for -1, and infinite for -2 with class 0."""
    logits = np.zeros((len(answers), 2), np.float32)
    logits[np.arange(len(answers)), np.maximum(answers, 0)] = 1
    logits[answers == -1] = np.nan
    logits[answers == -2, 0] = np.inf
    ids = tuple(f"{index:04}.jpg" for index in range(len(answers)))
    return Predictions(ids, np.zeros(len(answers), np.int64), logits, ("x", "y"))


def flipped(number, value=1, images=IMAGES):
    answers = np.zeros(images, np.int64)
    answers[-1] = 1  # a model of one answer for all shows nothing
    answers[:number] = value
    return answers


def judged(*entries, gate=CHURN, **more):
    own = entry("a", flipped(0), "fp32")
    evidence = Measurements(
        matrix=(own, *entries), paths=paths("a", "b"), command="alignkit run x.yaml", **more
    )
    return judge(gate, evidence, controls=())


def flips(*rows):
    return [(1.0, each) for each in rows]


N, Q, R, D = "normalise", "quantise", "resize", "decode"
# the kind of the cause with its factors, and the stages to swap with what then remains
GAMES = {
    # the two toy models of the review: each stage alone flips as much as both, or more
    "opposed, the same remains": (
        (Q, N), {Q: flips(range(100, 129)), N: flips(range(58)), f"{Q} {N}": flips(range(29))},
        ("opposed", N, Q), ((Q, N), 0.0),
    ),
    "opposed, more remains": (
        (Q, N), {Q: flips(range(100, 129)), N: flips(range(49)), f"{Q} {N}": flips(range(18))},
        ("opposed", N, Q), ((Q, N), 0.0),
    ),
    # each of them flips the same images: without either, as many still flip
    "alike": (
        (D, R), {D: flips(range(29)), R: flips(range(29)), f"{D} {R}": flips(range(29))},
        ("largest", D, R), ((D, R), 0.0),
    ),
    "only together": (
        (D, R), {D: [], R: [], f"{D} {R}": flips(range(30))}, ("most", D, R), ((D,), 0.0),
    ),
    "one cause": (
        (D, R), {D: [], R: flips(range(40)), f"{D} {R}": flips(range(40))},
        ("all", R), ((R,), 0.0),
    ),
    "most of it": (
        (D, R), {D: flips(range(6)), R: flips(range(40)), f"{D} {R}": flips(range(45))},
        ("most", R, D), ((R,), 0.01),
    ),
    # two take each other back, and the third one is all that is left
    "a cause beside two opposed": (
        (D, R, N),
        {D: flips(range(50, 70)), N: flips(range(50, 70)), f"{D} {N}": [], R: flips(range(40)),
         f"{D} {R}": flips(range(70)), f"{R} {N}": flips(range(70)),
         f"{D} {R} {N}": flips(range(40))},
        ("most", R, D, N), ((R,), 0.0),
    ),
    "a runtime that takes back": (
        (R, "precision"),
        {R: flips(range(58)), "precision": flips(range(100, 129)),
         f"{R} precision": flips(range(29))},
        ("opposed", R, "precision"), None,
    ),
    # of five stages each alone is known, and what remains without one is not
    "five that take back": (
        STAGES, {**{each: flips(range(20 * i, 20 * i + 20)) for i, each in enumerate(STAGES)},
                 " ".join(STAGES): flips(range(10))},
        ("opposed", *STAGES), None,
    ),
    "five of which one is the cause": (
        STAGES, {**{each: [] for each in STAGES}, R: flips(range(40)),
                 " ".join(STAGES): flips(range(40))},
        ("all", R), ((R,), None),
    ),
}  # fmt: skip


def swaps(verdict):
    """The stages of each swap, and what remains after it."""
    return [
        (tuple(each.what.names("stages")), each.what.values.get("remains"))
        for each in verdict.steps
        if each.what.kind in ("swap", "swap all")
    ]


@pytest.mark.parametrize(("factors", "mixtures", "cause", "step"), GAMES.values(), ids=GAMES)
def test_a_cause_and_a_step_take_most_of_the_change_away(factors, mixtures, cause, step):
    found = attributed(factors, mixtures)
    changed = round(IMAGES * found.total.value)
    verdict = judged(entry("b", flipped(changed)), attributions=(found,))
    (found,) = verdict.cause
    assert (found.kind, {*found.names("factors")}) == (cause[0], {*cause[1:]})
    if cause[0] in ("most", "all"):
        assert found.names("factors")[0] == cause[1]
    assert [stages for stages, _ in swaps(verdict)] == ([step[0]] if step else [])
    for _, remains in swaps(verdict):
        assert remains == (None if step[1] is None else pytest.approx(step[1], abs=1e-9))


@pytest.mark.parametrize("name", GAMES)
def test_the_page_calls_shares_that_oppose_no_cause(name):
    factors, mixtures, cause, _ = GAMES[name]
    record = quickstart().model_copy(update={"attributions": (attributed(factors, mixtures),)})
    _, sentence, *_ = cause_parts(record, Names(record.paths))
    begins = (
        "Shares that push against each other, of churn: " if cause[0] == "opposed" else "Cause of "
    )
    assert sentence.words.startswith(begins)


@pytest.mark.parametrize(("resize", "decode", "both", "step"), [
    (-30, 18, -12, (D, R)),  # a repair of one leaves +3 pp, −5 pp
    (-30, 6, -24, (R,)),
    (-6, -24, -30, (D,)),
    (-2, -2, -2, (D, R)),
    (-30, -1, -31, (R,)),
])  # fmt: skip
def test_a_step_against_a_change_with_a_sign_leaves_less_of_it(resize, decode, both, step):
    def moved(number):
        return [(np.sign(number), range(abs(number)))]

    found = attributed(
        (D, R), {D: moved(decode), R: moved(resize), f"{D} {R}": moved(both)}, "recall.macro"
    )
    gate = Gate(rules=(Rule(metric="recall.macro", fail=0.001),))
    served = entry("b", flipped(abs(both)))
    ((stages, remains),) = swaps(judged(served, gate=gate, attributions=(found,)))
    left = {(R,): decode, (D,): resize}.get(step, 0)
    assert (stages, remains) == (step, pytest.approx(left / IMAGES))


def test_a_difference_that_chance_explains_is_not_clearly_less():
    # 1 of 2 flips remains: no more than another draw of the images would show
    mixtures = {D: flips(range(1)), R: flips(range(2)), f"{D} {R}": flips(range(2))}
    found = attributed((D, R), mixtures, images=60)
    verdict = judged(entry("b", flipped(2, images=60)), attributions=(found,))
    assert swaps(verdict) == [((D, R), 0.0)]


def test_a_runtime_whose_share_is_zero_is_not_innocent_where_it_takes_back_what_a_stage_does():
    found = attributed((R, "precision"), GAMES["a runtime that takes back"][1])
    assert abs(found.shares[1].effect.value) < 1e-9
    own = entry("a", flipped(0), "fp32")
    alone = entry("b", flipped(58), "fp32")
    both = entry("b", flipped(29))
    evidence = Measurements(matrix=(own, alone, both), paths=paths("a", "b"), attributions=(found,))
    only = Gate(rules=(Rule(metric="churn", fail=0.001, precision="int8"),))
    assert judge(only, evidence, controls=()).first.place == both.place


@pytest.mark.parametrize("name", ["opencv (model two)", "opencv (model one)"])
def test_shares_of_one_model_are_no_cause_of_anothers_drift(name):
    """The shares of a run are those of the first of several models of the reference path."""
    names = ("opencv (model one)", "opencv (model two)")
    found = attributed((D, R), GAMES["one cause"][1]).model_copy(update={"reference": "opencv"})
    rows = [
        row
        for each in names
        for row in (
            entry("opencv", flipped(0), "fp32", each).model_copy(update={"aligned": True}),
            entry("b", flipped(40 if each == name else 0), name=each),
        )
    ]
    evidence = Measurements(
        matrix=rows, paths=paths("opencv", "b"), attributions=(found,), command="alignkit run x"
    )
    verdict = judge(CHURN, evidence, controls=())
    assert verdict.first.trained_with == name
    assert [each.kind for each in verdict.cause] == ["all"] * (name == names[0])
    assert len(verdict.steps) == (name == names[0])


LOST = {  # answers as served (−1: NaN, −2: infinite) → images lost, causes
    "NaN as served": (np.r_[[-1] * 16, [1] * 2, [0] * 42], 16, ["lost on one side", "all"]),
    "few NaN": (np.r_[[-1] * 2, [1] * 16, [0] * 42], 2, ["all"]),
    "infinite with the same class": (np.r_[[-2] * 16, [1] * 2, [0] * 42], 16, ["all"]),
    "NaN alone": (np.r_[[-1] * 3, [0] * 57], 3, ["lost on one side", "all"]),
}


@pytest.mark.parametrize(("answers", "images", "causes"), LOST.values(), ids=LOST)
def test_outputs_that_are_not_finite_come_first(answers, images, causes):
    found = attributed((D, R), GAMES["one cause"][1])
    verdict = judged(entry("b", answers), attributions=(found,))
    lost, decides = verdict.sentence
    assert lost.values == {"lost": images, "images": 60, "as_served": images, "as_trained": 0}
    assert decides.kind == "failed"
    assert [each.kind for each in verdict.cause] == causes
    assert (verdict.steps[0].what.kind == "repair model") is (len(causes) == 2)


def test_a_runtime_whose_outputs_overflow_is_the_cause_of_what_is_lost():
    verdict = judged(entry("a", flipped(9, -1)))
    assert verdict.sentence[0].number("lost") == 9
    assert verdict.cause == (
        stated("lost on one side", lost=9, changed=9), stated("runtime", file="")
    )  # fmt: skip


def test_a_pass_with_outputs_that_are_not_finite_says_so_first():
    lost = entry("b", flipped(0)).model_copy(update={"non_finite": 4})
    same = drift(
        [predictions(flipped(4, -1))], [predictions(flipped(4, -1))], draws=SharedDraws(200)
    )
    wide = Gate(rules=(Rule(metric="churn", fail=0.1),))
    verdict = judged(lost.model_copy(update={"drift": same}), gate=wide)
    assert (same.non_finite, same.non_finite_once, same.non_finite_changed) == (4, 0, 0)
    assert (verdict.state, verdict.sentence[0].number("lost")) == ("pass", 4)


def test_the_place_of_outputs_that_are_not_finite_is_named_where_another_decides():
    wide = Gate(rules=(Rule(metric="churn", fail=0.001, precision="fp32"),))
    elsewhere = entry("b", flipped(40, -1))
    lost, *_ = judged(entry("b", flipped(9), "fp32"), elsewhere, gate=wide).sentence
    counts = {"lost": 40, "images": 600, "as_served": 40, "as_trained": 0}
    assert lost.values == {**counts, **elsewhere.place.fields}


@pytest.mark.parametrize(("value", "state"), [(-1, "fail"), (-2, "fail"), (0, "pass")])
def test_a_rule_about_logits_does_not_pass_on_the_finite_ones_alone(value, state):
    # the greatest |Δ| of all other images is 0
    gate = Gate(rules=(Rule(metric="logits.max_abs", fail=1.0),))
    (outcome,) = judged(entry("b", flipped(3, value)), gate=gate).rules
    assert outcome.state == state
    assert [(e.kind, e.values) for e in outcome.observed] == [("no answer", {"images": 3})] * bool(
        value
    )


def pixels(stage, mean, mode="isolated", **more):
    return PixelStage(
        reference="a", candidate="b", stage=stage, mode=mode, images=10,
        identical=10 * (not mean), mean_abs=mean, max_abs=9.0 * bool(mean), share_differing=0.5,
        psnr=40.0, bias=(0.0, 0.0, 0.0), **more,
    )  # fmt: skip


@pytest.mark.parametrize(("isolated", "metric", "mode", "step"), [
    ({"decode": 0.5, "resize": 6.0, "quantise": 0.0}, "quantise.mean_abs", "cumulative", "resize"),
    ({"decode": 6.0, "resize": 0.5, "quantise": 0.0}, "quantise.mean_abs", "cumulative", "decode"),
    ({"decode": 6.0, "resize": 0.5, "quantise": 0.0}, "resize.mean_abs", "cumulative", "decode"),
    ({"decode": 0.5, "resize": 0.0, "quantise": 6.0}, "quantise.mean_abs", "cumulative",
     "quantise"),
    ({"decode": 6.0, "resize": 0.5, "quantise": 0.0}, "resize.mean_abs", None, "resize"),
    # what comes later does not matter
    ({"decode": 0.5, "resize": 0.7, "quantise": 6.0}, "resize.mean_abs", "cumulative", "resize"),
])  # fmt: skip
def test_whole_paths_that_differ_are_repaired_at_the_stage_that_differs(
    isolated, metric, mode, step
):
    measured = [pixels(stage, mean) for stage, mean in isolated.items()]
    measured += [pixels(stage, 7.0, "cumulative") for stage in isolated]
    gate = Gate(rules=(Rule(metric=metric, fail=0.1, mode=mode),))
    coverage = CoverageDiff(
        reference="a", candidate="b", images=10, only_reference=0, only_candidate=0
    )
    evidence = Measurements(
        pixels=measured, coverage_diffs=(coverage,), paths=paths("a", "b"),
        command="alignkit gate x.yaml",
    )  # fmt: skip
    verdict = judge(gate, evidence, controls=())
    own = metric.partition(".")[0]
    assert [each.what for each in verdict.steps] == [
        stated("run with", served="b", own="a", stage=step)
    ]
    assert verdict.cause == (stated("stage", stage=own),)
    (cause,) = verdict.first.cause
    assert (cause.kind, cause.values["stage"]) == (
        "change" if step == own else "earlier change", step,
    )  # fmt: skip


def lost_on_both(number, value=-1):
    """An entry whose own models give no number either, and that flips some others."""
    sides = flipped(number, value), np.r_[flipped(number, value)[:-20], flipped(20, images=20)]
    before, after = (predictions(each) for each in sides)
    return entry("b", sides[1], "fp32").model_copy(
        update={"drift": drift([before], [after], draws=SharedDraws(200))}
    )


@pytest.mark.parametrize("value", [-1, -2])
@pytest.mark.parametrize("number", [300, 540])
@pytest.mark.parametrize("limit", [0.0001, 0.9999])
def test_where_most_answers_are_not_finite_nothing_else_is_a_cause_or_a_step(value, number, limit):
    gate = Gate(rules=(Rule(metric="churn", fail=limit),))
    served = entry("b", flipped(number, value), "fp32")
    shown = {"pixels": (pixels("resize", 3.0),)}
    for lost in (served, lost_on_both(number, value)):
        verdict = judged(lost, gate=gate, **shown)
        assert verdict.sentence[0].number("lost") == number
        assert verdict.cause == ()
        assert [each.what.kind for each in verdict.steps] == ["repair model"]


def test_a_runtime_that_loses_most_answers_is_a_cause_and_few_lost_answers_leave_others():
    verdict = judged(entry("a", flipped(540, -1)))
    assert verdict.cause[-1].kind == "runtime"
    assert verdict.steps[-1].what == stated("serve runtime", runtime="torch fp32")
    few = judged(entry("b", flipped(60, -1), "fp32"), pixels=(pixels("resize", 3.0),))
    assert few.cause
