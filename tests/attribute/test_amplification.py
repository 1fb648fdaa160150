"""Drift against training-set size, from the records of runs."""

import pytest

from alignkit.attribute.amplification import amplification
from alignkit.errors import NothingCompared
from tests.report.records import quickstart


def resized(record, images: int, churn: float):
    """The record as if trained on so many images, with every churn replaced."""
    trainings = tuple(each.model_copy(update={"images": images}) for each in record.trainings)
    matrix = tuple(with_churn(entry, churn) for entry in record.matrix)
    return record.model_copy(update={"trainings": trainings, "matrix": matrix})


def with_churn(entry, churn: float):
    if entry.drift is None:
        return entry
    ends = {"value": churn, "low": churn - 0.005, "high": churn + 0.005}
    estimate = entry.drift.churn.model_copy(update=ends)
    return entry.model_copy(update={"drift": entry.drift.model_copy(update={"churn": estimate})})


def test_points_are_ordered_by_training_set_whatever_the_order_of_runs():
    record = quickstart()
    runs = [resized(record, 800, 0.02), resized(record, 100, 0.09), resized(record, 300, 0.05)]
    curve = amplification(runs)[0]
    assert [point.training_images for point in curve.points] == [100, 300, 800]
    assert [point.drift.value for point in curve.points] == [0.09, 0.05, 0.02]
    assert curve.apart
    assert "9.0 % [8.5, 9.5] after 100 training images, 2.0 %" in curve.sentence()


def test_overlapping_intervals_are_no_amplification():
    record = quickstart()
    curve = amplification([resized(record, 800, 0.05), resized(record, 100, 0.051)])[0]
    assert not curve.apart
    assert "shows no amplification" in curve.sentence()


def test_one_size_of_training_set_is_no_curve():
    record = quickstart()
    with pytest.raises(NothingCompared, match=r"another data\.train"):
        amplification([record, record])
