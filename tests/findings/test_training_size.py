"""Drift against training-set size, from the cells of a small run on two shares of the data."""

from pathlib import Path

import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.record import RunRecord
from tests.runner.test_run import run, write_small


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path]:
    folder = tmp_path_factory.mktemp("sizes")
    overrides = ("train.fractions=[1.0, 0.2]", "evaluate.backends=[torch]")
    return run(write_small(folder, seeds="[0, 1]"), folder / "reports", overrides)


def churn_of(record, folder, row, evaluated):
    """From the stored predictions, seed by seed."""

    def read(cell):
        return Predictions.from_parquet(folder / cell.predictions.path)

    cells = [each for each in record.cells if each.trained_with == row]
    home = [read(each) for each in cells if each.aligned]
    away = [read(each) for each in cells if each.evaluated_with == evaluated]
    return drift(reference=home, candidate=away, draws=SharedDraws(200)).churn.value


def test_every_entry_has_a_curve_by_growing_training_set(finished):
    record, _ = finished
    places = {(each.trained_with, each.evaluated_with) for each in record.training_sizes}
    assert places == {("opencv", "other"), ("other", "opencv")}
    for curve in record.training_sizes:
        assert [point.fraction for point in curve.points] == [0.2, 1.0]
        assert [point.images for point in curve.points] == [10, 60]  # one of each class
        assert [point.seeds for point in curve.points] == [2, 2]


def test_points_are_the_matrix_entries_and_the_change_is_fewest_less_most(finished):
    record, folder = finished
    for curve in record.training_sizes:
        if curve.metric == "churn":
            few, all_ = (
                churn_of(record, folder, row, curve.evaluated_with)
                for row in (f"{curve.trained_with} (20 %)", curve.trained_with)
            )
            assert curve.points[0].drift.value == pytest.approx(few)
            assert curve.points[1].drift.value == pytest.approx(all_)
            assert curve.change.value == pytest.approx(few - all_)
            assert curve.change.low <= curve.change.value <= curve.change.high
