"""Predictions: invariants, the Parquet round trip, alignment by id, the floor of several seeds."""

import numpy as np
import pandas as pd
import pytest

from alignkit.baseline.baseline_from_run import pack, unpack
from alignkit.compare.answers import aligned, mean_metrics, noise_floor
from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError, NothingCompared


def make(ids="abc", labels=(0, 1, 1), classes=("cat", "dog"), seed=0) -> Predictions:
    logits = np.random.default_rng(seed).normal(size=(len(ids), len(classes)))
    return Predictions(tuple(ids), np.array(labels), logits.astype(np.float32), classes)


def test_parquet_gives_back_every_bit(tmp_path):
    first = make()
    first.logits[0] = [np.nan, np.inf]
    first.to_parquet(tmp_path / "p.parquet")
    second = Predictions.from_parquet(tmp_path / "p.parquet")
    assert second.ids == first.ids
    assert second.classes == first.classes
    assert second.labels.dtype == np.int64
    assert np.array_equal(second.labels, first.labels)
    assert second.logits.dtype == np.float32
    assert second.logits.tobytes() == first.logits.tobytes()


def test_parquet_is_a_table_any_tool_reads(tmp_path):
    first = make()
    first.to_parquet(tmp_path / "p.parquet")
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table.columns) == ["id", "label", "predicted", "logit_0", "logit_1"]
    assert table["predicted"].tolist() == first.logits.argmax(1).tolist()


def test_no_predictions_survive_the_round_trip(tmp_path):
    make(ids="", labels=()).to_parquet(tmp_path / "p.parquet")
    assert len(Predictions.from_parquet(tmp_path / "p.parquet")) == 0


def test_a_file_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "text").write_text("no")
    with pytest.raises(DataError, match="cannot be read"):
        Predictions.from_parquet(tmp_path / "text")
    pd.DataFrame({"id": ["a"]}).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(DataError, match="no predictions"):
        Predictions.from_parquet(tmp_path / "p.parquet")


@pytest.mark.parametrize(
    ("ids", "labels"),
    [("aab", (0, 1, 1)), ("abc", (0, 1)), ("abc", (0, 1, 2)), ("abc", (0, -1, 0))],
)
def test_impossible_predictions_are_refused(ids, labels):
    with pytest.raises(DataError):
        make(ids, labels)


def test_the_mean_of_a_metric_is_over_seeds_and_none_where_one_defines_none():
    first, second = make(labels=(0, 0, 0)), make(labels=(0, 0, 0))
    first.logits[:] = [1, 0]
    second.logits[:] = [[1, 0], [0, 1], [1, 0]]
    assert mean_metrics([first, second])["top1"] == pytest.approx((1 + 2 / 3) / 2)
    second = make(labels=(0, 0, 0))
    second.logits[:] = np.nan
    found = mean_metrics([first, second])
    assert (found["top1"], found["precision.macro"]) == (0.5, None)
    assert mean_metrics([]) == {}


def test_alignment_keeps_the_common_ids_in_the_order_of_the_first():
    left, right = make("abcd", (0, 1, 0, 1)), make("dxba", (1, 0, 1, 0), seed=1)
    one, two = aligned(left, right)
    assert one.ids == two.ids == ("a", "b", "d")
    assert np.array_equal(one.logits, left.logits[[0, 1, 3]])
    assert np.array_equal(two.logits, right.logits[[3, 2, 0]])
    assert two.labels.tolist() == [0, 1, 1]


def test_what_cannot_be_aligned_is_refused():
    with pytest.raises(NothingCompared):
        aligned(make("abc"), make("xyz"))
    with pytest.raises(DataError, match="1 of 3 images disagree, first 'c'"):
        aligned(make("abc"), make("abc", (0, 1, 0)))
    with pytest.raises(DataError, match="different classes"):
        aligned(make(), make(classes=("cat", "cow")))


def predicting(classes_predicted, labels=(0, 0, 1, 1)) -> Predictions:
    logits = np.eye(2, dtype=np.float32)[list(classes_predicted)]
    return Predictions(tuple("abcd"), np.array(labels), logits, ("x", "y"))


def test_spread_and_churn_of_three_seeds_worked_by_hand():
    found = noise_floor(
        "opencv",
        {3: predicting([0, 0, 1, 1]), 1: predicting([0, 0, 1, 0]), 2: predicting([1, 0, 1, 0])},
    )
    assert (found.preprocess, found.seeds) == ("opencv", (3, 1, 2))
    assert found.metrics["top1"] == 1.0 - 0.5
    assert found.churn == pytest.approx((0.25 + 0.5 + 0.25) / 3)


def test_equal_models_have_a_floor_of_zero():
    found = noise_floor("opencv", dict.fromkeys((0, 1), predicting([0, 1, 1, 1])))
    assert set(found.metrics.values()) == {0.0}
    assert found.churn == 0.0


def test_a_metric_undefined_for_one_seed_is_left_out():
    one = predicting([0, 0, 0, 0])
    one.logits[:] = np.nan
    found = noise_floor("opencv", {0: predicting([0, 0, 1, 1]), 1: one})
    assert "precision.macro" not in found.metrics
    assert found.metrics["top1"] == 1.0


def test_one_seed_has_no_floor_and_says_why():
    with pytest.raises(NothingCompared, match="one seed"):
        noise_floor("opencv", {0: predicting([0, 0, 1, 1])})


def test_seeds_on_different_images_are_refused():
    other = predicting([0, 0, 1, 1]).rows(np.array([1, 0, 2, 3]))
    with pytest.raises(DataError):
        noise_floor("opencv", {0: predicting([0, 0, 1, 1]), 1: other})


def test_outputs_outside_the_classes_survive_parquet_rows_and_packing(tmp_path):
    logits = np.float32([[0, 1, 2, 9], [5, 1, 2, 3], [1, 7, 2, 3]])
    first = Predictions(
        ("a", "b", "c"), np.array([0, 0, 1]), logits, ("cat", "dog"), ("emu", "fox")
    )
    assert first.outputs == ("cat", "dog", "emu", "fox")
    assert first.predicted.tolist() == [3, 0, 1]
    first.to_parquet(tmp_path / "p.parquet")
    stored = Predictions.from_parquet(tmp_path / "p.parquet")
    for second in (stored, stored.rows(np.arange(3)), unpack(pack(first))):
        assert (second.classes, second.outside) == (first.classes, first.outside)
        assert second.predicted.tolist() == first.predicted.tolist()
        assert second.counts() == first.counts()
    assert first.counts().predicted == (1, 1)  # the emu is a prediction of neither class
    other = Predictions(first.ids, first.labels, logits, ("cat", "dog"), ("emu", "gnu"))
    with pytest.raises(DataError, match="predictions of different classes"):
        aligned(first, other)
