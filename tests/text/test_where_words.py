"""A located difference in words."""

import pytest

from alignkit.record import Estimate, Mechanism, SpatialFacts
from alignkit.record.blame_facts import DisplacementFacts, LevelMap, PixelMechanism
from alignkit.record.diff_document import PairDiff
from alignkit.text.diff_words import ending
from alignkit.text.where_words import confirmation, displacement_sentence, mechanism_sentence

EXACT, NO_SHIFT = Estimate(1.0, 0.9999, 1.0001), Estimate(0.0, -0.01, 0.01)


def facts(*mechanisms, stage="resize", **values):
    return SpatialFacts(
        reference="ours",
        candidate="theirs",
        stage=stage,
        images=1000,
        drawn=32,
        map=LevelMap(rows=1, columns=2, greatest=5, cells="00ff"),
        mechanisms=mechanisms,
        **values,
    )


def mechanism(name, by="candidate"):
    return PixelMechanism(name=name, by=by, measured=Estimate(8.0, 5.0, 11.0))


def moved(**values):
    still = {"scale_x": EXACT, "scale_y": EXACT, "shift_x": NO_SHIFT, "shift_y": NO_SHIFT}
    return DisplacementFacts(**{**still, "share": 0.62, **values})


@pytest.mark.parametrize(
    ("name", "by", "begins"),
    [
        ("corners", "candidate", "resize: theirs lays its grid through the centres of the corner"),
        ("corners", "reference", "resize: ours lays its grid through the centres of the corner"),
        ("antialias", "reference", "resize: ours filters when it shrinks an image (antialias)"),
        ("chroma", "candidate", "resize: theirs repeats the samples of chroma, ours interpolates"),
        ("half_pixel_or_asymmetric", "candidate", "resize: the grid of theirs lies half an output"),
        ("half_pixel", "candidate", "resize: the grid of theirs lies half an output pixel away"),
    ],
)
def test_the_side_that_does_it_is_named_with_the_remainder(name, by, begins):
    sentence = mechanism_sentence(facts(mechanism(name, by), before=7.27, after=0.425))
    assert sentence.startswith(begins)
    ends = "without it, 0.42 of 7.27 levels (luma's RMS about the mean) remain, over 32 that differ, of 1\u00a0000\u00a0images"
    assert sentence.endswith(ends)


def test_the_remainder_of_a_decode_is_of_all_channels():
    found = facts(mechanism("chroma"), stage="decode", before=7.27, after=0.425)
    assert "0.42 of 7.27 levels (RMS about the mean) remain" in mechanism_sentence(found)


def test_two_mechanisms_share_a_sentence():
    found = facts(mechanism("corners"), mechanism("antialias", "reference"), before=9, after=1)
    assert ") and ours filters" not in mechanism_sentence(found)
    assert "edges of the image and ours filters when it shrinks" in mechanism_sentence(found)
    assert "without them, 1.00 of 9.00 levels" in mechanism_sentence(found)


def test_nothing_is_said_to_remain_where_it_cannot_be_taken_out():
    sentence = mechanism_sentence(facts(mechanism("inverse_dct", ""), stage="decode", before=2))
    assert "theirs and ours differ in the inverse DCT" in sentence
    assert "8.0 ± 3.0 times" in sentence
    assert "pixels do not tell how much remains" in sentence
    sentence = mechanism_sentence(facts(mechanism("half_pixel"), displacement=moved()))
    assert "without shift and scale, 38\u00a0% of the smoothed luma's power remains" in sentence


def test_no_mechanism_has_no_sentence():
    assert mechanism_sentence(facts(before=3)) == ""


def test_a_displacement_is_given_with_its_intervals_and_remainder():
    found = facts(displacement=moved(scale_x=Estimate(0.9979, 0.9974, 0.9984)))
    sentence = displacement_sentence(found)
    assert "0.9979 ± 0.0005 across" in sentence
    assert (
        "removes 62\u00a0% of the smoothed luma difference's power; 38\u00a0% remains" in sentence
    )


def test_a_displacement_that_explains_nothing_says_so():
    slight = displacement_sentence(facts(displacement=moved(share=0.003)))
    assert "1.0000 ± 0.0001 across, 1.0000 ± 0.0001 down; shift 0 ± 0.01 px right" in slight
    assert "removes <1\u00a0% of the smoothed luma difference's power; >99\u00a0% remains" in slight
    assert displacement_sentence(facts()) == ""


def test_the_pixels_confirm_the_options_or_do_not():
    corners, chroma = ("corners", "candidate"), ("chroma", "candidate")
    shown = [facts(mechanism("corners"))]
    assert confirmation([corners], shown) == "the pixels show it too"
    assert confirmation([chroma], shown) == "the pixels alone do not show it"
    assert confirmation([chroma, corners], shown) == "the pixels show only a part of it"
    both = [*shown, facts(mechanism("chroma"), stage="decode")]
    assert confirmation([chroma, corners], both) == "the pixels show it too"
    assert confirmation([], shown) == ""


def test_the_pixels_do_not_confirm_another_side_or_what_they_never_show():
    shown = [facts(mechanism("corners", "reference"))]
    assert confirmation([("corners", "candidate")], shown) == "the pixels alone do not show it"
    part = confirmation([("corners", "reference"), None], shown)
    assert part == "the pixels show only a part of it"
    assert confirmation([None], shown) == ""


def test_a_mechanism_that_the_pixels_confirm_is_said_once():
    known = Mechanism(
        sentence="b filters, a does not", evidence="", images=16, before=4.0, after=0.4,
        shown_as=(("antialias", "candidate"),),
    )  # fmt: skip
    found = [facts(mechanism("antialias")), facts(mechanism("chroma"), stage="decode")]
    pair = PairDiff.model_construct(mechanism=known, spatial=found, causes=(), kinds=(), matter=())
    why, other = ending(pair)
    assert why.endswith("; the pixels show it too")
    assert other.startswith("seen in the pixels: decode: ")
