"""The contract in `alignkit.tasks` as tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import TypeAdapter

from alignkit.annotations import Boxes, LabelSet, Mask
from alignkit.compare.answers import Answers
from alignkit.errors import ConfigError
from alignkit.predict.decoder import KeptRecords
from alignkit.preprocess.geometry import Geometry
from alignkit.samples import HeldImages, Samples, Truth
from alignkit.tasks import ClassMap, OutputShape, Task
from alignkit.text.task_words import TaskWords

if TYPE_CHECKING:
    from alignkit.tasks import Outputs

_CLASSES, _IMAGES = ("ant", "bee", "cow"), 6
_WIDTH, _HEIGHT, _INPUT, _ANCHORS = 40, 30, 32, 50
_PLACE = Geometry(
    width=_WIDTH, height=_HEIGHT, input_width=_INPUT, input_height=_INPUT,
    scale_x=_INPUT / _WIDTH, scale_y=_INPUT / _HEIGHT, shift_x=0.0, shift_y=0.0,
)  # fmt: skip
_SIDES = (len(_CLASSES),), (len(_CLASSES), 16, 16), (4 + len(_CLASSES), _ANCHORS)
"""Outputs of an image: scores, scores of pixels, and rows of a detector, in the order tried."""


def samples_of(kind: str) -> Samples:
    """Return images with random labels of a kind of `alignkit.samples.Truth`."""
    rng = np.random.default_rng(1)
    annotations: list[Boxes | Mask | LabelSet] = []
    for count in rng.integers(0, 4, _IMAGES):
        classes = np.sort(rng.choice(len(_CLASSES), count, replace=False))
        if kind == "boxes":
            corner = rng.uniform(0, 12, (count, 2))
            corners = np.hstack([corner, corner + rng.uniform(4, 16, (count, 2))])
            annotations.append(Boxes(corners, classes, np.zeros(count, np.bool_)))
        elif kind == "mask":
            values = rng.integers(0, len(_CLASSES), (_HEIGHT, _WIDTH), np.uint8)
            annotations.append(Mask(values.copy))
        elif kind == "labels":
            annotations.append(LabelSet(tuple(classes.tolist())))
    return Samples(
        ids=tuple(f"{index}.jpg" for index in range(_IMAGES)),
        labels=tuple(index % len(_CLASSES) for index in range(_IMAGES)) if kind == "class" else (),
        classes=_CLASSES if kind != "none" else (),
        read=HeldImages((b"",) * _IMAGES),
        fingerprint="",
        annotations=tuple(annotations),
    )


class TaskContract:
    """Tests of a task, on outputs and labels made here."""

    plugin: Task

    @cached_property
    def sides(self) -> tuple[int, ...]:
        """The outputs of an image that it accepts."""
        for sides in _SIDES:
            try:
                self.plugin.recognise((OutputShape("y", (None, *sides)),), len(_CLASSES))
            except ConfigError:
                continue
            return sides
        return pytest.skip("it accepts none of the outputs that are made here")

    @cached_property
    def samples(self) -> Samples:
        """Images with labels that it accepts."""
        return samples_of(next(each for each in get_args(Truth) if not self.plugin.refuses(each)))

    def outputs(self, seed: int = 0) -> Outputs:
        """Return the outputs of all images, made from ``seed``."""
        rng = np.random.default_rng(seed)
        if self.sides != _SIDES[2]:
            return (rng.normal(size=(_IMAGES, *self.sides)).astype(np.float32),)
        # centre, size and scores, as a detector gives them for each anchor
        parts = ((4, _INPUT - 4, 2), (4, 16, 2), (0, 1, len(_CLASSES)))
        rows = [rng.uniform(least, most, (_IMAGES, n, _ANCHORS)) for least, most, n in parts]
        return (np.concatenate(rows, axis=1).astype(np.float32),)

    def answers(
        self,
        outputs: Outputs,
        which: Sequence[int] = range(_IMAGES),
        samples: Samples | None = None,
    ) -> Answers:
        """Decode the outputs of some images as one batch."""
        samples = samples or self.samples
        classes = ClassMap(samples.classes, () if samples.classes else _CLASSES)
        batch, shown = tuple(each[list(which)] for each in outputs), samples.take(which)
        kept = KeptRecords(len(shown))
        records = self.plugin.decode(batch, [_PLACE] * len(shown), classes)
        kept.put(0, self.plugin.keep(records, shown))
        # a runtime may use its memory again
        for each in batch:
            each[:] = 0
        return self.plugin.answers(shown.ids, kept.all, samples, classes)

    @cached_property
    def pair(self) -> tuple[Answers, Answers]:
        """Its answers to all images, and those to other outputs of the same images."""
        return self.answers(self.outputs()), self.answers(self.outputs(seed=2))

    def test_is_a_frozen_dataclass_that_refuses_what_it_cannot_decode(self) -> None:
        whole: Any = self.plugin
        assert whole.__dataclass_params__.frozen
        json.dumps(asdict(whole))
        with pytest.raises(ConfigError, match=r"\w"):
            whole.recognise((), len(_CLASSES))

    def test_describes_its_metrics_measures_and_matrices(self) -> None:
        facts, answers = self.plugin.facts(), self.pair[0]
        stored = TypeAdapter(type(facts))
        assert stored.validate_json(stored.dump_json(facts)) == facts
        metrics, measures = (
            {each.name for each in part} for part in (facts.metrics, facts.measures)
        )
        assert metrics == {*answers.metric_names}
        # a measure with a metric's name is its paired change
        assert measures == {*answers.measures_of(answers)} - metrics
        assert {"churn"} <= {*facts.matrices} <= metrics | measures | {"churn"}
        computed = answers.metrics_of(_ones())
        assert metrics <= {*computed}
        for each in facts.class_metrics:
            assert computed[each.name].shape == (len(_CLASSES), 1), each.name

    def test_gives_one_record_an_image_whatever_the_batch(self) -> None:
        answers = self.pair[0]
        assert answers.ids == self.samples.ids
        for index in range(_IMAGES):
            alone, same = self.answers(self.outputs(), [index]), answers.rows(np.array([index]))
            assert _stored(alone) == _stored(same), "alone and among others"

    def test_keeps_its_answers_in_a_file_bit_for_bit(self) -> None:
        outputs = self.outputs()
        outputs[0][0].flat[0] = np.nan
        answers = self.answers(outputs)
        with TemporaryDirectory() as folder:
            answers.to_parquet(Path(folder, "answers"), besides=np.arange(_IMAGES) / 3)
            again = self.plugin.read(Path(folder, "answers"))
        assert _stored(again) == _stored(answers)
        assert not again.unlike(answers)
        _alike(again.metrics_of(_ones()), answers.metrics_of(_ones()))

    def test_computes_metrics_of_weights_as_those_of_the_images_taken(self) -> None:
        """Check weights 2 against the images twice, and weights 0 and 1 against a selection.

        Equal scores of an image's copies are taken together. The scores made here are not tied.
        """
        answers = self.pair[0]
        tallies = answers.tallies()
        plain, double = answers.metrics_of(_ones()), answers.metrics_of(2 * _ones())
        _alike(double, plain)
        # a copy of an image would be its nearest neighbour
        if not answers.together:
            _alike(double, type(tallies).joined([tallies, tallies]).metrics_of(_ones(2 * _IMAGES)))
        some = np.array([0, 2, 5])
        marked = np.zeros((_IMAGES, 1), np.float32)
        marked[some] = 1
        chosen = answers.rows(some).metrics_of(_ones(len(some)))
        _alike(answers.metrics_of(marked), chosen)
        both = answers.metrics_of(np.hstack([marked, _ones()]))
        _alike(both, {name: np.concatenate([chosen[name], plain[name]], -1) for name in both})

    def test_finds_no_change_beside_the_same_answers(self) -> None:
        one, two = self.pair[0], self.answers(self.outputs())
        assert not one.changed(two).any()
        assert not one.differs(two).any()
        assert not np.nan_to_num(one.apart(two)).any()
        words = TaskWords(self.plugin.facts())
        best = {each.name: words.best(each.name) for each in words.task.measures}
        for name, sums in one.measures_of(two).items():
            (value,) = sums.of(_ones())
            # that of a metric's own name is its paired change
            assert np.isnan(value) or value == best.get(name, 0.0), name

    def test_finds_every_change_beside_other_answers(self) -> None:
        one, two = self.pair
        changed = one.changed(two)
        assert changed.any(), "changed() marks no image although all outputs are others"
        assert np.array_equal(changed, two.changed(one)), "changed() depends on the order"
        assert (one.differs(two) | ~changed).all(), "changed() marks images that differs() does not"
        assert one.quality().shape == (_IMAGES,)

    def test_counts_outputs_that_are_not_finite(self) -> None:
        outputs = self.outputs()
        for each in outputs:
            each[1] = np.nan
        answers = self.answers(outputs)
        assert answers.finite().tolist() == [index != 1 for index in range(_IMAGES)]
        answers.metrics_of(_ones())
        for sums in answers.measures_of(self.pair[0]).values():
            sums.of(_ones())
        assert answers.said(1)
        assert not answers.changed(answers).any()

    def test_compares_answers_without_labels(self) -> None:
        if self.plugin.refuses("none"):
            pytest.skip(self.plugin.refuses("none"))
        one, two = (self.answers(self.outputs(seed), samples=samples_of("none")) for seed in (0, 2))
        needed = self.plugin.facts().needs_labels
        assert one.labelled != needed
        assert not (needed and one.metrics_of(_ones()))
        assert np.array_equal(one.changed(two), two.changed(one))

    def test_words_and_draws_every_answer(self) -> None:
        for index in range(_IMAGES):
            said = self.pair[0].said(index)
            assert isinstance(said, str)
            assert said
            json.dumps(self.pair[0].drawn(index), allow_nan=False)


def _stored(answers: Answers) -> bytes:
    with TemporaryDirectory() as folder:
        answers.to_parquet(Path(folder, "answers"))
        return Path(folder, "answers").read_bytes()


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for name, values in one.items():
        # sums of floats in another order may differ in the last digits
        np.testing.assert_allclose(values, other[name], rtol=1e-12, err_msg=name)


def _ones(count: int = _IMAGES) -> npt.NDArray[np.float32]:
    return np.ones((count, 1), np.float32)
