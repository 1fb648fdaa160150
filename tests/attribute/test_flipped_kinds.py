"""Flips that gather in a kind of image are found; flips at random are not."""

import numpy as np
import pytest
from scipy.stats import fisher_exact
from statsmodels.stats.multitest import multipletests

from alignkit.attribute.flipped_kinds import edge_energy, kinds_of_images, subgroups, thirds
from alignkit.compare.predictions import Predictions
from tests.photos import make_jpegs, photo

N = 240
KINDS = {"subsampling": ["4:2:0" if row % 3 else "4:4:4" for row in range(N)]}


def predictions(classes: np.ndarray, margin: float | np.ndarray = 1.0) -> Predictions:
    logits = np.zeros((N, 3), np.float32)
    logits[np.arange(N), classes] = margin
    labels = np.arange(N) // 3 % 3
    return Predictions(tuple(map(str, range(N))), labels, logits, ("a", "b", "c"))


def flipped(share_420: float, share_444: float, seed: int = 0) -> tuple[Predictions, Predictions]:
    rng = np.random.default_rng(seed)
    before = rng.integers(0, 3, N)
    shares = np.array(
        [share_420 if kind == "4:2:0" else share_444 for kind in KINDS["subsampling"]]
    )
    after = np.where(rng.random(N) < shares, (before + 1) % 3, before)
    return predictions(before), predictions(after)


def test_the_kind_that_flips_is_named_first_with_its_effect():
    reference, candidate = flipped(0.3, 0.0)
    found = subgroups([reference], [candidate], KINDS)
    first = found[0]
    assert first.dimension == "subsampling"
    assert first.significant
    by_kind = {each.kind: each for each in found if each.dimension == "subsampling"}
    assert by_kind["4:2:0"].churn > 0.2
    assert by_kind["4:2:0"].elsewhere == 0.0
    difference = by_kind["4:2:0"].difference
    assert 0 < difference.low < difference.value < difference.high
    assert by_kind["4:2:0"].significant


def test_flips_at_random_are_significant_in_no_more_than_one_run_of_twenty():
    wrong = 0
    for seed in range(200):
        reference, candidate = flipped(0.1, 0.1, seed)
        found = subgroups([reference], [candidate], KINDS, resamples=10)
        wrong += any(each.significant for each in found)
    assert wrong <= 0.05 * 200


def test_p_values_are_fisher_s_and_adjusted_as_statsmodels_does():
    reference, candidate = flipped(0.2, 0.05)
    found = subgroups([reference], [candidate], KINDS)
    flips = reference.predicted != candidate.predicted
    inside = np.array([kind == "4:2:0" for kind in KINDS["subsampling"]])
    table = [[(flips & each).sum(), (~flips & each).sum()] for each in (inside, ~inside)]
    (mine,) = [each for each in found if each.kind == "4:2:0"]
    assert mine.p == pytest.approx(fisher_exact(table)[1])
    adjusted = multipletests([each.p for each in found], method="holm")[1]
    assert [each.p_adjusted for each in found] == pytest.approx(adjusted)


def test_small_margins_flip_and_are_said_to():
    rng = np.random.default_rng(1)
    before = rng.integers(0, 3, N)
    margins = rng.random(N).astype(np.float32)
    after = np.where(margins < 0.25, (before + 1) % 3, before)
    found = subgroups([predictions(before, margins)], [predictions(after)], {})
    assert (found[0].dimension, found[0].kind) == ("margin of the reference", "lowest third")


def test_several_seeds_are_joined_by_image():
    pairs = [flipped(0.2, 0.0, seed) for seed in range(3)]
    found = subgroups([a for a, _ in pairs], [b for _, b in pairs], KINDS)
    churn = np.mean([(a.predicted != b.predicted).mean() for a, b in pairs])
    (mine,) = [each for each in found if each.kind == "4:2:0"]
    weighted = (mine.churn * mine.images + mine.elsewhere * (N - mine.images)) / N
    assert weighted == pytest.approx(churn)


def test_without_a_flip_there_is_nothing_to_compare():
    reference, _ = flipped(0.0, 0.0)
    assert subgroups([reference], [reference], KINDS) == ()


def test_thirds_hold_equal_values_together():
    assert thirds([1, 2, 3]) == ["lowest third", "middle third", "highest third"]
    assert len({*thirds([5] * 7)}) == 1


def test_edges_have_more_energy_than_a_blurred_copy():
    from PIL import Image, ImageFilter

    blurred = Image.fromarray(photo()).filter(ImageFilter.GaussianBlur(3))
    assert edge_energy(photo()) > 2 * edge_energy(np.asarray(blurred))
    assert edge_energy(np.full((8, 8, 3), 90, np.uint8)) == 0.0


def test_kinds_that_all_images_share_are_not_kinds():
    files = make_jpegs()
    kinds = kinds_of_images([files["420"], files["444"]], [photo(), photo()])
    assert set(kinds["subsampling"]) == {"4:2:0", "4:4:4"}
    assert "format" not in kinds
    assert "edge energy" not in kinds


