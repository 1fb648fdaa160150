"""Copies of one image are one draw: of any task, and beside groups of another kind."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.compare import drift, drift_change
from alignkit.compare.bootstrap import SharedDraws, joined_groups
from alignkit.decoders import digest_of
from alignkit.decoders.pillow import PillowDecoder
from alignkit.samples import copies_among
from alignkit.tasks.embedding.retrieval import CELLS
from alignkit.tasks.embedding.retrieval_facts import weighted_estimates
from tests.compare.test_few_images_a_class import answers, sides
from tests.photos import encoded, exif, photo
from tests.tasks.boxes_at_random import random_answers
from tests.tasks.embedding_case import people


def drifts(draws_of):
    labels, before, after = sides(np.random.default_rng(4), 20, 3, 0.1, 0.03)
    once = [answers(labels, each, 20) for each in (before, after)]
    many = [answers(np.repeat(labels, 10), np.repeat(each, 10), 20) for each in (before, after)]
    copies = {str(at): str(at // 10 * 10) for at in range(600) if at % 10}
    return once, many, draws_of(copies)


def test_a_change_that_no_copy_shows_may_be_as_large_as_one_that_no_file_shows():
    once, many, draws = drifts(lambda copies: SharedDraws(500, copies=copies))
    plain = drift([once[0]], [once[0]], draws=SharedDraws(500))
    copied = drift([many[0]], [many[0]], draws=draws)
    assert "unseen" in plain.metrics["recall.macro"].reason
    assert copied.metrics["recall.macro"].reason == plain.metrics["recall.macro"].reason
    assert [each.recall.reason for each in copied.classes] == [
        each.recall.reason for each in plain.classes
    ]


def test_a_set_of_copies_has_the_intervals_and_tests_of_its_files():
    once, many, draws = drifts(lambda copies: SharedDraws(500, copies=copies))
    plain = drift([once[0]], [once[1]], draws=SharedDraws(500))
    copied = drift([many[0]], [many[1]], draws=draws)
    blind = drift([many[0]], [many[1]], draws=SharedDraws(500))
    assert (copied.n, copied.groups) == (600, 60)
    assert copied.mcnemar_p == plain.mcnemar_p
    # the files are drawn in another order
    assert copied.p_values == pytest.approx(plain.p_values, rel=0.1)
    for name in ("top1", "recall.macro", "precision.macro", "f1.macro"):
        ours, expected = copied.metrics[name], plain.metrics[name]
        assert [ours.low, ours.high] == pytest.approx([expected.low, expected.high], abs=0.02)
        assert blind.metrics[name].high - blind.metrics[name].low < 0.5 * (ours.high - ours.low)


def test_changes_of_drifts_draw_copies_together():
    _, many, draws = drifts(lambda copies: SharedDraws(400, copies=copies))
    expected = drift([many[0]], [many[1]], draws=draws)
    assert expected.groups == 60
    both = ([many[0]], [many[0]]), ([many[0]], [many[1]])
    change = drift_change(*both, ("churn",), draws=draws)["churn"].change
    assert [change.low, change.high] == pytest.approx([expected.churn.low, expected.churn.high])


def test_copies_of_boxes_are_drawn_together():
    before, after = random_answers(1, images=20), random_answers(2, images=20)
    after = replace(after, truth=before.truth)
    twice = [each.rows(np.arange(20)) for each in (before, after)]
    copies = dict.fromkeys(before.ids[1:], before.ids[0])
    assert drift([twice[0]], [twice[1]], draws=SharedDraws(100, copies=copies)).groups == 1
    few = {before.ids[1]: before.ids[0]}
    assert drift([twice[0]], [twice[1]], draws=SharedDraws(100, copies=few)).groups == 19


def test_a_copy_joins_its_identity_with_that_of_its_file():
    found = people(6, 3)
    other = replace(found, vectors=found.vectors + np.float32(0.1))
    assert drift([found], [other], draws=SharedDraws(50)).groups == 6
    copies = {found.ids[3]: found.ids[0], found.ids[6]: found.ids[4]}
    assert drift([found], [other], draws=SharedDraws(50, copies=copies)).groups == 4


def test_the_tables_of_a_search_draw_copies_together_too():
    found = people(6, 3)
    moved = np.random.default_rng(0).normal(size=found.vectors.shape).astype(np.float32)
    other = replace(found, vectors=found.vectors + moved)
    copies = {found.ids[3]: found.ids[0], found.ids[6]: found.ids[4]}
    table = drift([found], [other], draws=SharedDraws(50, copies=copies)).tables[1]
    search, groups = found.retrieval(other), joined_groups(found.ids, found.groups(), copies)
    recall = {"recall": search.recall(CELLS[1], 1)}
    by_files = weighted_estimates([recall], len(found), groups)["recall"]
    by_people = weighted_estimates([recall], len(found), found.groups())["recall"]
    cell = table.rows[0].cells[1]
    assert (cell.low, cell.high) == (by_files.low, by_files.high)
    assert (cell.low, cell.high) != (by_people.low, by_people.high)


@pytest.mark.parametrize(
    ("groups", "copies", "expected"),
    [
        (None, {}, None),
        (None, {"z": "y"}, None),
        (None, {"b": "a"}, [0, 0, 1, 2]),
        (None, {"b": "a", "c": "a", "d": "a"}, [0, 0, 0, 0]),
        (None, {"c": "gone", "d": "gone"}, [0, 1, 2, 2]),
        ([0, 0, 1, 1], {}, [0, 0, 1, 1]),
        ([0, 0, 1, 2], {"d": "b"}, [0, 0, 1, 0]),
        ([0, 1, 2, 2], {"b": "a", "c": "b"}, [0, 0, 1, 1]),
    ],
)
def test_groups_and_copies_are_joined(groups, copies, expected):
    own = None if groups is None else np.array(groups)
    found = joined_groups(("a", "b", "c", "d"), own, copies)
    if expected is None:
        assert found is None
        return
    same = np.equal.outer(found, found)
    assert np.array_equal(same, np.equal.outer(expected, expected))
    assert {*found} == {*range(len({*expected}))}


IMAGE = photo("flower", 60, 90)
JPEG = encoded(IMAGE, quality=85)
PIXELS = np.asarray(Image.open(io.BytesIO(JPEG)).convert("RGB"))


def changed(pixels, at):
    other = pixels.copy()
    other[at] ^= 1
    return other


def segment(marker, content):
    """The file with another segment, behind the first two bytes."""
    return JPEG[:2] + bytes((255, marker)) + (len(content) + 2).to_bytes(2) + content + JPEG[2:]


ALIKE = {
    "trailing bytes": JPEG + b"\x00\x07",
    "a comment": segment(0xFE, b"made"),
    "EXIF without a turn": segment(0xE1, exif(1)),
    "a segment of a program's own": segment(0xED, b"made by a test"),
    "PNG": encoded(PIXELS, "PNG"),
    "BMP": encoded(PIXELS, "BMP"),
    "TIFF": encoded(PIXELS, "TIFF"),
}
UNLIKE = {
    "the first value": changed(PIXELS, (0, 0, 0)),
    "the last value": changed(PIXELS, (-1, -1, -1)),
    "a value in the middle": changed(PIXELS, (30, 45, 1)),
    "one column less": PIXELS[:, 1:],
    "mirrored": PIXELS[:, ::-1],
    "channels swapped": PIXELS[..., ::-1],
    "the same bytes as other rows": PIXELS.reshape(PIXELS.shape[1], PIXELS.shape[0], 3),
    "black": np.zeros_like(PIXELS),
    "black, another shape": np.zeros((PIXELS.shape[1], PIXELS.shape[0], 3), np.uint8),
    "black, and a row more": np.zeros((PIXELS.shape[0] + 1, PIXELS.shape[1], 3), np.uint8),
}


@pytest.mark.parametrize("name", ALIKE)
def test_files_of_the_same_pixels_have_one_digest(name):
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(ALIKE[name])).convert("RGB")), PIXELS)
    assert PillowDecoder().decode(ALIKE[name]).digest == digest_of(PIXELS)


def test_images_that_differ_have_digests_that_differ():
    arrays = [PIXELS, *UNLIKE.values()]
    assert len({digest_of(each) for each in arrays}) == len(arrays)
    # in any one place, whatever the place, and several times the words that are weighted at a time
    large = np.random.default_rng(0).integers(0, 256, (301, 500, 3), np.uint8)
    places = np.random.default_rng(1).integers(0, large.size, 2000)
    found = set()
    for place in np.unique(places):
        large.reshape(-1)[place] ^= 128
        found.add(digest_of(large))
        large.reshape(-1)[place] ^= 128
    assert len(found) == len(np.unique(places))
    assert PillowDecoder().decode(b"no image").digest == ""


def test_the_first_image_of_each_picture_is_no_copy():
    assert copies_among("012345", "xyxxzy") == {"2": "0", "3": "0", "5": "1"}
    # an image without pixels is a copy of none
    assert copies_among("012", ("", "s", "")) == {}
    assert copies_among("012", ()) == {}
