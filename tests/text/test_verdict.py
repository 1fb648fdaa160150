"""The three lines of a verdict in words."""

from dataclasses import replace

import pytest

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import ClassDrift, DataFacts, Estimate, MovedImage, PathFacts
from alignkit.samples import NO_LABELS
from alignkit.text.measured import effect_words
from alignkit.text.task_words import TaskWords
from alignkit.text.verdict import verdict_words
from tests.judge.cases import (
    ANTIALIAS,
    CHURN,
    ZERO,
    attributed,
    entry,
    located,
    measured,
    shares,
)

OWN, SERVED = entry("a", "fp32", 0), entry("b", "fp32", 12)
BOTH = OWN, SERVED
RESIZE = (attributed(("resize", 0.12), ("decode", 0.0)),)


def words(*entries, gate=CHURN, **more):
    record = measured(*entries, **more)
    said = verdict_words(judge(gate, record, controls=()), record)
    steps = [each.words for each in said.steps]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in (said.sentence, said.cause, *steps)]


def int8(*factors):
    return (attributed(*factors).model_copy(update={"precision": "int8"}),)


def elsewhere():
    worse = entry("b", "fp32", 20)
    return worse.model_copy(update={"trained_with": "b", "evaluated_with": "a"})


COPIES = DataFacts(name="folder", options={}, train=0, eval=600, classes=("x", "y"),
                   fingerprint="", version="", copies={"y": "x"})  # fmt: skip