def test_an_image_of_unknown_value_is_left_out_of_its_dimension_and_that_is_said():
    values = [1.0, np.nan, 2.0, 3.0, np.inf]
    names = [f"{each} third of 3 known" for each in ("lowest", "middle", "highest")]
    assert thirds(values) == [names[0], None, *names[1:], None]
    assert thirds([np.nan]) == [None]
    rng = np.random.default_rng(1)
    before = rng.integers(0, 3, N)
    margins = rng.random(N).astype(np.float32)
    after = np.where(margins < 0.25, (before + 1) % 3, before)
    reference = predictions(before, margins)
    reference.logits[7] = np.nan
    found = subgroups([reference], [predictions(after)], {})
    assert found[0].kind == f"lowest third of {N - 1} known"
    assert found[0].significant


class Persons(Predictions):
    """Predictions of images of 24 persons, ten of each."""

    def groups(self):
        return np.arange(N) // 10


def of_persons(classes: np.ndarray) -> Persons:
    plain = predictions(classes)
    return Persons(plain.ids, plain.labels, plain.logits, plain.classes)


def test_images_of_persons_that_flip_together_are_persons_and_not_images():
    """Some persons flip with all of their images, whatever their kind is."""
    kinds = {"quality": ["low" if person % 2 else "high" for person in np.arange(N) // 10]}
    wrong = {Predictions: 0, Persons: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        before = rng.integers(0, 3, N)
        after = np.where(np.repeat(rng.random(24) < 0.3, 10), (before + 1) % 3, before)
        for made, kind in ((predictions, Predictions), (of_persons, Persons)):
            found = subgroups([made(before)], [made(after)], kinds, resamples=300)
            wrong[kind] += any(e.significant for e in found if e.dimension == "quality")
    assert wrong[Predictions] > 15  # of images alone, a sample in two or three accuses a kind
    assert wrong[Persons] <= 4


def test_a_kind_that_makes_persons_flip_is_found_from_persons_too():
    rng = np.random.default_rng(2)
    low = np.repeat(np.arange(24) % 2 == 1, 10)
    before = rng.integers(0, 3, N)
    after = np.where(low & (rng.random(N) < 0.5), (before + 1) % 3, before)
    kinds = {"quality": np.where(low, "low", "high").tolist()}
    found = subgroups([of_persons(before)], [of_persons(after)], kinds)
    first = next(each for each in found if each.kind == "low")
    assert first.significant
    assert first.elsewhere == 0
    assert 0 < first.difference.low < first.churn == first.difference.value < first.difference.high


@pytest.mark.parametrize(
    ("kept", "copies", "p"),
    [
        # scipy.stats.fisher_exact, each image once: 0 of 20 against 22 of 220, without a copy 0 of
        # 19, and 0 of 1; the same of images that keep their answer
        ("no flip", {}, 0.22998),
        ("no flip", {"1": "0"}, 0.23043),
        ("all flip", {"1": "0"}, 0.23043),
        ("no flip", {str(row): "0" for row in range(1, 20)}, 1.0),
        ("all flip", {str(row): "0" for row in range(1, 20)}, 1.0),
    ],
)
def test_a_copy_of_an_image_makes_no_kind_more_certain(kept, copies, p):
    few = np.arange(N) < 20
    flips = (np.arange(N) >= 20) & (np.arange(N) % 10 == 0)
    flips = flips if kept == "no flip" else ~flips
    before = np.arange(N) % 3
    sides = predictions(before), predictions(np.where(flips, (before + 1) % 3, before))
    kinds = {"quality": np.where(few, "few", "many").tolist()}
    found = subgroups(sides[:1], sides[1:], kinds, copies=copies)
    mine = next(each for each in found if each.kind == "few")
    assert mine.churn == float(kept == "all flip")
    assert mine.p == pytest.approx(p, abs=1e-5)
    assert not mine.significant


def test_images_that_nobody_asked_about_are_in_no_kind():
    from alignkit.compare.answers import RatioOfSums

    class Asked(Predictions):
        def churn(self, other):
            asked = (np.arange(N) < N // 2).astype(float)
            return RatioOfSums(self.changed(other) * asked, asked)

    rng = np.random.default_rng(0)
    before = rng.integers(0, 3, N)
    flips = (rng.random(N) < 0.4) & (np.arange(N) < N // 2)
    sides = [
        Asked(e.ids, e.labels, e.logits, e.classes)
        for e in (predictions(before), predictions(np.where(flips, (before + 1) % 3, before)))
    ]
    found = next(e for e in subgroups(sides[:1], sides[1:], KINDS) if e.kind == "4:2:0")
    inside = np.array([kind == "4:2:0" for kind in KINDS["subsampling"]]) & (np.arange(N) < N // 2)
    assert found.images == inside.sum()
    assert found.churn == pytest.approx(flips[inside].mean())
