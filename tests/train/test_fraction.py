"""A share of the training images: the same for every path, of every class."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.plan.planned_units import matched_pairs
from alignkit.train import read_log
from alignkit.train.training_draws import stratified
from tests.runner.test_run import run, write_small
from tests.training_case import digits_case

LABELS = [0] * 40 + [1] * 100 + [2] * 3
IDS = [f"image-{number}" for number in range(len(LABELS))]


def chosen(fraction: float, *, seed: int = 0, name: str = "a"):
    training = replace(digits_case(name=name, seed=seed).training, fraction=fraction)
    return stratified(training, LABELS, IDS)


def test_a_share_takes_as_much_of_every_class_and_one_at_least():
    assert np.bincount(np.array(LABELS)[chosen(0.05)]).tolist() == [2, 5, 1]
    assert chosen(1.0).tolist() == list(range(len(LABELS)))


def test_every_path_gets_the_same_share_and_another_seed_another():
    assert chosen(0.2, name="a").tolist() == chosen(0.2, name="b").tolist()
    assert chosen(0.2).tolist() != chosen(0.2, seed=1).tolist()


def test_a_smaller_share_lies_within_a_larger():
    assert set(chosen(0.05)) < set(chosen(0.3)) < set(chosen(1.0))


def test_who_else_is_there_does_not_change_what_is_drawn_of_a_class():
    training = replace(digits_case().training, fraction=0.1)
    alone = stratified(training, LABELS[:40], IDS[:40])
    assert alone.tolist() == [each for each in chosen(0.1) if each < 40]


def test_a_training_on_a_share_sees_that_many_images(tmp_path):
    case = digits_case(count=100)
    few = replace(case, training=replace(case.training, fraction=0.2, parts={"few": 1}))
    log = read_log(few.train(tmp_path))
    assert log["images"] == len(stratified(few.training, case.samples.labels, case.samples.ids))


def test_a_full_share_keeps_the_keys_and_pairs_never_mix_shares(tmp_path):
    file = write_small(tmp_path)
    plain = make_plan(load_experiment(file, ()))
    cube = make_plan(load_experiment(file, ("train.fractions=[1.0, 0.1]",)))
    assert {each.key for each in plain.trainings} < {each.key for each in cube.trainings}
    assert [str(each.row) for each in cube.trainings] == [
        "opencv", "other", "opencv (10 %)", "other (10 %)",
    ]  # fmt: skip
    pairs = matched_pairs(cube.trainings)
    assert len(pairs) == 2
    assert all(each.reference.fraction == each.candidate.fraction for each in pairs)


@pytest.mark.slow
def test_a_run_has_a_row_for_each_path_and_share_and_a_mix(tmp_path):
    overrides = ("train.fractions=[1.0, 0.5]", "train.mix=[opencv, other]")
    record, folder = run(write_small(tmp_path), tmp_path / "reports", overrides)
    rows = ["opencv", "other", "opencv+other (mix)"]
    rows += ["opencv (50 %)", "other (50 %)", "opencv+other (mix, 50 %)"]
    assert list(dict.fromkeys(entry.trained_with for entry in record.matrix)) == rows
    assert {cell.state for cell in record.cells} == {"measured"}
    assert [entry.fraction for entry in record.matrix if entry.aligned] == [1.0] * 3 + [0.5] * 3
    assert {each.images for each in record.trainings if each.fraction == 1.0} == {60}
    assert len({each.images for each in record.trainings if each.fraction == 0.5}) == 1
    assert all((folder / cell.predictions.path).exists() for cell in record.cells)
