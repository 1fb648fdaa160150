"""The sentence about a matrix blames a runtime only for what the runtime changes."""

import pytest

from alignkit.judge.evidence import Evidence
from alignkit.judge.matrix_words import matrix_sentence
from alignkit.record import (
    AttributionFacts,
    Drift,
    Estimate,
    FactorShare,
    LogitDistance,
    MatrixEntry,
    NumericDrift,
)

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
            FactorShare("precision", Estimate(precision_share, -0.2, 0.2), ZERO),
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


def test_a_runtime_with_a_share_is_named():
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12), entry("b", "bf16", 13, 1)
    said = sentence(*entries, attributions=(shares(-0.02),))
    assert said.startswith("Trained with a, served with b in torch bf16: macro recall −13.00 pp")


def test_a_runtime_that_alone_differs_is_the_cause():
    said = sentence(entry("a", "fp32", 0), entry("a", "bf16", 2, 2))
    assert "served with a in torch bf16" in said
    assert said.endswith("the pixels are the same, so the runtime is the cause.")