WIDE = Gate(rules=(Rule(metric="churn", fail=0.2),))
SENTENCES = {
    "a failure in the baseline's runtime": (
        words(*BOTH), "Churn 12.00 %, 2 % allowed: trained with a, served with b."),
    "in another runtime": (
        words(*BOTH, entry("b", "bf16", 13, 1), attributions=(shares(-0.02),)),
        "Churn 13.00 %, 2 % allowed: trained with a, served with b in torch bf16."),
    "a surrogate": (
        words(*BOTH, paths=(PathFacts(name="b", stages=(), surrogate_of="x"),)),
        "Churn 12.00 %, 2 % allowed: trained with a, served with b (surrogate)."),
    "a worse one elsewhere": (
        words(*BOTH, elsewhere()),
        ("Churn 12.00 %, 2 % allowed: trained with a, served with b. Worst of other models: churn "
        "20.00 %, 2 % allowed: trained with b, served with a in torch fp32.")),
    "nothing changed": (
        words(OWN, entry("b", "fp32", 0), gate=Gate(rules=(Rule(metric="churn", fail=0),))),
        "Aligned: no prediction changed in 1 comparison."),
    "the nearest to its limit": (
        words(*BOTH, gate=WIDE),
        ("All 1 checks hold; nearest to its limit: churn 12.00 %, 20 % allowed: trained with a, "
        "served with b.")),
    "copies": (
        words(*BOTH, data=COPIES),
        ("Churn 12.00 %, 2 % allowed: trained with a, served with b. 1 of 600 images has the pixels "
        "of another: 599 different images; intervals and p-values draw the copies of an image "
        "together.")),
    "left to the gate": (
        words(OWN, entry("b", "fp32", 0),
              gate=Gate(rules=(Rule(metric="resize.max_abs", fail=2, against="baseline"),))),
        ("Undecided: resize.max_abs: `alignkit gate` reads the baseline; coverage: `alignkit gate` "
        "reads the baseline.")),
}  # fmt: skip
CAUSES = {
    "the runtime": (
        words(OWN, entry("a", "bf16", 5, 5)),
        "The pixels are the same, so the runtime is the cause."),
    "a stage with its mechanism": (
        words(*BOTH, attributions=RESIZE, spatial=(located("resize", ANTIALIAS),)),
        ("All of it from resize: b filters when it shrinks an image (antialias), a does not; decode "
        "adds nothing.")),
    "whose pixels show none": (
        words(*BOTH, attributions=RESIZE, spatial=(located("resize"),)),
        "All of it from resize; decode adds nothing."),
    "or which acts in a stage that changes no prediction": (
        words(*BOTH, attributions=RESIZE, spatial=(located("decode", ANTIALIAS),)),
        "All of it from resize; decode adds nothing."),
    "a number format, not called like the metric": (
        words(OWN, entry("b", "int8", 12), attributions=int8(("precision", 0.12))),
        "All of it from int8 precision."),
    "a runtime with it": (
        words(OWN, entry("b", "int8", 12), attributions=int8(("backend+precision", 0.12))),
        "All of it from backend+int8 precision."),
    "most of it": (
        words(OWN, entry("b", "int8", 12), attributions=int8(("resize", 0.12), ("precision", 0.04))),
        "Most of it from resize (+12.0 pp of +16.0 pp churn); int8 precision +4.0 pp."),
    "two that oppose": (
        words(*BOTH, attributions=(attributed(("resize", 0.2), ("decode", -0.15)),)),
        ("Resize and decode push against each other, so none of them alone is the cause: alone "
        "resize +20.0 pp and decode −15.0 pp of churn, together +5.0 pp.")),
}  # fmt: skip
STEPS = {
    "a swap": (
        words(*BOTH, attributions=(attributed(("resize", 0.10), ("decode", 0.02)),)),
        "Serve b with the resize of a: +2.0 pp of churn remains."),
    "that leaves nothing": (
        words(*BOTH, attributions=RESIZE),
        "Serve b with the resize of a: no change of churn remains."),
    "whose rest is not known": (
        words(*BOTH, attributions=(
            attributed(("resize", 0.10), ("decode", 0.01), ("orient", 0.01)),)),
        "Serve b with the resize of a."),
    "of two together": (
        words(*BOTH, attributions=(attributed(("resize", 0.2), ("decode", -0.15)),)),
        ("Serve b with the resize and decode of a together: no change of churn remains; none of "
        "them alone leaves clearly less.")),
    "the runtime": (
        words(OWN, entry("a", "bf16", 5, 5)),
        "Serve in torch fp32, the baseline of these models."),
    "a training that was measured": (
        words(
            OWN,
            SERVED.model_copy(update={"metrics": {"recall.macro": 0.8}}),
            OWN.model_copy(update={"trained_with": "b", "evaluated_with": "b",
                                   "metrics": {"recall.macro": 0.9}}),
        ),
        "Train with b, as it serves: macro recall 90.00 % instead of 80.00 %."),
    "a pass": (words(*BOTH, gate=WIDE), "Nothing to change; let CI check it after each change."),
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "at", "expected"),
    [
        *((lines, 0, sentence) for lines, sentence in SENTENCES.values()),
        *((lines, 1, cause) for lines, cause in CAUSES.values()),
        *((lines, 2, step) for lines, step in STEPS.values()),
    ],
    ids=[*SENTENCES, *CAUSES, *STEPS],
)
def test_a_verdict_has_three_lines(found, at, expected):
    assert found[at] == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Estimate(-0.3, -0.4, -0.2), "Hardest hit: class 1, precision −30.0 pp [−40.0, −20.0] ("),
        (Estimate(-0.13, -0.2, -0.1), ""),
        (Estimate(0.4, 0.3, 0.5), ""),
    ],
)
def test_a_class_that_loses_far_more_than_the_mean_is_named_in_the_first_line(change, said):
    hit = ClassDrift(name="1", support=50, recall=ZERO, precision=change)
    metrics = {**SERVED.drift.metrics, "precision.macro": Estimate(-0.1, -0.2, 0.0)}
    drift = replace(SERVED.drift, classes=(hit,), metrics=metrics)
    sentence, *_ = words(OWN, SERVED.model_copy(update={"drift": drift}))
    assert (said or "served with b.") in sentence
    assert ("Hardest hit" in sentence) == bool(said)


@pytest.mark.parametrize(
    ("changed", "after", "example"),
    [(1, "output 1", "(1 of 100, e.g. output 0 → output 1)"), (0, "output 0", "(0 of 100)")],
)
def test_an_image_that_keeps_its_class_is_no_example_of_a_change(changed, after, example):
    moved = MovedImage("x.jpg", "output 0", after, 0.5, 1.0, 1.2)
    served = entry("b", "fp32", changed)
    facts = {"metrics": {"recall.macro": Estimate(None, None, None, NO_LABELS)}, "moved": (moved,)}
    unlabelled = served.model_copy(update={"drift": replace(served.drift, **facts)})
    assert example in effect_words(unlabelled, TaskWords())
