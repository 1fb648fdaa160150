"""Five logits an image say the same of classes as all of them, and of the rest why they do not."""

from dataclasses import fields, replace

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.answers import noise_floor
from alignkit.compare.predictions import Predictions
from alignkit.compare.top_predictions import (
    TopPredictions,
    kept_type,
    read_class_answers,
    top_records,
)
from alignkit.errors import DataError
from alignkit.task_facts import TOP_LOGITS

NAMES = tuple("abcdefghijkl")
IMAGES = 600


def pair(noise: float, labelled: bool = True) -> tuple[Predictions, Predictions]:
    draw = np.random.default_rng(0)
    before = np.round(draw.normal(size=(IMAGES, 12)), 1).astype(np.float32)  # with ties
    after = before + noise * draw.normal(size=before.shape).astype(np.float32)
    before[3, 2], after[7, 1], before[9], after[9] = np.nan, np.inf, np.inf, np.inf
    ids = tuple(map(str, range(IMAGES)))
    # two outputs are no class of the data
    labels, names = draw.integers(0, 10, IMAGES), (NAMES[:10], NAMES[10:])
    if not labelled:
        labels, names = np.zeros(0, np.int64), ((), NAMES)
    return tuple(Predictions(ids, labels, each, *names) for each in (before, after))


def top(full: Predictions) -> TopPredictions:
    kept = top_records(full.logits)
    return TopPredictions(full.ids, full.labels, kept, full.classes, full.outside)


@pytest.mark.parametrize("labelled", [True, False])
def test_all_but_distances_of_logits_is_that_of_all_logits(labelled):
    full = pair(0.1, labelled)
    ours = tuple(map(top, full))
    whole, found = drift([full[0]], [full[1]]), drift([ours[0]], [ours[1]])
    differ = {
        each.name
        for each in fields(whole)
        if getattr(whole, each.name) != getattr(found, each.name)
    }
    assert differ == {"logits", "moved"}
    assert whole.churn.value > 0.03
    distances = (found.logits.max_abs, found.logits.mean_abs, found.logits.cosine, found.logits.p99)
    assert (*distances, found.logits.reason) == (*[None] * 4, TOP_LOGITS.no_logits)
    assert found.logits.same_top == whole.logits.same_top
    assert found.logits.compared == whole.logits.compared == IMAGES - 3
    assert [*found.moved] == [replace(each, max_abs=None) for each in whole.moved]
    floors = [noise_floor("a", dict(enumerate(each))) for each in (full, ours)]
    assert floors[0] == floors[1]


def test_a_quantile_that_lost_logits_decide_is_absent_with_the_reason():
    full = pair(0.3)
    whole, found = (drift([a], [b]).margins for a, b in (full, map(top, full)))
    assert (found.p50, found.halved, found.compared) == (whole.p50, whole.halved, whole.compared)
    assert (found.p99, whole.reason) == (None, "")
    assert "not among the other side's five greatest logits" in found.reason
    assert found.reason.startswith("the class of ")
    before, after = (dict(zip(each.ids, each.logits.astype(float), strict=True)) for each in full)
    moved = drift([top(full[0])], [top(full[1])]).moved
    assert None in [each.lost for each in moved]
    # those of an unknown share are in the order of the least that they lost
    least = []
    for each in moved:
        greatest = np.sort(after[each.id])[::-1]
        own = before[each.id][NAMES.index(each.before)]
        margin = own - np.sort(before[each.id])[-2]
        lost = 1 - (greatest[4] - greatest[0]) / margin
        least.append(lost if each.lost is None else each.lost)
    assert least == sorted(least, reverse=True)


def test_every_number_of_an_image_is_that_of_all_logits():
    for full in pair(0.3):
        ours = top(full)
        for name in ("margins", "top_chances", "finite"):
            np.testing.assert_array_equal(getattr(ours, name)(), getattr(full, name)())
        rows = np.array([5, 3, 9])
        assert ours.rows(rows).ids == ("5", "3", "9")
        # the sums of one image are those of many, whatever the layout
        assert top_records(np.asfortranarray(full.logits)).tobytes() == ours.kept.tobytes()
        alone = np.concatenate([top_records(each[None]) for each in full.logits])
        assert alone.tobytes() == ours.kept.tobytes()


@pytest.mark.parametrize("labelled", [True, False])
def test_a_file_gives_the_same_bits(tmp_path, labelled):
    ours = top(pair(0.3, labelled)[0])
    ours.to_parquet(tmp_path / "p.parquet")
    again = read_class_answers(tmp_path / "p.parquet")
    assert isinstance(again, TopPredictions)
    assert again.kept.tobytes() == ours.kept.tobytes()
    assert (again.ids, again.classes, again.outside) == (ours.ids, ours.classes, ours.outside)
    np.testing.assert_array_equal(again.labels, ours.labels)
    with pytest.raises(DataError, match="one column of logits"):
        Predictions.from_parquet(tmp_path / "p.parquet")


def test_an_image_takes_tens_of_bytes(tmp_path):
    assert kept_type(1000).itemsize == 61
    made = np.random.default_rng(0).normal(size=(2000, 1000)).astype(np.float32)
    ids = tuple(f"{index:08}.jpg" for index in range(2000))
    names = tuple(f"class {index}" for index in range(1000))
    labels = np.arange(2000) % 1000
    TopPredictions(ids, labels, top_records(made), names).to_parquet(tmp_path / "p.parquet")
    assert (tmp_path / "p.parquet").stat().st_size < 110 * 2000


def test_rows_of_other_classes_are_refused():
    ours = top(pair(0.3)[0])
    for name, value in (("predicted", 12), ("predicted", -2), ("classes", 12)):
        wrong = ours.kept.copy()
        wrong[name][4] = value
        with pytest.raises(DataError, match=r"a class is not in 0\.\.11"):
            replace(ours, kept=wrong)
    with pytest.raises(DataError, match="a row of each image"):
        replace(ours, kept=ours.kept[:5])


def test_fewer_than_five_outputs_are_all_kept():
    logits = np.array([[1, 3], [2, 2]], np.float32)
    kept = TopPredictions(("a", "b"), np.array([1, 0]), top_records(logits), ("x", "y"))
    assert kept.margins().tolist() == [2, 0]
    assert kept.predicted.tolist() == [1, 0]
    one = TopPredictions(("a",), np.array([0]), top_records(logits[:1, :1]), ("x",))
    assert np.isnan(one.margins()).all()


def test_without_an_image_of_finite_logits_the_reason_is_that_of_all_logits():
    full = pair(0.1)
    broken = tuple(replace(each, logits=np.full_like(each.logits, np.nan)) for each in full)
    distance = TopPredictions.distance([tuple(map(top, broken))])
    assert distance == Predictions.distance([broken])
    assert "finite" in distance.reason
