"""A record with a matrix of many columns: paths and runtimes that all differ, or agree."""

import random
from functools import cache

from alignkit.record import (
    Drift,
    Estimate,
    LogitDistance,
    MatrixEntry,
    NoiseFloor,
    PathFacts,
    RuleOutcome,
    Verdict,
)
from alignkit.record.verdict_facts import RuleLimits
from tests.report.records import RUNTIMES, estimate, quickstart

N = 3000
known = cache(quickstart)
"""The record of the quickstart, made once."""
METRICS = ("recall.macro", "precision.macro", "top1")


def drift(recall, precision, churn, significant=False):
    """Joined over seeds; as clear of zero as so many flips allow."""
    flips = round(churn * N)
    values = {"recall.macro": recall, "precision.macro": precision, "top1": recall}
    return Drift(
        n=N,
        metrics={name: estimate(value, flips, N) for name, value in values.items()},
        churn=estimate(churn, flips, N),
        right_to_wrong=flips * 2 // 3,
        wrong_to_right=flips // 3,
        wrong_to_wrong=0,
        detectable=0.01,
        mcnemar_p=None,
        logits=LogitDistance(max_abs=1.0, mean_abs=0.1, cosine=0.99),
        holm=dict.fromkeys(METRICS, 0.01 if significant else 0.4),
    )


def wide(paths=5, runtimes=RUNTIMES, spread=0.0, rows=None):
    """Return a record of that many paths, each served in those runtimes.

    ``spread`` is how far the runtimes of a path are apart, as a fraction.
    """
    names = [f"path-{number}" for number in range(paths)]
    draw = random.Random("wide")
    matrix, rules = [], []
    for trained in names[: rows or paths]:
        for served in names:
            distance = abs(names.index(trained) - names.index(served))
            recall = draw.gauss(-0.016 * distance, 0.002) if distance else 0.0
            for at, (backend, precision) in enumerate(RUNTIMES if runtimes is None else runtimes):
                place = {"trained_with": trained, "evaluated_with": served,
                         "backend": backend, "precision": precision}  # fmt: skip
                aligned = trained == served and at == 0
                change = recall + spread * at
                churn = 0.021 * distance + 3 * spread * at
                entry = MatrixEntry(
                    **place,
                    aligned=aligned,
                    state="measured",
                    seeds=(0, 1, 2),
                    metrics=dict.fromkeys(METRICS, 0.93 + change),
                    drift=None if aligned else drift(change, 0.8 * change, churn, recall < -0.03),
                )
                matrix.append(entry)
                if not aligned:
                    state = "fail" if churn > 0.02 else "pass"
                    rules.append(
                        RuleOutcome(**place, metric="churn", label="churn",
                                    limits=RuleLimits("share", fail=0.02, decides=0.02),
                                    state=state, value=Estimate(churn, None, None))
                    )  # fmt: skip
    record = known()
    floors = [
        NoiseFloor(
            preprocess=name, seeds=(0, 1, 2), metrics=dict.fromkeys(METRICS, 0.01), churn=0.1
        )
        for name in names
    ]
    verdict = Verdict(state="fail", informational=True, exit_code=0,
                      rules=tuple(rules))  # fmt: skip
    return record.model_copy(
        update={
            "paths": tuple(PathFacts(name=name, stages=()) for name in names),
            "matrix": tuple(matrix),
            "noise_floor": tuple(floors),
            "verdict": verdict,
        }
        | dict.fromkeys(
            (
                "cells",
                "trainings",
                "coverage",
                "pixels",
                "shown",
                "attributions",
                "flipped",
                "advice",
            ),
            (),
        )
    )
