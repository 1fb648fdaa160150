import numpy as np
import pytest
import torch
from torchvision.transforms import functional

from alignkit.experiment.train_option import Augment
from alignkit.train.training_draws import draw, shuffle
from alignkit.train.training_images import apply

IDS = [f"train/{number % 7}/{number}.jpg" for number in range(2000)]
AUGMENT = Augment(flip=0.5, crop=4)


def test_draws_depend_on_the_id_alone_and_not_on_batch_size_or_order():
    whole = draw(AUGMENT, seed=3, epoch=5, ids=IDS)
    for size in (1, 7, 64):
        for start in range(0, 210, size):
            part = draw(AUGMENT, seed=3, epoch=5, ids=IDS[start : start + size])
            assert np.array_equal(part.flip, whole.flip[start : start + size])
            assert np.array_equal(part.top, whole.top[start : start + size])
            assert np.array_equal(part.left, whole.left[start : start + size])
    order = np.random.default_rng(0).permutation(len(IDS))
    shuffled = draw(AUGMENT, seed=3, epoch=5, ids=[IDS[index] for index in order])
    assert np.array_equal(shuffled.flip, whole[order].flip)
    assert np.array_equal(shuffled.left, whole[order].left)


def test_images_of_one_batch_get_decisions_of_their_own():
    draws = draw(AUGMENT, seed=0, epoch=0, ids=IDS[:64])
    assert 0 < draws.flip.sum() < 64
    assert len(set(draws.top)) == len(set(draws.left)) == 9
    assert not np.array_equal(draws.top, draws.left)
    picture = torch.arange(3 * 16 * 16, dtype=torch.float32).reshape(1, 3, 16, 16)
    augmented = apply(picture.expand(64, -1, -1, -1), draws, crop=4)
    assert len({each.numpy().tobytes() for each in augmented}) > 40


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}])
def test_another_seed_or_epoch_draws_anew(change):
    one = draw(AUGMENT, seed=0, epoch=0, ids=IDS)
    other = draw(AUGMENT, **{"seed": 0, "epoch": 0, **change}, ids=IDS)
    assert 0.4 < np.mean(one.flip != other.flip) < 0.6
    assert 0.8 < np.mean(one.top != other.top) < 0.95
    ours, theirs = (shuffle(**{"seed": 0, "epoch": 0, **each}, ids=IDS) for each in ({}, change))
    assert not np.array_equal(ours, theirs)


def test_draws_are_uniform():
    draws = draw(Augment(flip=0.3, crop=2), seed=0, epoch=0, ids=IDS)
    assert draws.flip.mean() == pytest.approx(0.3, abs=0.04)
    for offsets in (draws.top, draws.left):
        assert np.bincount(offsets, minlength=5) / len(IDS) == pytest.approx(0.2, abs=0.04)


def test_no_flip_and_no_crop_change_nothing():
    draws = draw(Augment(), seed=0, epoch=0, ids=IDS[:8])
    assert not draws.flip.any()
    assert not draws.top.any()
    images = torch.randint(0, 256, (8, 3, 12, 10), dtype=torch.uint8)
    assert torch.equal(apply(images, draws, crop=0), images)


def test_a_flip_probability_of_one_flips_every_image():
    assert draw(Augment(flip=1.0), seed=0, epoch=0, ids=IDS).flip.all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_apply_equals_torchvision_image_by_image(dtype):
    images = torch.randint(0, 256, (32, 3, 14, 18), dtype=torch.uint8).to(dtype)
    draws = draw(AUGMENT, seed=9, epoch=2, ids=IDS[:32])
    augmented = apply(images, draws, crop=4)
    assert augmented.dtype == dtype
    for index, image in enumerate(images):
        padded = functional.pad(image, [4, 4, 4, 4])
        expected = functional.crop(padded, draws.top[index], draws.left[index], 14, 18)
        expected = functional.hflip(expected) if draws.flip[index] else expected
        assert torch.equal(augmented[index], expected)


def test_order_is_a_permutation_that_keeps_its_sense_when_an_image_is_left_out():
    order = shuffle(seed=0, epoch=0, ids=IDS)
    assert sorted(order) == list(range(len(IDS)))
    fewer = [each for each in IDS if each != IDS[5]]
    visited = [fewer[index] for index in shuffle(seed=0, epoch=0, ids=fewer)]
    assert visited == [IDS[index] for index in order if index != 5]
