"""The sentence about a matrix blames a runtime only for what the runtime changes."""

from dataclasses import replace

import pytest

from alignkit.judge.evidence import Evidence
from alignkit.judge.matrix_words import _effect, matrix_sentence
from alignkit.record import (
    AttributionFacts,
    Drift,
    Estimate,
    FactorShare,
    LogitDistance,
    MatrixEntry,
    MovedImage,
    NumericDrift,
    PathFacts,
)
from alignkit.samples import NO_LABELS

ZERO = Estimate(0.0, 0.0, 0.0)
LOGITS = LogitDistance(max_abs=1.0, mean_abs=0.1, cosine=0.9, p99=0.5)


def entry(path, precision, changed, flips=None) -> MatrixEntry:
    churn = Estimate(changed / 100, 0.0, 1.0)
    drift = Drift(
        n=100, metrics={"recall.macro": Estimate(-changed / 100, -1.0, 0.0)}, churn=churn,
        right_to_wrong=changed, wrong_to_right=0, wrong_to_wrong=0,
        mcnemar_p=None, detectable=None, logits=LOGITS,
    )  # fmt: skip
    aligned = (path, precision) == ("a", "fp32")
    numeric = None
    if flips is not None:
        numeric = NumericDrift(n=100, flips=flips, non_finite=0, logits=LOGITS)
    return MatrixEntry(
        trained_with="a", evaluated_with=path, backend="torch", precision=precision,
        aligned=aligned, state="measured", seeds=(0,), drift=None if aligned else drift,
        numeric=numeric,
    )  # fmt: skip


def shares(precision_share) -> AttributionFacts:
    return AttributionFacts(
        reference="a", candidate="b", backend="torch", precision="bf16", metric="recall.macro",
        unit="fraction", method="shapley", images=100,
        shares=(
            FactorShare("resize", Estimate(-0.13, -0.2, 0.0), ZERO),
            FactorShare("precision", Estimate(precision_share, -0.2, 0.2, "unknown"), ZERO),
        ),
        interaction=ZERO, total=ZERO, sentence="Macro recall -13.0 pp: resize -13.0 pp",
    )  # fmt: skip


def sentence(*entries, attributions=()):
    return matrix_sentence(Evidence(matrix=entries, attributions=attributions), "")


@pytest.mark.parametrize(("flips", "share"), [(0, 0.02), (1, 0.0004)])
def test_an_innocent_runtime_is_not_named(flips, share):
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12), entry("b", "bf16", 13, flips)
    said = sentence(*entries, attributions=(shares(share),))
    # its own numbers are not those of the path alone, and the path's are shown
    assert said.startswith("Trained with a, served with b: macro recall −12.00 pp")
    assert "bf16" not in said


@pytest.mark.parametrize("share", [-0.02, None])
def test_a_runtime_with_a_share_or_an_unknown_one_is_named(share):
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12), entry("b", "bf16", 13, 1)
    said = sentence(*entries, attributions=(shares(share),))
    assert said.startswith("Trained with a, served with b in torch bf16: macro recall −13.00 pp")


def test_a_runtime_that_alone_differs_is_the_cause():
    said = sentence(entry("a", "fp32", 0), entry("a", "bf16", 2, 2))
    assert "served with a in torch bf16" in said
    assert said.endswith("the pixels are the same, so the runtime is the cause.")


def test_the_row_that_changes_is_named_where_the_reference_row_changes_nothing():
    served_with_a = entry("a", "fp32", 6).model_copy(
        update={"trained_with": "b", "aligned": False, "drift": entry("b", "fp32", 6).drift}
    )
    entries = entry("a", "fp32", 0), entry("b", "fp32", 0), served_with_a
    paths = tuple(PathFacts(name=name, stages=()) for name in "ab")
    said = matrix_sentence(Evidence(matrix=entries, paths=paths), "")
    assert said.startswith("Trained with b, served with a in torch fp32: macro recall −6.00 pp")


def test_an_unknown_churn_is_no_comparison_without_a_change():
    unknown = entry("b", "fp32", 0)
    drift = replace(unknown.drift, churn=Estimate(None, None, None, "no image is in both"))
    assert drift.changed is None
    said = sentence(entry("a", "fp32", 0), unknown.model_copy(update={"drift": drift}))
    assert said.startswith("Nothing was compared")


def unlabelled(path, changed, *moved) -> MatrixEntry:
    plain = entry(path, "fp32", changed)
    none = Estimate(None, None, None, NO_LABELS)
    facts = {"metrics": {"recall.macro": none}, "moved": moved}
    return plain.model_copy(update={"drift": replace(plain.drift, **facts)})


def test_an_image_that_keeps_its_class_is_no_example_of_a_change():
    kept = MovedImage("x.jpg", "output 0", "output 0", 0.5, 1.0, 0.2)
    other = MovedImage("x.jpg", "output 0", "output 1", 0.5, 1.0, 1.2)
    assert "(1 of 100, e.g. output 0 → output 1)" in _effect(unlabelled("b", 1, other), [])
    assert "(0 of 100)" in _effect(unlabelled("b", 0, kept), [])
