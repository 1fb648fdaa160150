"""Prediction shared by ranks, which are threads here: same records, and no rank left waiting."""

from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier, Thread

import numpy as np
import pytest

from alignkit.errors import AlignkitError, BackendError
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.rank_sessions import serve, shared_records
from alignkit.predict.session_inputs import Tensors, records_of
from alignkit.tasks import ClassMap
from alignkit.tasks.score import OwnScore
from tests.training_case import digits_case

COUNT, BATCH, WORLD = 22, 4, 3  # six batches, the last of two images: two rounds
SCORES = """
def bright(outputs, sample):
    return float(outputs["output"].mean()) + len(sample.id)

def changed(a, b):
    return True

def fails(outputs, sample):
    if sample.id == "{}":
        raise IndexError("no such keypoint")
    return 0.0
"""


class Group:
    """What the ranks exchange."""

    def __init__(self, world):
        self.world = world
        self.barrier = Barrier(world, timeout=300)
        self.values = [None] * world
        self.gathered = []


class ThreadRank:
    """A rank that is a thread."""

    def __init__(self, group, number):
        self.group, self.number, self.world = group, number, group.world

    def _exchange(self, value):
        self.group.values[self.number] = value
        self.group.barrier.wait()
        values = [*self.group.values]
        self.group.barrier.wait()
        return values

    def broadcast(self, value):
        return self._exchange(value)[0]

    def gather(self, value):
        if self.number == 0:
            self.group.gathered.append(value)
        return self._exchange(value)


class Means:
    """A session whose output for an image is a thumbnail of it; it fails where it is told to."""

    def __init__(self, fails=None):
        self.fails = fails

    def predict(self, batch):
        if self.fails is not None and np.array_equal(batch[0], self.fails):
            raise BackendError("this batch breaks")
        return (batch[:, :, ::8, ::8].copy(),)


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = digits_case(first=900, count=COUNT)
    np.save(tmp_path / "pixels.npy", made.prepared.pixels)
    sides = np.tile(np.array([32, 32, 1], np.int32), (COUNT, 1))
    prepared = replace(
        made.prepared,
        map_pixels=lambda: np.load(tmp_path / "pixels.npy", mmap_mode="r"),
        sources=sides,
    )
    (tmp_path / "scores.py").write_text(SCORES.format(made.samples.ids[9]))

    def inputs():
        return Tensors(prepared, prepared.decoded, made.training.preprocess, (3, 32, 32))

    return made.samples, inputs


def shared(monkeypatch, case, task, session, world=WORLD):
    """Predict with a group; return what rank 0 gathered, its records or error, and the digest."""
    samples, inputs = case

    @contextmanager
    def opened(*_):
        if isinstance(session, Exception):
            raise session
        yield session

    monkeypatch.setattr("alignkit.predict.open_session", opened)
    group, own = Group(world), inputs()
    followers = [
        Thread(target=serve, args=(ThreadRank(group, number), None, None, None))
        for number in range(1, world)
    ]
    for each in followers:
        each.start()
    leader = ThreadRank(group, 0)
    decoder = AnswerDecoder(task, ClassMap(()))
    leading = Means() if isinstance(session, Exception) else session
    try:
        found = shared_records(leader, leading, own, decoder, samples, BATCH)
    except AlignkitError as error:
        found = error
    leader.broadcast(None)  # no more cells
    for each in followers:
        each.join(60)
        assert not each.is_alive()
    return group.gathered, found, own.digest()


def test_ranks_give_the_records_and_the_hash_of_a_single_process(case, monkeypatch):
    samples, inputs = case
    task, alone = OwnScore("scores.py:bright", changed="scores.py:changed"), inputs()
    expected = records_of(Means(), alone, AnswerDecoder(task, ClassMap(())), samples, BATCH)
    gathered, found, digest = shared(monkeypatch, case, task, Means())
    assert digest == alone.digest()
    assert len(gathered) == 2
    for one, other in zip(found.records, expected.records, strict=True):
        assert one.values.tobytes() == other.values.tobytes()
        assert all(map(np.array_equal, one.kept, other.kept))
    np.testing.assert_array_equal(found.first[0], expected.first[0])


@pytest.mark.parametrize("world", [2, 7])
def test_a_last_round_may_have_fewer_batches_than_ranks(case, monkeypatch, world):
    _, found, _ = shared(monkeypatch, case, OwnScore("scores.py:bright"), Means(), world)
    assert [type(each).__name__ for each in found.records] == ["ScoreRecord"] * COUNT


@pytest.mark.parametrize("image", [9, 21])
def test_a_function_that_fails_ends_the_cell_on_every_rank(case, monkeypatch, tmp_path, image):
    (tmp_path / "scores.py").write_text(SCORES.format(case[0].ids[image]))
    _, found, _ = shared(monkeypatch, case, OwnScore("scores.py:fails"), Means())
    assert isinstance(found, AlignkitError)
    assert "scores.py:fails raised IndexError: no such keypoint" in str(found)


def test_a_batch_that_fails_on_a_rank_ends_the_cell_on_every_rank(case, monkeypatch):
    _, inputs = case
    for number, start in enumerate((12, 16, 20)):
        session = Means(fails=inputs().part(start, start + 1, count=False)[0])
        gathered, found, _ = shared(monkeypatch, case, OwnScore("scores.py:bright"), session)
        assert str(found) == f"rank {number}: this batch breaks"
        assert len(gathered) == 2


def test_a_rank_whose_session_does_not_open_ends_the_cell_in_the_first_round(case, monkeypatch):
    error = BackendError("no GPU is left")
    gathered, found, _ = shared(monkeypatch, case, OwnScore("scores.py:bright"), error)
    assert str(found) == "rank 1: no GPU is left"
    assert len(gathered) == 1
