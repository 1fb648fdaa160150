from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.datasets import digit_identities, digits_on_photos
from alignkit.datasets.digit_identities import DigitIdentities, compose, digits_shown
from alignkit.errors import ConfigError
from alignkit.testing import DatasetContract
from tests.contracts import broken

SMALL = DigitIdentities(train=8, eval=6, images=3)


def contents(samples):
    return [samples.read(index) for index in range(len(samples))]


def test_it_conforms():
    assert broken(DatasetContract, DigitIdentities(train=5, eval=4, images=2)) == {}


def test_the_same_options_give_the_same_bytes(tmp_path, monkeypatch):
    first = contents(SMALL.evaluation())
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "other"))
    assert contents(SMALL.evaluation()) == first


def test_images_do_not_depend_on_the_number_of_identities_or_of_images_each():
    more = DigitIdentities(train=9, eval=7, images=4).evaluation()
    kept = {name: more.read(index) for index, name in enumerate(more.ids)}
    few = SMALL.evaluation()
    assert [kept[name] for name in few.ids] == contents(few)


def test_another_seed_gives_other_images():
    other = replace(SMALL, seed=1)
    assert not {*contents(SMALL.training())} & {*contents(other.training())}


def test_each_identity_has_its_images_and_no_image_is_there_twice():
    samples = SMALL.training()
    assert np.bincount(samples.labels).tolist() == [3] * 8
    assert len({*contents(samples)}) == 24
    assert [samples.ids[0], samples.ids[-1]] == [
        "train/train-00000/000.jpg",
        "train/train-00007/002.jpg",
    ]


@pytest.mark.parametrize("seed", [0, 3])
def test_no_identity_and_no_digit_is_in_both_splits_and_no_two_identities_are_alike(seed):
    shown = {
        split: [digits_shown(split, identity, seed) for identity in range(2500)]
        for split in ("train", "eval")
    }
    for pairs in shown.values():
        assert len({*pairs}) == len(pairs)
        numerals = digits_on_photos.sources().labels[np.array(pairs)]
        assert len({tuple(each) for each in numerals.tolist()}) == 100
    used = [{digit for pair in pairs for digit in pair} for pairs in shown.values()]
    assert not used[0] & used[1]
    assert len(used[0] | used[1]) == 1797


def test_no_identity_returns_up_to_the_greatest_number():
    for split in ("train", "eval"):
        most = digit_identities.MOST_IDENTITIES
        assert len({digits_shown(split, each, 0) for each in range(most)}) == most


def test_the_splits_see_different_halves_of_the_photographs(monkeypatch):
    halves = np.zeros((427, 640, 3), np.uint8)
    halves[:, 320:] = 255
    real = digits_on_photos.sources()
    blank = digits_on_photos.Sources(np.zeros_like(real.digits), real.labels, (halves, halves))
    for module in (digit_identities, digits_on_photos):
        monkeypatch.setattr(module, "sources", lambda: blank)
    for identity in range(10):
        for split, bright in (("train", False), ("eval", True)):
            pixels = np.asarray(Image.open(io.BytesIO(compose(split, identity, 0, 0))))
            assert (pixels.mean() > 60) == bright


def test_the_digits_lie_wholly_on_the_image_at_varied_places_and_sizes(monkeypatch):
    real = digits_on_photos.sources()
    black = np.zeros((427, 640, 3), np.uint8)
    dark = digits_on_photos.Sources(real.digits, real.labels, (black, black))
    for module in (digit_identities, digits_on_photos):
        monkeypatch.setattr(module, "sources", lambda: dark)
    monkeypatch.setattr(digits_on_photos, "NOISE", 0.0)
    heights, centres, levels = [], [], []
    for image in range(40):
        file = Image.open(io.BytesIO(compose("eval", 4, image, 0)))
        assert file.format == "JPEG"
        assert [layer[1:3] for layer in file.layer] == [(2, 2), (1, 1), (1, 1)]
        grey = np.asarray(file.convert("L"))
        rows, columns = np.nonzero(grey > 90)
        assert min(rows.min(), columns.min()) > 0
        assert rows.max() < grey.shape[0] - 1
        assert columns.max() < grey.shape[1] - 1
        heights.append(np.ptp(rows) / min(grey.shape))
        centres.append(rows.mean() / grey.shape[0])
        levels.append(grey.max())
    assert max(heights) > 1.2 * min(heights)
    assert np.ptp(centres) > 0.2
    assert np.ptp(levels) > 40


def test_counts_names_and_fingerprints_make_nothing(cache):
    assert SMALL.counts() == (24, 18)
    assert SMALL.class_names() == tuple(f"eval-{each:05d}" for each in range(6))
    assert not {*SMALL.class_names()} & {*SMALL.trained_names()}
    kinds = [SMALL, replace(SMALL, seed=1), replace(SMALL, images=6), replace(SMALL, eval=7),
             DigitIdentities(train=8, eval=9, images=2)]  # fmt: skip
    assert len({each.fingerprint("eval") for each in kinds}) == 5
    assert SMALL.fingerprint("train") == replace(SMALL, eval=7).fingerprint("train")
    assert not cache.exists()


@pytest.mark.parametrize(
    "options",
    [{"train": 1}, {"eval": 10**6}, {"images": 1}, {"images": 10**4}, {"seed": -1}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        DigitIdentities(**options)
