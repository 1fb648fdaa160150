"""No stage is called a cause, and no step is advised, where its swap leaves as much as there was."""

from itertools import chain, combinations, permutations

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
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
from alignkit.record.spatial_facts import LevelMap, PixelMechanism, SpatialFacts
from alignkit.report.cause_view import cause_parts
from alignkit.text.names import Names
from alignkit.text.outcome import said as words_of
from tests.judge.said import judged as said_of
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
    return said_of(gate, evidence, controls=())


def flips(*rows):
    return [(1.0, each) for each in rows]


N, Q, R, D = "normalise", "quantise", "resize", "decode"
GAMES = {
    # the two toy models of the review: each stage alone flips as much as both, or more
    "opposed, the same remains": (
        (Q, N), {Q: flips(range(100, 129)), N: flips(range(58)), f"{Q} {N}": flips(range(29))},
        ("Normalise and quantise push against each other, so none of them alone is the cause: alone "
        "normalise +9.7 pp and quantise +4.8 pp of churn, together +4.8 pp."),
        "the quantise and normalise of a together: no change of churn remains; none of them",
    ),
    "opposed, more remains": (
        (Q, N), {Q: flips(range(100, 129)), N: flips(range(49)), f"{Q} {N}": flips(range(18))},
        "Normalise and quantise push", "the quantise and normalise of a together: no change",
    ),
    # each of them flips the same images: without either, as many still flip
    "alike": (
        (D, R), {D: flips(range(29)), R: flips(range(29)), f"{D} {R}": flips(range(29))},
        "The largest share is from decode (+2.4 pp of +4.8 pp churn); resize +2.4 pp.",
        "the decode and resize of a together: no change",
    ),
    "only together": (
        (D, R), {D: [], R: [], f"{D} {R}": flips(range(30))},
        "Most of it from decode (+2.5 pp of +5.0 pp churn); resize +2.5 pp.",
        "the decode of a: no change of churn remains.",
    ),
    "one cause": (
        (D, R), {D: [], R: flips(range(40)), f"{D} {R}": flips(range(40))},
        "All of it from resize; decode adds nothing.",
        "the resize of a: no change of churn remains.",
    ),
    "most of it": (
        (D, R), {D: flips(range(6)), R: flips(range(40)), f"{D} {R}": flips(range(45))},
        "Most of it from resize (+6.6 pp of +7.5 pp churn); decode +0.9 pp.",
        "the resize of a: +1.0 pp of churn remains.",
    ),
    # two take each other back, and the third one is all that is left
    "a cause beside two opposed": (
        (D, R, N),
        {D: flips(range(50, 70)), N: flips(range(50, 70)), f"{D} {N}": [], R: flips(range(40)),
         f"{D} {R}": flips(range(70)), f"{R} {N}": flips(range(70)),
         f"{D} {R} {N}": flips(range(40))},
        "Most of it from resize", "the resize of a: no change of churn remains.",
    ),
    "a runtime that takes back": (
        (R, "precision"),
        {R: flips(range(58)), "precision": flips(range(100, 129)),
         f"{R} precision": flips(range(29))},
        "Resize and int8 precision push against each other", None,
    ),
    # of five stages each alone is known, and what remains without one is not
    "five that take back": (
        STAGES, {**{each: flips(range(20 * i, 20 * i + 20)) for i, each in enumerate(STAGES)},
                 " ".join(STAGES): flips(range(10))},
        "Decode, orient, resize, quantise and normalise push against", None,
    ),
    "five of which one is the cause": (
        STAGES, {**{each: [] for each in STAGES}, R: flips(range(40)),
                 " ".join(STAGES): flips(range(40))},
        "All of it from resize; decode, orient, quantise and normalise add nothing.",
        "the resize of a.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("factors", "mixtures", "cause", "step"), GAMES.values(), ids=GAMES)
def test_a_cause_and_a_step_take_most_of_the_change_away(factors, mixtures, cause, step):
    found = attributed(factors, mixtures)
    changed = round(IMAGES * found.total.value)
    verdict = judged(entry("b", flipped(changed)), attributions=(found,))
    assert verdict.cause.startswith(cause)
    steps = [each.words for each in verdict.actions if each.words.startswith("Serve b with")]
    assert [each.removeprefix("Serve b with ")[: len(step or "")] for each in steps] == (
        [step] if step else []
    )


@pytest.mark.parametrize("name", GAMES)
def test_the_page_calls_shares_that_oppose_no_cause(name):
    factors, mixtures, cause, _ = GAMES[name]
    record = quickstart().model_copy(update={"attributions": (attributed(factors, mixtures),)})
    _, sentence, *_ = cause_parts(record, Names(record.paths))
    begins = "Shares that push against each other, of churn: " if "push" in cause else "Cause of "
    assert sentence.words.startswith(begins)


@pytest.mark.parametrize(("resize", "decode", "both", "step"), [
    (-30, 18, -12, "the decode and resize of a together"),  # a repair of one leaves +3 pp, −5 pp
    (-30, 6, -24, "the resize of a: +1.0 pp of macro recall remains"),
    (-6, -24, -30, "the decode of a: −1.0 pp of macro recall remains"),
    (-2, -2, -2, "the decode and resize of a together"),
    (-30, -1, -31, "the resize of a: −0.2 pp of macro recall remains"),
])  # fmt: skip
def test_a_step_against_a_change_with_a_sign_leaves_less_of_it(resize, decode, both, step):
    def moved(number):
        return [(np.sign(number), range(abs(number)))]

    found = attributed(
        (D, R), {D: moved(decode), R: moved(resize), f"{D} {R}": moved(both)}, "recall.macro"
    )
    gate = Gate(rules=(Rule(metric="recall.macro", fail=0.001),))
    served = entry("b", flipped(abs(both)))
    (first, *_) = judged(served, gate=gate, attributions=(found,)).actions
    assert first.words.startswith(f"Serve b with {step}")


def test_a_difference_that_chance_explains_is_not_clearly_less():
    # 1 of 2 flips remains: no more than another draw of the images would show
    mixtures = {D: flips(range(1)), R: flips(range(2)), f"{D} {R}": flips(range(2))}
    found = attributed((D, R), mixtures, images=60)
    (first, *_) = judged(entry("b", flipped(2, images=60)), attributions=(found,)).actions
    assert first.words.startswith("Serve b with the decode and resize of a together")


def test_a_runtime_whose_share_is_zero_is_not_innocent_where_it_takes_back_what_a_stage_does():
    found = attributed((R, "precision"), GAMES["a runtime that takes back"][1])
    assert abs(found.shares[1].effect.value) < 1e-9
    own = entry("a", flipped(0), "fp32")
    alone = entry("b", flipped(58), "fp32")
    both = entry("b", flipped(29))
    evidence = Measurements(matrix=(own, alone, both), paths=paths("a", "b"), attributions=(found,))
    only = Gate(rules=(Rule(metric="churn", fail=0.001, precision="int8"),))
    assert "served with b in torch int8" in said_of(only, evidence, controls=()).sentence


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
    verdict = said_of(CHURN, evidence, controls=())
    assert f"trained with {name}" in verdict.sentence
    assert verdict.cause == ("All of it from resize; decode adds nothing." * (name == names[0]))
    assert len(verdict.actions) == (name == names[0])


LOST = {  # answers as served (−1: NaN, −2: infinite) → the sentence and the cause begin so
    "NaN as served": (
        np.r_[[-1] * 16, [1] * 2, [0] * 42], ("16 of 60 images have an output that is NaN or "
        "infinite (16 as served, 0 as trained). Churn 30.00 %"),
        ("16 of 18 changed predictions have an output that is NaN or infinite on one side alone. "
        "All of it from resize; decode adds nothing."),
    ),
    "few NaN": (
        np.r_[[-1] * 2, [1] * 16, [0] * 42], "2 of 60 images have an output",
        "All of it from resize: b filters when it shrinks an image (antialias), a does not; decode",
    ),
    "infinite with the same class": (
        np.r_[[-2] * 16, [1] * 2, [0] * 42], "16 of 60 images have an output",
        "All of it from resize: b filters",
    ),
    "NaN alone": (
        np.r_[[-1] * 3, [0] * 57], "3 of 60 images have an output", "3 of 3 changed predictions",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "sentence", "cause"), LOST.values(), ids=LOST)
def test_outputs_that_are_not_finite_come_first(answers, sentence, cause):
    mechanism = PixelMechanism(name="antialias", by="candidate", measured=Estimate(1.0, 0.9, 1.1))
    located = SpatialFacts(
        reference="a", candidate="b", stage="resize", images=16, drawn=16, before=4.0, after=0.4,
        map=LevelMap(rows=1, columns=1, greatest=9.0, cells="ff"), mechanisms=(mechanism,),
    )  # fmt: skip
    found = attributed((D, R), GAMES["one cause"][1])
    verdict = judged(entry("b", answers), attributions=(found,), spatial=(located,))
    assert verdict.sentence.replace("\N{NO-BREAK SPACE}", " ").startswith(sentence)
    assert verdict.cause.startswith(cause)
    repaired = "Repair the model first" in verdict.actions[0].words
    assert repaired is ("changed predictions" in verdict.cause)


def test_a_runtime_whose_outputs_overflow_is_the_cause_of_what_is_lost():
    verdict = judged(entry("a", flipped(9, -1)))
    assert verdict.sentence.startswith("9 of 600")
    assert verdict.cause == (
        "9 of 9 changed predictions have an output that is NaN or infinite on one side alone. "
        "The pixels are the same, so the runtime is the cause."
    )


def test_a_pass_with_outputs_that_are_not_finite_is_not_called_aligned():
    lost = entry("b", flipped(0)).model_copy(update={"non_finite": 4})
    same = drift(
        [predictions(flipped(4, -1))], [predictions(flipped(4, -1))], draws=SharedDraws(200)
    )
    verdict = judged(lost.model_copy(update={"drift": same}))
    assert (same.non_finite, same.non_finite_once, same.non_finite_changed) == (4, 0, 0)
    assert "Aligned" not in verdict.sentence
    assert verdict.sentence.startswith("4 of 600")


def test_the_place_of_outputs_that_are_not_finite_is_named_where_another_decides():
    wide = Gate(rules=(Rule(metric="churn", fail=0.001, precision="fp32"),))
    verdict = judged(entry("b", flipped(9), "fp32"), entry("b", flipped(40, -1)), gate=wide)
    assert "40 as served, 0 as trained): trained with a, served with b in torch int8." in (
        verdict.sentence
    )


@pytest.mark.parametrize(("value", "state"), [(-1, "fail"), (-2, "fail"), (0, "pass")])
def test_a_rule_about_logits_does_not_pass_on_the_finite_ones_alone(value, state):
    # the greatest |Δ| of all other images is 0
    gate = Gate(rules=(Rule(metric="logits.max_abs", fail=1.0),))
    (outcome,) = judged(entry("b", flipped(3, value)), gate=gate).rules
    assert outcome.state == state
    assert ("NaN or infinite" in words_of(outcome, "value")) is bool(value)


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
    verdict = said_of(gate, evidence, controls=())
    steps = [each.words for each in verdict.actions]
    assert steps == [f"Run b with the {step} of a."]
    own = metric.partition(".")[0]
    begins = f"{own.capitalize()}: " + f"it comes from {step}, " * (step != own)
    assert verdict.cause.startswith(begins)
    assert ("it comes from" in verdict.cause) is (step != own)


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
        assert f"{number} of 600\N{NO-BREAK SPACE}images" in verdict.sentence
        assert verdict.cause == ""
        assert [each.words for each in verdict.actions] == [
            "Repair the model first: find where its values stop being finite."
        ]


def test_a_runtime_that_loses_most_answers_is_a_cause_and_few_lost_answers_leave_others():
    verdict = judged(entry("a", flipped(540, -1)))
    assert "so the runtime is the cause" in verdict.cause
    assert [each.words for each in verdict.actions][-1].startswith("Serve in torch fp32")
    few = judged(entry("b", flipped(60, -1), "fp32"), pixels=(pixels("resize", 3.0),))
    assert few.cause
