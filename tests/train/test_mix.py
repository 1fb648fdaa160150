"""Training on a mix of paths: each image's path is drawn again every epoch."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.experiment.train_option import Augment, Recipe
from alignkit.plan import make_plan
from alignkit.plan.planned_units import matched_pairs
from alignkit.preprocess.normalise import Normalise
from alignkit.record import PathFacts
from alignkit.text.names import Names
from alignkit.train.training_draws import chosen_path
from alignkit.train.training_images import PixelSource, TrainingImages, batch_bounds
from tests.runner.test_run import write_small
from tests.training_case import PATH, digits_case

IDS = [f"image-{number}" for number in range(2000)]


def test_a_path_is_drawn_by_seed_epoch_and_id_and_evenly():
    drawn = chosen_path(seed=0, epoch=0, ids=IDS, paths=2)
    assert 0.45 < drawn.mean() < 0.55
    assert (drawn[500:] == chosen_path(seed=0, epoch=0, ids=IDS[500:], paths=2)).all()
    assert 0.4 < (drawn != chosen_path(seed=0, epoch=1, ids=IDS, paths=2)).mean() < 0.6
    assert 0.4 < (drawn != chosen_path(seed=1, epoch=0, ids=IDS, paths=2)).mean() < 0.6


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_every_image_of_a_batch_comes_from_its_own_path_normalised_as_that_path_does(batch_size):
    ids = IDS[:50]
    shape = (len(ids), 8, 8, 3)
    dark = PixelSource(np.full(shape, 10, np.uint8), np.arange(50), Normalise())
    light = PixelSource(
        np.full(shape, 200.5, np.float32), np.arange(50), Normalise((0.5,) * 3, (0.5,) * 3)
    )
    images = TrainingImages((dark, light), list(range(50)), ids)
    epoch = images.epoch(
        seed=3,
        epoch=2,
        recipe=Recipe(augment=Augment(flip=0.5)),
        device=torch.device("cpu"),
        bounds=batch_bounds(len(ids), batch_size),
    )
    paths = chosen_path(seed=3, epoch=2, ids=ids, paths=2)
    wanted = [each.normalise(np.asarray(each.pixels[0])) for each in (dark, light)]
    seen = 0
    for batch, labels in epoch:
        for image, label in zip(batch, labels, strict=True):
            assert np.allclose(image.numpy(), wanted[paths[label]])
            seen += 1
    assert seen == 50


def test_a_mix_of_a_path_with_itself_trains_the_same_weights(tmp_path):
    case = digits_case()
    plain = case.train(tmp_path / "plain")
    twice = replace(case, training=replace(case.training, mix=(PATH, PATH)))
    mixed = twice.train(tmp_path / "mixed", others=[case.prepared])
    digests = {hashlib.sha256(each.weights.read_bytes()).hexdigest() for each in (plain, mixed)}
    assert len(digests) == 1


def test_a_mix_is_a_further_row_compared_with_its_first_path(tmp_path):
    plan = make_plan(load_experiment(write_small(tmp_path), ("train.mix=[other, opencv]",)))
    mixed = [each for each in plan.evaluations if each.training.mix]
    assert {str(each.training.row) for each in mixed} == {"other+opencv (mix)"}
    assert [each.preprocess.name for each in mixed if each.aligned] == ["other"]
    assert not any(pair.candidate.mix for pair in matched_pairs(plan.trainings))


def test_a_mix_that_names_no_path_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'opencv'"):
        load_experiment(write_small(tmp_path), ("train.mix=[opencw, other]",))


def test_a_row_that_holds_a_surrogate_says_so():
    path = PathFacts(name="gpu", stages=(), surrogate_of="torchpipe")
    names = Names((PathFacts(name="cpu", stages=()), path))
    assert "surrogate of torchpipe" in names.of("cpu+gpu (mix, 5 %)").note
    assert names.short("gpu (5 %)") == "gpu (5 %, surrogate)"
    assert names.of("cpu (5 %)").note == ""
