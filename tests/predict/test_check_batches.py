"""Single images compared with the same images in batches, also where the sizes of inputs vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.predict.check_batches import check_batches
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.places import UnknownPlaces
from alignkit.predict.session_inputs import records_of
from alignkit.prepare import Prepared
from alignkit.tasks import ClassMap
from alignkit.tasks.multi_label import MultiLabel
from tests.task_case import NAMES, labels_of, samples_of

WIDE, TALL = (32, 64), (64, 32)


@dataclass
class Rectangles:
    """Images of noise whose rectangles vary, as a path with a rectangular letterbox gives them."""

    sizes: list[tuple[int, int]]

    def __len__(self):
        return len(self.sizes)

    @property
    def indices(self):
        return np.arange(len(self))

    def part(self, start, stop, *, count):
        del count
        images = [
            np.random.default_rng(index).normal(size=(3, *self.sizes[index])).astype(np.float32)
            for index in range(start, stop)
        ]
        return np.stack(images)

    def places(self, start, stop):
        return UnknownPlaces(stop - start)

    def spans(self, size):
        prepared = object.__new__(Prepared)
        object.__setattr__(prepared, "sizes", np.array(self.sizes))
        return prepared.spans(range(len(self)), size)

    def digest(self):
        return ""


@dataclass
class Session:
    """The mean of each channel, and an error of every image in a batch of several."""

    error: float

    def predict(self, batch):
        means = batch.mean(axis=(2, 3)) * 100
        return (means + np.float32(self.error * (len(batch) > 1)),)


def checked(sizes, batch_size=4, error=0.0):
    inputs, session = Rectangles(sizes), Session(error)
    ids = [f"{index}.jpg" for index in range(len(sizes))]
    samples = samples_of(ids, labels_of(np.zeros((len(sizes), 3), bool)))
    decoder = AnswerDecoder(MultiLabel(), ClassMap(NAMES))
    raw = records_of(session, inputs, decoder, samples, batch_size)
    answers = decoder.answers(ids, raw.records, samples)
    return check_batches(session, inputs, decoder, raw, answers, samples, batch_size)


def test_a_first_image_without_another_of_its_size_has_a_reason():
    found = checked([WIDE, TALL, TALL, WIDE])
    assert (found.images, found.max_abs, found.flips) == (0, None, 0)
    assert found.reason == "the first batch held one image, as no other beside it has its size"


@pytest.mark.parametrize(("sizes", "images"), [
    ([WIDE, WIDE, TALL, TALL, TALL], 2), ([TALL] * 3, 3), ([TALL] * 9, 4),
])  # fmt: skip
def test_the_neighbours_of_the_first_images_size_are_compared(sizes, images):
    found = checked(sizes)
    assert (found.images, found.batch) == (images, min(4, len(sizes)))
    assert (found.max_abs, found.flips, found.reason) == (0, 0, "")
    moved = checked(sizes, error=0.25)
    assert moved.max_abs == pytest.approx(0.25, abs=1e-5)


def test_batches_of_one_image_have_nothing_to_compare_with():
    found = checked([WIDE] * 3, batch_size=1)
    assert found.reason == "a batch holds one image: there is no other size to compare with"
