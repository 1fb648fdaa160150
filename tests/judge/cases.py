"""Entries, shares and paths of made-up runs, whose verdicts tests read."""

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    AttributionFacts,
    Drift,
    Estimate,
    FactorShare,
    LogitDistance,
    MatrixEntry,
    Measurements,
    NumericDrift,
    PathFacts,
    StageFacts,
    Verdict,
)
from alignkit.record.blame_facts import LevelMap, PixelMechanism, SpatialFacts

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
        interaction=ZERO, total=ZERO,
    )  # fmt: skip


CHURN = Gate(rules=(Rule(metric="churn", fail=0.02),))


def paths(*names):
    def stages(name):
        return tuple(
            StageFacts(
                stage=stage, label=name, options={"of": name}, version="", yaml=f"{{name: {name}}}"
            )
            for stage in ("decode", "resize")
        )

    return tuple(PathFacts(name=name, stages=stages(name)) for name in names)


def measured(*entries, **more) -> Measurements:
    facts = {"paths": paths("a", "b", "c"), "command": "alignkit run x.yaml"}
    return Measurements(matrix=entries, **{**facts, **more})


def judged(*entries, gate=CHURN, **more) -> Verdict:
    return judge(gate, measured(*entries, **more), controls=())


def attributed(*factors):
    found = tuple(
        FactorShare(name, Estimate(v, None, None), Estimate(v, None, None)) for name, v in factors
    )
    total = Estimate(sum(v for _, v in factors), None, None)
    return AttributionFacts(
        reference="a", candidate="b", backend="torch", precision="fp32", metric="churn",
        unit="fraction", method="shapley", images=100, shares=found, interaction=ZERO, total=total,
    )  # fmt: skip


def located(stage, *mechanisms):
    return SpatialFacts(
        reference="a", candidate="b", stage=stage, images=16, drawn=16,
        map=LevelMap(rows=1, columns=1, greatest=9.0, cells="ff"), before=4.0, after=0.4,
        mechanisms=mechanisms,
    )  # fmt: skip


ANTIALIAS = PixelMechanism(name="antialias", by="candidate", measured=Estimate(1.0, 0.9, 1.1))
