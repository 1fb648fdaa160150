"""A record of embeddings with figures and tables that NumPy computes of made-up vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.experiment.rule_option import Rule
from alignkit.record import (
    Estimate,
    FactRow,
    FactTable,
    Figure,
    Mark,
    Neighbour,
    Neighbours,
    Series,
    Thumbnail,
)
from alignkit.record.picture_facts import PICTURE, thumbnail_png, write_file
from alignkit.task_facts import MetricFacts, TaskFacts
from tests.report import task_records

EMBEDDING = TaskFacts(
    name="embedding",
    metrics=(
        MetricFacts(name="recall@1", label="Recall@1"),
        MetricFacts(name="verification.accuracy", label="Verification accuracy"),
        MetricFacts(name="tar@far=1e-2", label="TAR at FAR 1e-2"),
        MetricFacts(name="eer", label="EER", better="less"),
    ),
    measures=(
        MetricFacts(name="cosine", label="Cosine", unit="value", meaning="mean cosine"),
        MetricFacts(name="cosine.p01", label="Cosine, 1 % quantile", unit="value"),
        MetricFacts(name="neighbour_churn", label="Changed neighbours", better="less"),
        MetricFacts(name="recall@1.kept", label="Recall@1, index kept", unit="points"),
    ),
    matrices=("recall@1", "verification.accuracy", "recall@1.kept", "cosine", "churn"),
    class_metrics=(),
    answer="nearest neighbour",
    changed="Its nearest neighbour is another image.",
    quality="whether the nearest neighbour has its identity",
    turned=("worse", "better", "neither"),
    labels="identities",
    rated="recall@1",
    rated_metric="recall@1",
)
IDENTITIES, EACH, WIDTH = 40, 6, 16


def vectors(seed=0, noise=0.9):
    """(n, WIDTH) float64 of unit length, and (n,) identities; two models' answers to the images."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(IDENTITIES), EACH)
    centres = draw.normal(size=(IDENTITIES, WIDTH))
    before = centres[who] + noise * draw.normal(size=(len(who), WIDTH))
    turn = np.linalg.qr(draw.normal(size=(WIDTH, WIDTH)))[0]
    after = (before + 0.5 * draw.normal(size=before.shape)) @ (np.eye(WIDTH) + 0.25 * turn)
    return _unit(before), _unit(after), who


def _unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def pairs(who):
    """Indices of all pairs, (p,) twice, and whether they are of one identity."""
    first, second = np.triu_indices(len(who), 1)
    return first, second, who[first] == who[second]


def rates(same, different, thresholds):
    """TAR and FAR at each threshold."""
    return (
        np.array([(same >= each).mean() for each in thresholds]),
        np.array([(different >= each).mean() for each in thresholds]),
    )


def facts():
    """The figures, tables and remarks of two models' answers."""
    before, after, who = vectors()
    first, second, same = pairs(who)
    sides = {
        "reference": (before[first] * before[second]).sum(1),
        "candidate": (after[first] * after[second]).sum(1),
    }
    kept, tuned = (float(np.quantile(each[~same], 0.99)) for each in sides.values())
    edges = np.linspace(-0.9, 1, 77)
    middles = np.round((edges[1:] + edges[:-1]) / 2, 5)
    densities = [
        Series(name, _numbers(middles), _numbers(np.histogram(each[of], edges, density=True)[0]), side)
        for name, of in (("same pairs", same), ("different pairs", ~same))
        for side, each in sides.items()
    ]  # fmt: skip
    roc = []
    far = np.geomspace(1e-4, 1, 61)
    for side, each in sides.items():
        at = np.quantile(each[~same], 1 - far)
        tar, found = rates(each[same], each[~same], at)
        kept_points = np.unique(found, return_index=True)[1]
        kept_points = kept_points[found[kept_points] > 0]
        roc.append(Series("", _numbers(found[kept_points]), _numbers(tar[kept_points]), side))
    realised = float((sides["candidate"][~same] >= kept).mean())
    figures = (
        Figure(
            name="similarities",
            title="Similarity of same and different pairs",
            x_label="cosine similarity",
            y_label="density",
            series=tuple(densities),
            marks=(Mark(round(kept, 4), f"kept threshold {kept:.3f}"), Mark(round(tuned, 4), f"tuned again {tuned:.3f}")),
            note="Thresholds of a false accept rate of 1e-2.",
        ),
        Figure(
            name="roc",
            title="True accept rate by false accept rate",
            x_label="false accept rate",
            y_label="true accept rate",
            x_scale="log",
            series=tuple(roc),
            marks=(Mark(0.01, "FAR of both, tuned: 1e-2"), Mark(realised, f"kept threshold: {realised:.2g}")),
        ),
    )  # fmt: skip
    return figures, (_retrieval(before, after, who), _thresholds(sides, same, kept, tuned)), REMARKS


REMARKS = (
    "Keep the index: recall@1 with queries of pillow against the index of opencv is within 1 pp.",
)


