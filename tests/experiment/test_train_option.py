"""Every option of a recipe: what it does, that paths stay matched, and that a resume changes no bit."""

import csv
import hashlib
import math

import pytest
import torch

from alignkit.experiment.train_option import Recipe
from alignkit.train import read_log
from alignkit.train.training_step import learning_rate, mix_batch
from tests.training_case import digits_case

OPTIONS = {
    "warm-up and clipping": {"warm_up": 1.0, "clip_norm": 0.5},
    "step": {"schedule": "step", "step_epochs": 1},
    "mixup and cutmix": {"mixup": 0.8, "cutmix": 1.0},
    "ema": {"ema": 0.9},
    "bf16": {"amp": "bf16"},
    "fp16": {"amp": "fp16"},
}


def sha256(checkpoint) -> str:
    return hashlib.sha256(checkpoint.weights.read_bytes()).hexdigest()


class KilledError(Exception):
    pass


def kill_after_one(epoch):
    if epoch.epoch == 1:
        raise KilledError


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> str:
    """The hash of a training without options."""
    return sha256(digits_case().with_recipe(epochs=2).train(tmp_path_factory.mktemp("plain")))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=[*OPTIONS])
def test_a_resumed_training_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, plain, options):
    case = digits_case().with_recipe(epochs=2, **options)
    straight = case.train(tmp_path / "straight")
    with pytest.raises(KilledError):
        case.train(tmp_path / "killed", progress=kill_after_one)
    resumed = case.train(tmp_path / "killed")
    assert read_log(resumed)["resumed_after"] == [1]
    assert sha256(resumed) == sha256(straight)
    assert sha256(straight) != plain


def test_rates_rise_in_the_warm_up_and_fall_by_tens_in_steps():
    recipe = Recipe(schedule="step", step_epochs=2, epochs=4, learning_rate=1.0, warm_up=1.0)
    rates = [learning_rate(recipe, step, 20) for step in range(20)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[5:10] == [1.0] * 5
    assert rates[10:] == pytest.approx([0.1] * 10)


def test_a_blend_is_drawn_by_its_key_and_its_targets_say_the_shares():
    recipe = Recipe(mixup=0.8)
    batch = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8).clone()
    labels = torch.tensor([0, 1, 2, 3])
    torch.manual_seed(1)
    state = torch.get_rng_state()
    mixed, targets = mix_batch(batch, labels, recipe, classes=4, key="a")
    assert torch.equal(torch.get_rng_state(), state)
    again, _ = mix_batch(batch + 5, labels, recipe, classes=4, key="a")
    assert torch.allclose(again, mixed + 5)
    assert torch.allclose(targets.sum(1), torch.ones(4))
    values = torch.arange(4.0)
    assert torch.allclose(mixed[:, 0, 0, 0], targets @ values)
    other, _ = mix_batch(batch, labels, recipe, classes=4, key="b")
    assert not torch.equal(other, mixed)


def test_cutmix_targets_are_the_shares_of_pixels():
    batch = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8).clone()
    labels = torch.arange(4)
    mixed, targets = mix_batch(batch, labels, Recipe(cutmix=1.0), classes=4, key="c")
    for image, target in zip(mixed, targets, strict=True):
        shares = torch.bincount(image[0].flatten().long(), minlength=4) / 64
        assert torch.allclose(shares, target)


def test_the_moving_average_is_what_is_kept(tmp_path):
    plain = digits_case().with_recipe(epochs=1)
    averaged = plain.with_recipe(ema=0.99)
    kept = torch.load(averaged.train(tmp_path).weights, weights_only=True)
    last = torch.load(plain.train(tmp_path).weights, weights_only=True)
    assert kept.keys() == last.keys()
    assert any(not torch.equal(kept[name], last[name]) for name in kept)


def test_every_epoch_is_a_line_of_the_csv_log(tmp_path):
    checkpoint = digits_case().train(tmp_path)
    with checkpoint.weights.with_name("log.csv").open() as file:
        rows = list(csv.DictReader(file))
    logged = read_log(checkpoint)["epochs"]
    assert [int(row["epoch"]) for row in rows] == [1, 2, 3]
    assert all(
        math.isclose(float(row["loss"]), epoch["loss"])
        for row, epoch in zip(rows, logged, strict=True)
    )
