"""Verification against scikit-learn, plain NumPy and cases made by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from alignkit.annotations import Pairs
from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws, image_weights
from alignkit.tasks.embedding import verification
from alignkit.tasks.embedding.pair_weights import BinnedPairs, Units, total_weight
from alignkit.tasks.embedding.verified_pairs import drawn_pairs
from tests.tasks.embedding_case import answers, people

RATES = (1e-1, 1e-2, 1e-3)


def ones(found):
    return np.ones((len(found), 1), np.float32)


def value(found, metric):
    return float(found.metrics_of(ones(found))[metric][0])


def cosines_of(found):
    """Return the cosine matrix by plain NumPy."""
    vectors = found.vectors.astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def listed(found):
    """List (cosine, same, first, second) of all pairs."""
    cosine, identity = cosines_of(found), found.identities
    return [
        (cosine[a, b], identity[a] == identity[b], a, b)
        for a, b in itertools.combinations(range(len(found)), 2)
    ]


def weighted_rates(pairs, weights, identities, threshold):
    """Return FAR and TAR of weighted groups, by a loop."""
    accepted, total = np.zeros(2), np.zeros(2)
    for cosine, same, a, b in pairs:
        weight = weights[a] if same else weights[a] * weights[b]
        total[int(same)] += weight
        accepted[int(same)] += weight * (cosine > threshold)
    return accepted / total


@pytest.mark.parametrize("noise", [0.4, 1.0])
def test_tar_and_eer_are_those_of_scikit_learn(noise):
    found = people(noise=noise)
    pairs = listed(found)
    far, tar, _ = roc_curve(
        [s for _, s, *_ in pairs], [c for c, *_ in pairs], drop_intermediate=False
    )
    for rate in RATES:
        # cosines of scikit-learn's side are summed in another order: no two are tied here
        exponent = round(np.log10(rate))
        assert value(found, f"tar@far=1e{exponent}") == pytest.approx(
            tar[far <= rate].max(), abs=1e-12
        )
    crossing = np.argmax(far >= 1 - tar)
    between = sorted([far[crossing], 1 - tar[crossing], far[crossing - 1], 1 - tar[crossing - 1]])
    assert between[0] <= value(found, "eer") <= between[-1]


def test_draws_weigh_same_pairs_once_and_different_pairs_by_both_identities():
    found = people(8, 3, noise=1.0, far=(0.1, 0.05))
    weights = np.concatenate(list(image_weights(len(found), found.groups(), 10, 0)), axis=1)
    pairs = listed(found)
    thresholds = sorted({c for c, s, *_ in pairs if not s}, reverse=True)
    computed = found.metrics_of(weights)
    for draw in range(10):
        rates = np.array([
            weighted_rates(pairs, weights[:, draw], found.identities, t)
            for t in [*thresholds, -2]
        ])  # fmt: skip
        far, tar = rates.T
        for rate, name in ((0.1, "tar@far=1e-1"), (0.05, "tar@far=5e-2")):
            assert computed[name][draw] == pytest.approx(tar[far <= rate].max(), abs=1e-12)
        at = np.argmax(far >= 1 - tar)
        expected = min(far[at], 1 - tar[max(at - 1, 0)])
        assert computed["eer"][draw] == pytest.approx(expected, abs=1e-12)


def accuracies(by_kind, thresholds, folds):
    """Return the accuracy in these folds at each threshold; sorting counts the pairs up to it."""
    same, different = (np.sort(cosine[np.isin(fold, [*folds])]) for cosine, fold in by_kind)
    refused, rejected = (np.searchsorted(each, thresholds, "right") for each in (same, different))
    return ((len(same) - refused) / len(same) + rejected / len(different)) / 2


@pytest.mark.parametrize(("identities", "noise"), [(30, 1.1), (90, 1.6)])
def test_accuracy_is_that_of_a_threshold_tuned_on_the_other_folds(identities, noise):
    # of 90 identities, 5,760 similarities of different pairs may be thresholds
    found = people(identities, 4, noise=noise)
    pairs = found.verified
    folds = {int(f) for f in pairs.same.fold}
    assert folds == set(range(10))
    cosine = cosines_of(found)
    by_kind = [
        (cosine[each.first, each.second], each.fold) for each in (pairs.same, pairs.different)
    ]
    inside = by_kind[1][0][by_kind[1][1] >= 0]
    thresholds = np.append(np.sort(inside)[::-1], -2)
    expected = []
    for fold in sorted(folds):
        tuned = thresholds[np.argmax(accuracies(by_kind, thresholds, folds - {fold}))]
        expected.append(accuracies(by_kind, tuned, {fold}))
    assert value(found, "verification.accuracy") == pytest.approx(np.mean(expected), abs=1e-12)


def test_no_identity_is_in_two_folds_and_pairs_across_folds_have_none():
    pairs = people(23, 3).verified
    identity = people(23, 3).identities
    for each in (pairs.same, pairs.different):
        for fold in range(10):
            inside = {
                *identity[each.first[each.fold == fold]],
                *identity[each.second[each.fold == fold]],
            }
            others = {*identity[each.first[(each.fold != fold) & (each.fold >= 0)]]}
            assert not inside & others
    assert (pairs.different.fold == -1).any()


def test_kept_thresholds_are_the_references():
    one, other = people(noise=0.8), people(noise=0.8, moved=0.5)
    before, after = listed(one), listed(other)
    different = sorted((c for c, s, *_ in before if not s), reverse=True)
    threshold = different[int(0.01 * len(different))]
    assert sum(c > threshold for c in different) <= 0.01 * len(different)

    def rates(pairs):
        same = [c > threshold for c, s, *_ in pairs if s]
        return np.mean(same), np.mean([c > threshold for c, s, *_ in pairs if not s])

    measures = one.measures_of(other)
    kept = {name: float(each.of(ones(one))[0]) for name, each in measures.items()}
    assert kept["tar@far=1e-2.kept"] == pytest.approx(rates(after)[0] - rates(before)[0], abs=1e-12)
    assert kept["far@far=1e-2.kept"] == pytest.approx(rates(after)[1], abs=1e-12)


def test_many_thresholds_are_thinned_by_steps_in_the_number_accepted():
    scores = np.random.default_rng(0).normal(size=200_000)
    chosen = verification.thresholds_of(np.tanh(scores), exact=100, steps=50)
    ordered = np.sort(np.tanh(scores))[::-1]
    assert np.array_equal(chosen[:100], ordered[:100])
    accepted = np.searchsorted(-ordered, -chosen[:-1])
    assert (np.diff(accepted[100:]) <= accepted[100:-1] / 50 + 2).all()
    assert len(chosen) < 600
    assert chosen[-1] == verification.ACCEPT_ALL


def test_a_rate_that_so_few_pairs_cannot_resolve_has_a_reason():
    found = drift([people(8, 2)], [people(8, 2, moved=0.2)], draws=SharedDraws(50))
    assert found.metrics["tar@far=1e-1"].value is not None  # 112 different pairs
    for name in ("tar@far=1e-2", "tar@far=1e-2.kept", "far@far=1e-2.kept"):
        estimate = {**found.metrics, **found.measures}[name]
        assert estimate.value is None
        assert (
            estimate.reason
            == "a FAR of 0.01 is not resolvable with 112 different pairs; 300 are needed"
        )


@pytest.mark.parametrize(
    ("identities", "reason"),
    [
        (None, "the identities of the images are not known"),
        ([0] * 6, "there is no different pair: all images have one identity"),
        (range(6), "there is no same pair: no identity has two images"),
    ],
)
def test_without_pairs_every_metric_says_why(identities, reason):
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    one, other = (answers(each, identities) for each in (vectors, vectors + 0.1))
    found = drift([one], [other], draws=SharedDraws(20))
    assert found.metrics["eer"].value is None
    assert found.metrics["eer"].reason == reason
    assert found.metrics["verification.accuracy"].reason == reason
    assert found.measures["cosine"].value is not None
    assert found.figures == ()


def test_embeddings_without_direction_are_rejected_pairs():
    one = people(10, 3)
    vectors = one.vectors.copy()
    vectors[0], vectors[4] = np.nan, 0.0
    other = replace(one, vectors=vectors)
    assert other.finite().tolist() == [False] + [True] * 29
    lost = {0, 4}
    accepted = [c > -2 for c, s, a, b in listed(one) if s and not {a, b} & lost]
    assert value(other, "tar@far=1e-1") <= len(accepted) / 30
    side = other.verification
    assert (side.same == verification.NO_SIMILARITY).sum() == 4
    measures = one.measures_of(other)
    assert measures["cosine"].below.sum() == 28
    assert drift([one], [other], draws=SharedDraws(20)).non_finite == 1


def test_a_side_whose_different_pairs_lack_a_direction_has_no_threshold():
    """Five of forty identities have one: of 19,500 different pairs 250 can be compared."""
    one = people()
    vectors = one.vectors.copy()
    vectors[25:] = 0
    other = replace(one, vectors=vectors)
    assert (other.verification.different > verification.NO_SIMILARITY).sum() == 250
    # before, the threshold of any FAR above 250 / 19,500 accepted every pair
    assert other.verification.rates == (0.1,)
    for sides in ((one, other), (other, one)):
        found = drift(*([each] for each in sides), draws=SharedDraws(50))
        reason = "a FAR of 0.01 is not resolvable with 250 different pairs whose embeddings have a"
        assert found.metrics["tar@far=1e-2"].value is None
        assert found.metrics["tar@far=1e-2"].reason.startswith(reason)
        assert found.metrics["tar@far=1e-1"].value is not None
        assert [each.name for each in found.figures] == ["similarity", "roc"]
    assert value(other, "tar@far=1e-2") != value(other, "tar@far=1e-2")


def test_different_pairs_without_a_direction_do_not_count_and_same_ones_are_rejected():
    one, other = people(20, 4, noise=1.0), people(20, 4, noise=1.0, moved=0.4)
    lost = np.random.default_rng(3).random(80) < 0.4
    broken = replace(other, vectors=np.where(lost[:, None], np.nan, other.vectors))
    weights = np.concatenate(list(image_weights(80, one.groups(), 3, 0)), axis=1)
    computed, kept = broken.metrics_of(weights), one.measures_of(broken)
    first, second = np.triu_indices(80, 1)
    same = one.identities[first] == one.identities[second]
    gone = lost[first] | lost[second]
    before, after = (cosines_of(each)[first, second] for each in (one, other))
    for draw, own in enumerate(weights.T):
        weight = np.where(same, own[first], own[first] * own[second])

        def share(cosine, chosen, above, weight=weight):
            return weight[chosen & (cosine > above)].sum() / weight[chosen].sum()

        def tuned(cosine, different, share=share):
            return min(c for c in cosine[different] if share(cosine, different, c) <= 0.1)

        limit = tuned(after, ~same & ~gone)
        tar = weight[same & ~gone & (after > limit)].sum() / weight[same].sum()
        assert computed["tar@far=1e-1"][draw] == pytest.approx(tar)
        far = share(after, ~same & ~gone, tuned(before, ~same))
        assert kept["far@far=1e-1.kept"].of(weights)[draw] == pytest.approx(far)


def test_accuracy_leaves_out_different_pairs_that_could_not_be_compared():
    vectors = np.random.default_rng(0).normal(size=(16, 4))
    vectors[4:] = np.nan
    found = answers(vectors, np.repeat(np.arange(8), 2))
    # all that is known is of two identities: folds of two have a pair to compare in one at most
    assert np.isnan(value(found, "verification.accuracy"))
    assert "fewer than two folds" in found.undefined("verification.accuracy")


def test_tied_similarities_are_accepted_together():
    vectors = np.repeat(np.eye(2), 3, axis=0)
    found = answers(vectors, [0, 0, 1, 0, 1, 1], far=(0.4,))
    # same pairs: 1 of 3 each side has cosine 1; different: 4 of 9 have
    cosine, same = zip(*[(c, s) for c, s, *_ in listed(found)], strict=True)
    far, tar, _ = roc_curve(same, cosine, drop_intermediate=False)
    assert value(found, "tar@far=4e-1") == pytest.approx(tar[far <= 0.4].max())


def given(first, second, same, fold=None):
    first, second, same = np.array(first), np.array(second), np.array(same, bool)
    return Pairs(first, second, same, np.zeros(len(first), int) if fold is None else np.array(fold))


def test_given_pairs_are_compared_and_join_images_into_identities():
    vectors = [[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 1]]
    pairs = given([0, 2, 0, 1, 3], [1, 3, 2, 3, 4], [1, 1, 0, 0, 0])
    found = answers(vectors, pairs=pairs, far=(0.9,))
    assert len(set(found.groups())) == 3
    assert found.groups()[0] == found.groups()[1] != found.groups()[2] == found.groups()[3]
    cosine = cosines_of(found)
    assert found.verification.same == pytest.approx([cosine[0, 1], cosine[2, 3]])
    assert found.verification.different == pytest.approx([cosine[0, 2], cosine[1, 3], cosine[3, 4]])


def test_accuracy_of_given_folds_is_the_share_of_right_pairs():
    rng = np.random.default_rng(0)
    first = np.arange(0, 400, 2)
    same, fold = np.arange(200) % 2 == 0, np.repeat(np.arange(10), 20)
    vectors = rng.normal(size=(400, 8))
    vectors[1::2][same] = vectors[::2][same] + 0.9 * rng.normal(size=(100, 8))
    found = answers(vectors, pairs=given(first, first + 1, same, fold))
    cosine = np.diag(cosines_of(found)[first][:, first + 1])
    tried = np.append(np.sort(cosine[~same])[::-1], -2)
    expected = []
    for each in range(10):
        right = [((cosine > t) == same)[fold != each].mean() for t in tried]
        best = tried[int(np.argmax(right))]
        expected.append(((cosine > best) == same)[fold == each].mean())
    assert value(found, "verification.accuracy") == pytest.approx(np.mean(expected), abs=1e-12)


def test_drawn_pairs_are_as_many_as_asked_for_distinct_and_right():
    identities = np.repeat(np.arange(60), 10)
    pairs = drawn_pairs(identities, 2_000)
    assert not pairs.all_drawn
    assert len(pairs.different) == 2_000
    assert len(pairs.same) <= 2_000
    for each, same in ((pairs.same, True), (pairs.different, False)):
        assert ((identities[each.first] == identities[each.second]) == same).all()
        keys = {frozenset(pair) for pair in zip(each.first, each.second, strict=True)}
        assert len(keys) == len(each)
    assert drawn_pairs(identities, 2_000) is pairs
    every = drawn_pairs(identities, 10**6)
    assert (len(every.same), len(every.different)) == (60 * 45, 600 * 590 // 2)
    assert every.all_drawn


def test_nearly_all_different_pairs_are_drawn_without_one_twice():
    identities = np.repeat(np.arange(60), 10)
    pairs = drawn_pairs(identities, 170_000)  # of 177,000
    assert len(pairs.different) == 170_000
    assert (identities[pairs.different.first] != identities[pairs.different.second]).all()
    assert len(np.unique(pairs.different.first * 600 + pairs.different.second)) == 170_000


def test_comparisons_that_share_draws_are_those_that_do_not():
    one, *others = people(), people(moved=0.3), people(moved=0.6)
    draws = SharedDraws(300)
    for other in others:
        shared = drift([one], [other], draws=draws)
        # sides of their own, so that nothing is kept
        alone = drift([people()], [replace(other)], draws=SharedDraws(300))
        assert shared == alone


def test_images_without_an_identity_are_in_no_pair():
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    found = answers(vectors, [0, 0, 1, 1, -1, -1])
    assert len(found.verified.same) == 2
    assert len(found.verified.different) == 4
    assert len(set(found.groups())) == 4


@pytest.mark.slow
def test_intervals_of_identities_hold_the_truth_and_those_of_pairs_miss_it():
    rng = np.random.default_rng(5)
    shape = (1_500, 4, 16)
    before = rng.normal(size=(1_500, 1, 16)) + np.exp(
        rng.normal(-0.3, 0.5, (1_500, 1, 1))
    ) * rng.normal(size=shape)
    # some identities move much, with all of their images
    after = before + np.exp(rng.normal(-1.0, 0.8, (1_500, 1, 1))) * rng.normal(size=(1_500, 1, 16))

    def side(vectors):
        count = len(vectors)
        identities = np.repeat(np.arange(count), 4)
        return answers(vectors.reshape(count * 4, 16), identities, far=(0.1, 0.01), queries=1)

    def change(sides, weights):
        one, other = (each.metrics_of(weights)["tar@far=1e-1"] for each in sides)
        return other - one

    whole = [side(each) for each in (before, after)]
    truth = change(whole, ones(whole[0]))[0]
    held = np.zeros((100, 2), bool)
    for sample in range(100):
        chosen = rng.choice(1_500, 30, replace=False)
        sides = [side(each[chosen]) for each in (before, after)]
        draws = np.concatenate([
            change(sides, each) for each in image_weights(120, sides[0].groups(), 200, sample)
        ])  # fmt: skip
        limits = [each.verification.tuned(ones(sides[0])) for each in sides]
        accepted = [
            (each.verification.same > each.verification.thresholds[found.places[0, 0]]).astype(
                float
            )
            for each, found in zip(sides, limits, strict=True)
        ]
        gained = accepted[1] - accepted[0]
        by_pair = gained[rng.integers(0, len(gained), (200, len(gained)))].mean(axis=1)
        for at, found in enumerate((draws, by_pair)):
            low, high = np.quantile(found, [0.025, 0.975])
            held[sample, at] = low <= truth <= high
    identities, pairs = held.mean(axis=0)
    assert identities >= 0.88
    assert pairs < identities - 0.05


def test_sums_of_pairs_are_exact_beyond_what_float32_counts():
    """In float32 the sum of 2^24 and an odd number is an even one."""
    weights = np.array([[255], [255], [1]], np.float32)
    groups = np.arange(3)
    units = Units.of(weights, groups)
    many = 2048 * 255**2 // 255**2
    first = np.concatenate([np.zeros(many, int), [0, 1]])
    second = np.concatenate([np.ones(many, int), [2, 2]])
    bins = np.zeros(len(first), int)
    expected = many * 255**2 + 255 + 255
    assert expected > 2**24
    assert total_weight(first, second, groups, units)[0] == expected
    assert BinnedPairs.of(first, second, groups, bins, 1).sums(units)[0, 0] == expected
    # same pairs of one group each, in one product
    inside = np.zeros(70_000, int)
    same = np.append(inside, 2)
    pairs = BinnedPairs.of(same, same, groups, np.zeros(len(same), int), 1)
    assert pairs.sums(units)[0, 0] == 70_000 * 255 + 1 > 2**24
    assert total_weight(same, same, groups, units)[0] == 70_000 * 255 + 1
    # of images apart, each pair of two groups is added before it is multiplied
    apart = np.append(inside, 1)
    assert total_weight(apart, np.full(len(apart), 2), groups, units)[0] == 70_001 * 255
