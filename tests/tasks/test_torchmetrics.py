"""Metrics of masks and labels beside torchmetrics, which takes seconds to import."""

import numpy as np
import pytest
import torch

from alignkit.tasks.segmentation.class_maps import from_png
from tests.tasks.test_multi_label import answered as labels_answered
from tests.tasks.test_multi_label import scores, truth
from tests.tasks.test_segmentation import answered, logits, masks

pytestmark = pytest.mark.slow


def test_pixels_are_counted_as_torchmetrics_does():
    from torchmetrics.classification import MulticlassJaccardIndex, MulticlassRecall
    from torchmetrics.segmentation import MeanIoU

    true = masks(1, 5)
    answers = answered(logits(0, 5), true)
    found = answers.metrics_of(np.ones((5, 1), np.float32))
    given = torch.from_numpy(np.stack([from_png(each) for each in answers.maps])).long()
    whole = torch.from_numpy(true).long()
    for name, kind in (("iou", MulticlassJaccardIndex), ("recall", MulticlassRecall)):
        metric = kind(3, average=None, ignore_index=255)
        np.testing.assert_allclose(found[name][:, 0], metric(given, whole).numpy(), rtol=1e-7)
    # this one averages the ratios of images: all are given as one
    true[true == 255] = 0
    answers = answered(logits(0, 5), true)
    metric = MeanIoU(num_classes=3, per_class=True, input_format="index")
    metric.update(given.reshape(1, 35, 11), torch.from_numpy(true).long().reshape(1, 35, 11))
    iou = answers.metrics_of(np.ones((5, 1), np.float32))["iou"]
    np.testing.assert_allclose(iou[:, 0], metric.compute().numpy(), rtol=1e-7)


def test_labels_are_counted_as_torchmetrics_does():
    from torchmetrics.classification import (
        MultilabelAveragePrecision,
        MultilabelF1Score,
        MultilabelPrecision,
        MultilabelRecall,
    )

    true, raw = truth(1, 60), scores(0, 60)
    found = labels_answered(raw, true).metrics_of(np.ones((60, 1), np.float32))
    given = torch.from_numpy(raw), torch.from_numpy(true).int()
    for name, kind in (
        ("f1", MultilabelF1Score), ("recall", MultilabelRecall), ("precision", MultilabelPrecision),
    ):  # fmt: skip
        for average in ("macro", "micro"):
            expected = kind(3, average=average)(*given).item()
            assert found[f"{name}.{average}"][0] == pytest.approx(expected, rel=1e-6)
    precision = MultilabelAveragePrecision(3, average=None)(*given).numpy()
    np.testing.assert_allclose(found["ap"][:, 0], precision, rtol=1e-6)
    mean = MultilabelAveragePrecision(3, average="macro")(*given).item()
    assert found["map"][0] == pytest.approx(mean, rel=1e-6)