def _numbers(values):
    return tuple(float(f"{each:.6g}") for each in values)


def _retrieval(before, after, who):
    def recall(index, query):
        near = query @ index.T
        np.fill_diagonal(near, -np.inf)
        return who[near.argmax(axis=1)] == who

    rows = []
    own = recall(before, before)
    for label, index, query in (
        ("index opencv, query opencv", before, before),
        ("index opencv, query pillow", before, after),
        ("index pillow, query pillow", after, after),
    ):
        found = recall(index, query)
        rows.append(FactRow(label, (_share(found), _change(found, own)), "share"))
    rows = [
        row if at else FactRow(row.label, (row.cells[0], Estimate(None, None, None, "the others are compared with it")))
        for at, row in enumerate(rows)
    ]  # fmt: skip
    return FactTable(
        name="retrieval",
        title="Recall@1 by index and query",
        columns=("Recall@1", "Overlap@10"),
        rows=tuple(rows),
    )


def _share(found):
    value = float(found.mean())
    half = 1.96 * float(found.std()) / len(found) ** 0.5
    return Estimate(round(value, 6), round(value - half, 6), round(value + half, 6))


def _change(found, own):
    apart = np.asarray(found == own, float)
    return _share(apart)


def _thresholds(sides, same, kept, tuned):
    def of(side, threshold):
        tar, far = rates(sides[side][same], sides[side][~same], [threshold])
        return Estimate(float(tar[0]), None, None), Estimate(float(far[0]), None, None)

    rows = [
        ("opencv", *of("reference", kept), kept),
        ("pillow, threshold kept", *of("candidate", kept), kept),
        ("pillow, tuned again", *of("candidate", tuned), tuned),
    ]
    return FactTable(
        name="thresholds",
        title="Verification at a false accept rate of 1e-2",
        columns=tuple(label for label, *_ in rows),
        rows=(
            FactRow("TAR", tuple(tar for _, tar, _, _ in rows), "share"),
            FactRow("FAR", tuple(far for _, _, far, _ in rows), "share"),
            FactRow("Δ TAR", tuple(_less(tar, rows[0][1]) for _, tar, _, _ in rows), "points"),
            FactRow("Threshold", tuple(Estimate(round(at, 4), None, None) for *_, at in rows), "value"),
        ),
        note="Threshold: the least accepted cosine similarity.",
    )  # fmt: skip


def _less(one, other):
    return Estimate(round(one.value - other.value, 6), None, None)


def name_of(image):
    return f"eval/{image:04}.jpg"


def neighbours(most=5, queries=6):
    """Queries whose nearest image in the index before is another one after, as they come."""
    before, after, who = vectors()

    def nearest(query):
        near = query @ before.T
        np.fill_diagonal(near, -np.inf)
        return np.argsort(-near, axis=1, kind="stable")[:, :most], near

    (first, similarity), (second, other) = nearest(before), nearest(after)
    changed = np.flatnonzero(first[:, 0] != second[:, 0])[:queries]

    def listed(query, found, near):
        return tuple(
            Neighbour(
                name_of(image), round(float(near[query, image]), 6), bool(who[image] == who[query])
            )
            for image in found[query]
        )

    return tuple(
        Neighbours(name_of(query), listed(query, first, similarity), listed(query, second, other))
        for query in changed.tolist()
    )  # fmt: skip


def thumbnails(folder, found, path="opencv"):
    """A picture of each image that neighbours name, but of the last query."""
    names = dict.fromkeys(
        name
        for each in found[:-1]
        for name in (each.query, *(n.id for n in (*each.before, *each.after)))
    )
    made = []
    for name in names:
        number = int(name[5:9])
        y, x = np.mgrid[0:96, 0:128]
        waves = np.stack(
            [np.sin((x * (1 + number % 3) + y * (c + 1)) / (3 + number // EACH)) for c in range(3)],
            axis=2,
        )
        picture = write_file(folder, PICTURE, thumbnail_png((127 + 120 * waves).astype(np.uint8)))
        made.append(
            Thumbnail(path=path, id=name, label=f"person {number // EACH}", picture=picture)
        )
    return tuple(made)


def embedding(folder=None):
    """The quickstart's record as one of embeddings, with facts of the path pillow."""
    record = task_records.of_task(EMBEDDING, folder, (Rule(metric="churn", fail=0.02),))
    figures, tables, remarks = facts()
    found = neighbours()

    def with_facts(entry):
        if entry.drift is None or entry.evaluated_with != "pillow":
            return entry
        drift = replace(
            entry.drift, figures=figures, tables=tables, remarks=remarks, neighbours=found
        )
        return entry.model_copy(update={"drift": drift})

    matrix = tuple(map(with_facts, record.matrix))
    pictures = thumbnails(folder, found) if folder else ()
    return record.model_copy(update={"matrix": matrix, "thumbnails": pictures})
