"""Pairs of a row's cells, of another task than classification."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.compare.bootstrap import SharedDraws
from alignkit.findings.changes import pairs_of
from alignkit.place import Column, Row
from alignkit.tasks.detection import Detection
from tests.tasks.boxes_at_random import coco_metrics, random_answers


def test_detectors_are_compared_by_the_metrics_with_a_matrix_as_pycocotools_has_them():
    a = random_answers(0, images=12)
    lower = np.where(a.found.classes == 0, np.float32(0.4), np.float32(1)) * a.found.scores
    order = np.lexsort((-lower, np.repeat(np.arange(len(a)), np.diff(a.found.starts))))
    found = replace(
        a.found, scores=lower[order], classes=a.found.classes[order], corners=a.found.corners[order]
    )
    b = replace(a, found=found)
    cells = {Column(name, "torch", "fp32"): {0: each} for name, each in (("a", a), ("b", b))}
    (pair,) = pairs_of(Row(("a",)), cells, Detection().facts().matrices, SharedDraws(200))
    assert {*pair.metrics} == {"map50", "map", "recall.macro", "precision.macro"}
    before, after = (coco_metrics(each, "pycocotools") for each in (a, b))
    for name in ("map50", "map"):
        assert pair.metrics[name].value == pytest.approx(after[name] - before[name], abs=1e-9)
    # no measure of the task has a matrix
    assert not pair.measures
