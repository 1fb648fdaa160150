"""Copies of one file are one draw: of any task, and beside groups of another kind."""

import hashlib
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from alignkit.compare import drift, drift_change
from alignkit.compare.bootstrap import SharedDraws, joined_groups
from alignkit.compare.weighted_estimates import weighted_estimates
from alignkit.datasets.unlabelled_images import Images
from alignkit.errors import UnreadableImage
from alignkit.samples import HeldImages, JoinedReads, Samples, copies_of
from alignkit.tasks.embedding.retrieval import CELLS
from tests.compare.test_few_images_a_class import answers, sides
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


def held(*images):
    return Samples(tuple(map(str, range(len(images)))), (), (), HeldImages(images), "0" * 64)


def broken(index):
    if index == 1:
        raise UnreadableImage("1", "torn")
    return b"same"


def test_copies_are_found_by_their_bytes_wherever_they_lie(tmp_path):
    assert copies_of(held(b"x", b"y", b"x", b"x", b"z", b"y")) == {"2": "0", "3": "0", "5": "1"}
    one = held(b"x", b"y")
    joined = JoinedReads((one.read, held(b"y").read), ((0, 0), (0, 1), (1, 0)))
    assert copies_of(replace(held(b"1", b"2", b"3"), read=joined)) == {"2": "1"}
    # an image that cannot be read is a copy of none
    assert copies_of(Samples(("0", "1", "2"), (), (), broken, "0" * 64)) == {"2": "0"}
    for name, data in {"a.jpg": b"1", "b.jpg": b"2", "c.jpg": b"1"}.items():
        (tmp_path / name).write_bytes(data)
    found = Images(tmp_path).evaluation()
    assert copies_of(found) == {"c.jpg": "a.jpg"}
    assert copies_of(found.take([2, 1])) == {}
    assert found.read.sha256s()[1] == hashlib.sha256(b"2").hexdigest()


def test_copies_in_an_archive_are_found_without_reading_it_again(tmp_path):
    for name, data in {"a.jpg": b"1", "b.jpg": b"1"}.items():
        (tmp_path / name).write_bytes(data)
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        for name in ("a.jpg", "b.jpg"):
            archive.add(tmp_path / name, name)
    found = Images(tmp_path / "images.tar").evaluation()
    assert [*copies_of(found).values()] == [found.ids[0]]
