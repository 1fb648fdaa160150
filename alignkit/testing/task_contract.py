"""The contract in `alignkit.tasks` as tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from unittest import SkipTest

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from alignkit.annotations import Annotation, Boxes, LabelSet, Mask
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


@dataclass(frozen=True, slots=True)
class Case:
    """A task with outputs and labels that it accepts."""

    task: Task
    sides: tuple[int, ...]
    samples: Samples
    classes: ClassMap

    def outputs(self, seed: int = 0) -> Outputs:
        """Return the outputs of all images, made from ``seed``."""
        rng = np.random.default_rng(seed)
        if self.sides != _SIDES[2]:
            return (rng.normal(size=(_IMAGES, *self.sides)).astype(np.float32),)
        # centre, size and scores, as a detector gives them for each anchor
        parts = ((4, _INPUT - 4, 2), (4, 16, 2), (0, 1, len(_CLASSES)))
        rows = [rng.uniform(least, most, (_IMAGES, n, _ANCHORS)) for least, most, n in parts]
        return (np.concatenate(rows, axis=1).astype(np.float32),)

    def answers(self, outputs: Outputs, which: Sequence[int] = range(_IMAGES)) -> Answers:
        """Decode the outputs of some images as one batch."""
        batch = tuple(each[list(which)] for each in outputs)
        records = self.task.decode(batch, [_PLACE] * len(which), self.classes)
        shown = self.samples.take(which)
        kept = KeptRecords(len(which))
        kept.put(0, self.task.keep(records, shown))
        # a runtime may use its memory again
        for each in batch:
            each[:] = 0
        return self.task.answers(shown.ids, kept.all, self.samples, self.classes)


def case_of(task: Task) -> Case:
    """Find outputs and labels that a task accepts; raise `SkipTest` if there are none here."""
    kind = next((each for each in get_args(Truth) if not task.refuses(each)), "")
    assert kind, "refuses() refuses labels of every kind"
    for sides in _SIDES:
        try:
            task.recognise((OutputShape("y", (None, *sides)),), len(_CLASSES))
        except ConfigError:
            continue
        return Case(task, sides, samples_of(kind), ClassMap(_CLASSES))
    raise SkipTest("it accepts none of the outputs that are made here")


def samples_of(kind: str) -> Samples:
    """Return images with random labels of a kind of `alignkit.samples.Truth`."""
    rng = np.random.default_rng(1)

    def boxes() -> Annotation:
        count = int(rng.integers(0, 4))
        corner = rng.uniform(0, 12, (count, 2))
        corners = np.concatenate([corner, corner + rng.uniform(4, 16, (count, 2))], axis=1)
        return Boxes(corners, rng.integers(0, len(_CLASSES), count), np.zeros(count, np.bool_))

    def mask() -> Annotation:
        values = rng.integers(0, len(_CLASSES), (_HEIGHT, _WIDTH), np.uint8)
        return Mask(lambda: values)

    def labels() -> Annotation:
        return LabelSet(tuple(np.flatnonzero(rng.random(len(_CLASSES)) < 0.5).tolist()))

    known: dict[str, Callable[[], Annotation]] = {"boxes": boxes, "mask": mask, "labels": labels}
    make = known.get(kind)
    return Samples(
        ids=tuple(f"{index}.jpg" for index in range(_IMAGES)),
        labels=tuple(index % len(_CLASSES) for index in range(_IMAGES)) if kind == "class" else (),
        classes=_CLASSES if kind != "none" else (),
        read=HeldImages((b"",) * _IMAGES),
        fingerprint="",
        annotations=tuple(make() for _ in range(_IMAGES)) if make else (),
    )


class TaskContract:
    """Tests of a task, on outputs and labels made here."""

    plugin: Task

    @cached_property
    def case(self) -> Case:
        """The task with outputs and labels that it accepts."""
        return case_of(self.plugin)

    @cached_property
    def answers(self) -> Answers:
        """Its answers to all images."""
        return self.case.answers(self.case.outputs())

    @cached_property
    def others(self) -> Answers:
        """Its answers to other outputs of the same images."""
        return self.case.answers(self.case.outputs(seed=2))

    def test_is_a_frozen_dataclass_that_refuses_what_it_cannot_decode(self) -> None:
        params = getattr(self.plugin, "__dataclass_params__", None)
        assert getattr(params, "frozen", False), "it is no frozen dataclass"
        whole: Any = self.plugin
        json.dumps(asdict(whole), sort_keys=True)
        said = []
        for shapes in ((), (OutputShape("y", (1, *[2] * 6)),)):
            try:
                self.plugin.recognise(shapes, len(_CLASSES))
                said.append("")
            except ConfigError as error:
                said.append(str(error))
        assert said[0], "a model without an output is recognised, or without words"

    def test_describes_its_metrics_measures_and_matrices(self) -> None:
        facts, answers = self.case.task.facts(), self.answers
        stored = TypeAdapter(type(facts))
        assert stored.validate_json(stored.dump_json(facts)) == facts, "facts() differ once stored"
        metrics, measures, by_class = (
            [each.name for each in part]
            for part in (facts.metrics, facts.measures, facts.class_metrics)
        )
        computed = answers.metrics_of(_ones(len(answers)))
        # a measure with a metric's name is its paired change
        paired = {*answers.measures_of(answers)} - {*metrics}
        for what, named, found in (
            ("metrics", {*metrics}, {*answers.metric_names}),
            ("measures", {*measures}, paired),
            ("matrices", {*facts.matrices} & {*metrics, *measures, "churn"}, {*facts.matrices}),
            ("a matrix", {"churn"}, {*facts.matrices} & {"churn"}),
            ("metrics to compute", {*metrics, *by_class}, {*metrics, *by_class} & {*computed}),
        ):
            assert named == found, f"facts() names the {what} {sorted(named)}, found {found}"
        for name in by_class:
            shape = computed[name].shape
            assert shape == (len(_CLASSES), 1), f"{name} of classes has the shape {shape}"

    def test_gives_one_record_an_image_whatever_the_batch(self) -> None:
        for index in range(_IMAGES):
            alone = self.case.answers(self.case.outputs(), [index])
            same = self.answers.rows(np.array([index]))
            assert _stored(alone) == _stored(same), f"image {index} differs alone and among others"
        assert self.answers.ids == self.case.samples.ids, "the ids are not those given"

    def test_keeps_its_answers_in_a_file_bit_for_bit(self) -> None:
        outputs = self.case.outputs()
        outputs[0][0].flat[0] = np.nan
        answers = self.case.answers(outputs)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "answers.parquet")
            answers.to_parquet(file, besides=np.arange(_IMAGES) / 3)
            again = self.case.task.read(file)
        assert _stored(again) == _stored(answers), "a file read and written again differs"
        assert not again.unlike(answers), f"it is unlike itself: {again.unlike(answers)}"
        _alike(again.metrics_of(_ones()), answers.metrics_of(_ones()), "once it is read")

    def test_computes_metrics_of_weights_as_those_of_the_images_taken(self) -> None:
        """Check weights 2 against the images twice, and weights 0 and 1 against a selection.

        Equal scores of an image's copies are taken together. The scores made here are not tied.
        """
        answers, tallies = self.answers, self.answers.tallies()
        plain, double = answers.metrics_of(_ones()), answers.metrics_of(2 * _ones())
        _alike(double, plain, "with weights 2 and 1")
        # a copy of an image would be its nearest neighbour
        if not answers.together:
            twice = type(tallies).joined([tallies, tallies]).metrics_of(_ones(2 * _IMAGES))
            _alike(double, twice, "with weights 2 and with images twice")
        some = np.array([0, 2, 5])
        marked = np.zeros((_IMAGES, 1), np.float32)
        marked[some] = 1
        chosen = answers.rows(some).metrics_of(_ones(len(some)))
        _alike(answers.metrics_of(marked), chosen, "with weights 0 and without images")
        both = answers.metrics_of(np.concatenate([marked, _ones()], axis=1))
        parts = {name: np.concatenate([chosen[name], plain[name]], axis=-1) for name in both}
        _alike(both, parts, "in two draws and in each")

    def test_finds_no_change_beside_the_same_answers(self) -> None:
        one, two = self.answers, self.case.answers(self.case.outputs())
        assert not one.changed(two).any(), "changed() marks images whose answers are equal"
        assert not one.differs(two).any(), "differs() marks images whose answers are equal"
        apart = one.apart(two)
        assert not (apart[~np.isnan(apart)]).any(), f"apart() of equal answers is {apart}"
        words = TaskWords(self.case.task.facts())
        best = {each.name: words.best(each.name) for each in words.task.measures}
        for name, sums in one.measures_of(two).items():
            (value,) = sums.of(_ones())
            expected = best.get(name, 0.0)  # the paired change of a metric
            assert np.isnan(value) or value == expected, f"{name} of equal answers is {value:g}"

    def test_finds_every_change_beside_other_answers(self) -> None:
        one, two = self.answers, self.others
        changed = one.changed(two)
        assert changed.any(), "changed() marks no image although all outputs are others"
        same = np.array_equal(changed, two.changed(one))
        assert same, "changed() depends on the order of the two"
        assert (one.differs(two) | ~changed).all(), "changed() marks images that differs() does not"
        assert one.quality().shape == (_IMAGES,), f"quality() has the shape {one.quality().shape}"

    def test_counts_outputs_that_are_not_finite(self) -> None:
        outputs = self.case.outputs()
        for each in outputs:
            each[1] = np.nan
        answers = self.case.answers(outputs)
        finite = answers.finite().tolist()
        assert finite == [index != 1 for index in range(_IMAGES)], f"finite() says {finite}"
        answers.metrics_of(_ones())
        for sums in answers.measures_of(self.answers).values():
            sums.of(_ones())
        assert answers.said(1), "said() gives nothing for an image with NaN"
        assert not answers.changed(answers).any(), "an answer with NaN changed beside itself"

    def test_compares_answers_without_labels(self) -> None:
        if self.case.task.refuses("none"):
            raise SkipTest(self.case.task.refuses("none"))
        task = self.case.task
        bare = Case(task, self.case.sides, samples_of("none"), ClassMap((), _CLASSES))
        one, two = bare.answers(bare.outputs()), bare.answers(bare.outputs(seed=2))
        found, needed = one.metrics_of(_ones()), task.facts().needs_labels
        assert one.labelled != needed, f"labelled is {one.labelled}"
        assert not (needed and found), f"metrics without labels: {sorted(found)}"
        same = np.array_equal(one.changed(two), two.changed(one))
        assert same, "changed() depends on the order of the two"

    def test_words_and_draws_every_answer(self) -> None:
        for index in range(_IMAGES):
            said = self.answers.said(index)
            text = isinstance(said, str) and bool(said)
            assert text, f"said() gives {said!r}, expected text"
            json.dumps(self.answers.drawn(index), allow_nan=False)


def _stored(answers: Answers) -> bytes:
    """Return the file of answers as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answers.parquet")
        answers.to_parquet(file)
        return file.read_bytes()


def _alike(one: Mapping[str, Any], other: Mapping[str, Any], how: str) -> None:
    for name, values in one.items():
        # sums of floats in another order may differ in the last digits
        alike = np.allclose(values, other[name], rtol=1e-12, atol=0, equal_nan=True)
        assert alike, f"{name} differs {how}"


def _ones(count: int = _IMAGES) -> npt.NDArray[np.float32]:
    return np.ones((count, 1), np.float32)
