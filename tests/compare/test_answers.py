"""`Answers`: how little a task must say to be compared."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.answers import Answers
from alignkit.errors import DataError


@dataclass(frozen=True, eq=False)
class Lengths(Answers):
    """The least of a task: a number an image."""

    ids: tuple[str, ...]
    metres: np.ndarray
    classes: tuple[str, ...] = ()
    labelled = True
    metric_names = ("metres",)

    def finite(self):
        return np.isfinite(self.metres)

    def rows(self, indices):
        ids = tuple(self.ids[index] for index in indices)
        return replace(self, ids=ids, metres=self.metres[indices])

    def unlike(self, other):
        return ""

    def tallies(self):
        return self

    def metrics_of(self, weights):
        return {"metres": self.metres @ weights / weights.sum(axis=0)}

    def changed(self, other):
        return self.metres != other.metres

    def quality(self):
        return -self.metres

    def apart(self, other):
        return np.abs(self.metres - other.metres)

    def said(self, index):
        return f"{self.metres[index]} m"

    def to_parquet(self, path, **besides):
        raise AssertionError("a comparison writes no answers")

    @classmethod
    def from_parquet(cls, path):
        raise AssertionError("a comparison reads no answers")


def test_answers_with_the_least_of_members_are_compared():
    before = Lengths(("a", "b", "c", "d"), np.array([1.0, 2.0, 3.0, 4.0]))
    found = drift([before], [replace(before, metres=np.array([1.0, 2.0, 3.0, 6.0]))])
    assert found.metrics["metres"].value == pytest.approx(0.5)
    assert found.churn.value == pytest.approx(0.25)
    assert (found.right_to_wrong, found.wrong_to_right, found.wrong_to_wrong) == (1, 0, 0)
    assert (found.measures, found.classes) == ({}, ())
    assert found.logits.mean_abs is None
    assert found.logits.reason == Lengths.no_logits
    assert before.columns_beside(before) == {"runtime_apart": pytest.approx(np.zeros(4))}


def test_answers_without_a_needed_member_are_not_made():
    class Silent(Answers):
        ids = ("a",)
        classes = ()

    with pytest.raises(TypeError, match="abstract"):
        Silent()


def test_an_id_belongs_to_one_image():
    with pytest.raises(DataError, match="ids of answers must be unique"):
        Lengths(("a", "a"), np.zeros(2))
