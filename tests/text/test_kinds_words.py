"""The kinds of images that alone decode to other pixels, in words."""

import random

from alignkit.preprocess.image_kinds import kinds_order
from alignkit.record.diff_document import DistanceFacts, KindDrift, PairDiff
from alignkit.text.diff_words import ending, kinds_words

NBSP = "\N{NO-BREAK SPACE}"


def kind(name, share, dimension="subsampling"):
    differing = round(1000 * share)
    facts = DistanceFacts(
        images=3, pixels=1000, differing_pixels=differing,
        sum_abs=differing, sum_squares=differing, max_abs=float(share > 0),
    )  # fmt: skip
    return KindDrift(dimension=dimension, kind=name, images=3, decode=facts, last=facts)


def pair(*kinds):
    return PairDiff(reference="a", candidate="b", state="measured", kinds=kinds)


def test_kinds_that_alone_differ_at_decode_are_named_with_those_that_do_not():
    found = pair(kind("4:2:0", 0.319), kind("4:4:4", 0.0), kind("grey", 0.0))
    words = f"pixels that differ at decode: 31.9{NBSP}% in 4:2:0; none in 4:4:4 and grey"
    assert kinds_words(found) == words
    assert ending(found)[0] == words


def test_nothing_is_said_where_all_kinds_differ_or_none():
    assert kinds_words(pair(kind("4:2:0", 0.3), kind("4:4:4", 0.1))) == ""
    assert kinds_words(pair(kind("4:2:0", 0.0), kind("4:4:4", 0.0))) == ""
    assert kinds_words(pair()) == ""


def test_classes_of_a_size_keep_their_order_and_others_go_by_their_images():
    qualities = ["below 70", "70 to 79", "80 to 89", "90 to 94", "95 to 100", "unknown"]
    mixed = random.Random(0).sample(qualities, len(qualities))
    assert sorted(mixed, key=lambda each: kinds_order(each, 5)) == qualities
    images = {"4:4:4": 2, "4:2:0": 9}
    assert sorted(images, key=lambda each: kinds_order(each, images[each])) == ["4:2:0", "4:4:4"]
