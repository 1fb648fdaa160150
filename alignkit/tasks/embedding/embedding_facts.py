"""Words of embeddings: metrics and measures, for records, pages and rules."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from alignkit.task_facts import MetricFacts, TaskFacts

if TYPE_CHECKING:
    from alignkit.tasks.embedding import Embedding


def at_far(rate: float) -> str:
    """Name a false accept rate as the metrics do.

    >>> at_far(0.001), at_far(0.025), at_far(0.1)
    ('far=1e-3', 'far=2.5e-2', 'far=1e-1')
    """
    sign, digits, exponent = Decimal(repr(rate)).normalize().as_tuple()
    assert sign == 0
    assert isinstance(exponent, int)
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"far={first}{'.' if rest else ''}{rest}e{exponent + len(rest)}"


def embedding_facts(task: Embedding) -> TaskFacts:
    """Describe embeddings that are verified at some false accept rates and searched for."""
    return TaskFacts(
        name="embedding",
        metrics=(*_verification(task), *_retrieval(task)),
        measures=_measures(task),
        matrices=("verification.accuracy", "recall@1", "recall@1.kept", "cosine", "churn"),
        class_metrics=(),
        answer="nearest image",
        changed="Its nearest other image is another one, where each side searches an index of its "
        "own embeddings.",
        quality="whether its nearest neighbour has its identity",
        turned=("worse", "better", "neither"),
        rated="recall@1",
        usual_churn=None,
        labels="identities",
        needs_labels=False,
    )


def _verification(task: Embedding) -> tuple[MetricFacts, ...]:
    return (
        MetricFacts(
            name="verification.accuracy",
            label="Verification accuracy",
            meaning="share of pairs told right, same and different ones weighing alike, with the "
            "threshold tuned on nine folds of identities and tested on the tenth",
        ),
        *(
            MetricFacts(
                name=f"tar@{at_far(rate)}",
                label=f"TAR at FAR {rate:g}",
                meaning=f"share of same pairs accepted by the least threshold that accepts at most "
                f"{100 * rate:g} % of different pairs",
            )
            for rate in task.far
        ),
        MetricFacts(
            name="eer",
            label="Equal error rate",
            short="EER",
            better="less",
            meaning="share of different pairs accepted where as large a share of same pairs is "
            "rejected",
        ),
    )


def _retrieval(task: Embedding) -> tuple[MetricFacts, ...]:
    return tuple(
        MetricFacts(
            name=f"recall@{k}",
            label=f"Recall@{k}",
            meaning=f"share of queries with an image of their identity among the {k} nearest other "
            "images",
        )
        for k in dict.fromkeys((1, task.k))
    )


def _measures(task: Embedding) -> tuple[MetricFacts, ...]:
    kept = "with the reference's threshold kept in use"
    return (
        MetricFacts(
            name="cosine",
            label="Cosine",
            unit="value",
            meaning="mean cosine of an image's two embeddings",
        ),
        MetricFacts(
            name="cosine.p01",
            label="Cosine, 1 % quantile",
            unit="value",
            meaning="cosine that 1 % of the images do not reach",
        ),
        MetricFacts(
            name="norm",
            label="Norm",
            better="",
            meaning="mean ratio of an image's two norms, less 1",
        ),
        MetricFacts(
            name="recall@1.kept",
            label="Recall@1, index kept",
            unit="points",
            meaning="recall@1 of the candidate's queries in the reference's index, less that of "
            "the reference's queries",
        ),
        MetricFacts(
            name=f"overlap@{task.k}",
            label=f"Overlap@{task.k}, index kept",
            meaning=f"share of an image's {task.k} nearest images that the candidate's query finds "
            "in the reference's index too",
        ),
        MetricFacts(
            name="neighbour_churn",
            label="Neighbour churn, index kept",
            better="less",
            meaning="share of queries whose nearest image in the reference's index is another one",
        ),
        *(
            each
            for rate in task.far
            for each in (
                MetricFacts(
                    name=f"tar@{at_far(rate)}.kept",
                    label=f"TAR at FAR {rate:g}, threshold kept",
                    unit="points",
                    meaning=f"change of the share of same pairs accepted, {kept}",
                ),
                MetricFacts(
                    name=f"far@{at_far(rate)}.kept",
                    label=f"FAR, threshold kept at {rate:g}",
                    better="less",
                    meaning=f"share of different pairs accepted, {kept}",
                ),
            )
        ),
    )
