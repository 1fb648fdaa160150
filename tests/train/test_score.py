"""Held-out images: what they score, which epoch they keep, and what is written of each epoch."""

import json
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.metrics import classification_report, recall_score

from alignkit.experiment.train_option import Recipe
from alignkit.models.architectures import load_model
from alignkit.train import read_log
from alignkit.train.training_draws import held_out
from alignkit.train.training_step import classification
from tests.training_case import digits_case

CASE = digits_case(count=240).with_recipe(epochs=4, holdout=0.25, learning_rate=0.02)
BEST = CASE.with_recipe(keep="best")


def state(file):
    return torch.load(file, weights_only=True)


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_kept_epoch_is_the_one_that_did_best_and_the_last_lies_beside_it(tmp_path):
    best, last = BEST.train(tmp_path), CASE.train(tmp_path)
    log = read_log(best)
    ranked = [(line["held_out_accuracy"], -line["held_out_loss"]) for line in log["epochs"]]
    assert log["kept_epoch"] == 1 + max(range(4), key=ranked.__getitem__)
    assert read_log(last)["kept_epoch"] == 4
    assert same(state(best.weights.with_name("last.pt")), state(last.weights))
    assert same(state(last.weights.with_name("best.pt")), state(best.weights))


def test_the_score_is_that_of_the_kept_weights_on_images_never_trained_on(tmp_path):
    checkpoint = BEST.train(tmp_path)
    log, samples = read_log(checkpoint), BEST.samples
    held = held_out(0.25, seed=0, labels=samples.labels, ids=samples.ids)
    assert (log["images"], log["held_out"]) == (240 - len(held), len(held))
    pixels = BEST.training.preprocess.normalise(np.asarray(BEST.prepared.pixels)[held])
    with torch.inference_mode():
        answers = load_model(checkpoint)(torch.from_numpy(pixels)).argmax(1).numpy()
    labels = np.array(samples.labels)[held]
    kept = log["epochs"][log["kept_epoch"] - 1]
    assert kept["held_out_accuracy"] == (answers == labels).mean()
    assert kept["held_out_recall"] == pytest.approx(recall_score(labels, answers, average="macro"))


def test_held_out_images_are_of_every_class_and_follow_from_seed_and_id():
    labels, ids = CASE.samples.labels, CASE.samples.ids
    held = held_out(0.25, seed=0, labels=labels, ids=ids)
    assert {labels[index] for index in held} == set(labels)
    backwards = held_out(0.25, seed=0, labels=labels[::-1], ids=ids[::-1])
    assert {ids[index] for index in held} == {ids[::-1][index] for index in backwards}
    assert {*held} != {*held_out(0.25, seed=1, labels=labels, ids=ids)}


def test_a_resumed_training_keeps_the_same_epoch_and_the_same_reports(tmp_path):
    def interrupt(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BEST.train(tmp_path / "interrupted", progress=interrupt)
    resumed, straight = BEST.train(tmp_path / "interrupted"), BEST.train(tmp_path / "straight")
    for name in ("weights.pt", "last.pt", "classification.json"):
        files = [each.weights.with_name(name).read_bytes() for each in (resumed, straight)]
        assert files[0] == files[1], name


def test_every_epoch_has_a_classification_report_that_is_strict_json(tmp_path):
    text = CASE.train(tmp_path).weights.with_name("classification.json").read_text()
    reports = json.loads(text, parse_constant=pytest.fail)
    assert [each["epoch"] for each in reports] == [1, 2, 3, 4]
    assert {each["of"] for each in reports} == {"held-out training images"}
    assert {*reports[0]["report"]} >= {*"0123456789", "macro avg", "accuracy"}


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("seed", range(20))
def test_the_report_is_scikit_learns_to_the_bit(seed):
    random = np.random.default_rng(seed)
    # often more classes than images: some have no image, some no answer
    classes, images = int(random.integers(2, 40)), int(random.integers(1, 120))
    labels = random.integers(0, classes, images)
    answers = np.where(random.random(images) < 0.6, labels, random.integers(0, classes, images))
    names = [f"class {number}" for number in range(classes)]
    expected = classification_report(
        labels, answers, labels=range(classes), target_names=names, output_dict=True,
        zero_division=math.nan,
    )  # fmt: skip

    def defined(value):
        if isinstance(value, dict):
            return {name: defined(each) for name, each in value.items()}
        return None if math.isnan(value) else float(value)

    report = classification(labels.tolist(), answers.tolist(), names)
    assert json.dumps(report) == json.dumps(defined(expected))


def test_a_class_without_images_or_answers_has_no_value_and_stops_nothing():
    # the tutorial's classification_report raised for a class that the batch did not hold
    report = classification([0, 0, 1], [0, 1, 1], ["cat", "dog", "elk"])
    assert report["cat"]["recall"] == recall_score([0, 0, 1], [0, 1, 1], pos_label=0)
    assert report["elk"] == {
        "precision": None, "recall": None, "f1-score": None, "support": 0.0
    }  # fmt: skip


def test_without_held_out_images_the_best_cannot_be_chosen():
    with pytest.raises(ValidationError, match=r"set train\.holdout"):
        Recipe(keep="best")
