"""The contract in `alignkit.tasks` as tests, on outputs and labels made here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
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

_CLASSES = ("ant", "bee", "cow")
_IMAGES = 6
_WIDTH, _HEIGHT, _INPUT = 40, 30, 32


class Given(NamedTuple):
    """Outputs that a task accepts."""

    shapes: tuple[OutputShape, ...]
    make: Callable[[np.random.Generator], Outputs]


def _scores(*sides: int) -> Given:
    def make(rng: np.random.Generator) -> Outputs:
        return (rng.normal(size=(_IMAGES, *sides)).astype(np.float32),)

    return Given((OutputShape("y", (None, *sides)),), make)


def _detections() -> Given:
    """Rows of centre, size and scores, as a detector gives them for each anchor."""
    count = 50

    def make(rng: np.random.Generator) -> Outputs:
        centres = rng.uniform(4, _INPUT - 4, (_IMAGES, 2, count))
        sizes = rng.uniform(4, 16, (_IMAGES, 2, count))
        scores = rng.uniform(0, 1, (_IMAGES, len(_CLASSES), count))
        return (np.concatenate([centres, sizes, scores], axis=1).astype(np.float32),)

    return Given((OutputShape("y", (None, 4 + len(_CLASSES), count)),), make)


@dataclass(frozen=True, slots=True)
class Case:
    """A task with outputs and labels that it accepts."""

    task: Task
    given: Given
    samples: Samples
    classes: ClassMap

    def outputs(self, seed: int = 0) -> Outputs:
        """Return the outputs of all images, made from ``seed``."""
        return self.given.make(np.random.default_rng(seed))

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


_PLACE = Geometry(
    width=_WIDTH,
    height=_HEIGHT,
    input_width=_INPUT,
    input_height=_INPUT,
    scale_x=_INPUT / _WIDTH,
    scale_y=_INPUT / _HEIGHT,
    shift_x=0.0,
    shift_y=0.0,
)


def case_of(task: Task) -> Case:
    """Find outputs and labels that a task accepts; raise `SkipTest` if there are none here."""
    kinds = (each for each in get_args(Truth) if not task.refuses(each))
    kind = next(kinds, None)
    assert kind, "refuses() refuses labels of every kind"
    samples = samples_of(str(kind))
    classes = len(_CLASSES)
    side = _INPUT // 2
    for given in (_scores(classes), _scores(classes, side, side), _detections()):
        try:
            task.recognise(given.shapes, classes)
        except ConfigError:
            continue
        return Case(task, given, samples, ClassMap(_CLASSES))
    raise SkipTest("it accepts none of the outputs that are made here")


def samples_of(kind: str) -> Samples:
    """Return images with random labels of a kind of `alignkit.samples.Truth`."""
    rng = np.random.default_rng(1)
    known: dict[str, Callable[[], Annotation]] = {
        "boxes": lambda: _boxes(rng),
        "mask": lambda: _mask(rng),
        "labels": lambda: LabelSet(tuple(np.flatnonzero(rng.random(len(_CLASSES)) < 0.5).tolist())),
    }
    make = known.get(kind)
    return Samples(
        ids=tuple(f"{index}.jpg" for index in range(_IMAGES)),
        labels=tuple(index % len(_CLASSES) for index in range(_IMAGES)) if kind == "class" else (),
        classes=_CLASSES if kind != "none" else (),
        read=HeldImages((b"",) * _IMAGES),
        fingerprint="",
        annotations=tuple(make() for _ in range(_IMAGES)) if make else (),
    )


def _boxes(rng: np.random.Generator) -> Boxes:
    count = int(rng.integers(0, 4))
    corner = rng.uniform(0, 12, (count, 2))
    corners = np.concatenate([corner, corner + rng.uniform(4, 16, (count, 2))], axis=1)
    return Boxes(corners, rng.integers(0, len(_CLASSES), count), np.zeros(count, np.bool_))


def _mask(rng: np.random.Generator) -> Mask:
    values = rng.integers(0, len(_CLASSES), (_HEIGHT, _WIDTH), np.uint8)
    return Mask(lambda: values)


class TaskContract:
    """Tests of a task, on outputs and labels made here."""

    plugin: Task

    @cached_property
    def case(self) -> Case:
        """The task with outputs and labels that it accepts."""
        return case_of(self.plugin)

    def test_is_a_frozen_dataclass_of_options_that_a_key_can_hold(self) -> None:
        """Check the task's class and its options."""
        params = getattr(self.plugin, "__dataclass_params__", None)
        assert getattr(params, "frozen", False), "it is no frozen dataclass"
        whole: Any = self.plugin
        json.dumps(asdict(whole), sort_keys=True)

    def test_refuses_outputs_that_it_cannot_decode(self) -> None:
        """Check that no output, or one of seven axes, is refused before anything runs."""
        refused = []
        for name, shapes in (("no output", ()), ("seven axes", (OutputShape("y", (1, *[2] * 6)),))):
            try:
                self.plugin.recognise(shapes, len(_CLASSES))
            except ConfigError as error:
                refused.append(name if str(error) else f"{name} without a reason")
        assert "no output" in refused, "a model without an output is recognised, or without words"

    def test_describes_its_metrics_measures_and_matrices(self) -> None:
        """Check that the facts name all that the answers compute."""
        facts, answers = self.case.task.facts(), self.case.answers(self.case.outputs())
        stored = TypeAdapter(type(facts))
        again = stored.validate_json(stored.dump_json(facts))
        assert again == facts, "facts() differ once they are stored"
        metrics = [each.name for each in facts.metrics]
        assert set(metrics) == set(answers.metric_names), (
            f"facts() names the metrics {metrics}, and the answers {answers.metric_names}"
        )
        measures = [each.name for each in facts.measures]
        # a measure with a metric's name is its paired change
        found = [*(answers.measures_of(answers).keys() - set(metrics))]
        assert sorted(measures) == sorted(found), f"facts() names {measures}, the answers {found}"
        unknown = {*facts.matrices} - {*metrics, *measures, "churn"}
        assert not unknown, f"matrices of unknown metrics: {sorted(unknown)}"
        assert "churn" in facts.matrices, "no matrix of churn"
        computed = answers.metrics_of(_ones(len(answers)))
        by_class = [each.name for each in facts.class_metrics]
        missing = {*metrics, *by_class} - {*computed}
        assert not missing, f"metrics_of() leaves out {sorted(missing)}"
        for name in by_class:
            shape = computed[name].shape
            assert shape == (len(_CLASSES), 1), f"{name} of classes has the shape {shape}"

    def test_gives_one_record_an_image_whatever_the_batch(self) -> None:
        """Check that an image's answer does not depend on the others of its batch."""
        outputs = self.case.outputs()
        together = self.case.answers(outputs)
        for index in range(_IMAGES):
            alone = self.case.answers(outputs, [index])
            same = together.rows(np.array([index]))
            assert _stored(alone) == _stored(same), f"image {index} differs alone and among others"
        assert together.ids == self.case.samples.ids, "the ids are not those given"

    def test_keeps_its_answers_in_a_file_bit_for_bit(self) -> None:
        """Check that stored answers are read as they were."""
        outputs = self.case.outputs()
        outputs[0][0].flat[0] = np.nan
        answers = self.case.answers(outputs)
        first = _stored(answers)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "answers.parquet")
            answers.to_parquet(file, besides=np.arange(_IMAGES) / 3)
            again = self.case.task.read(file)
        assert _stored(again) == first, "a file that is read and written again differs"
        assert not again.unlike(answers), f"it is unlike itself: {again.unlike(answers)}"
        _same_metrics(again, answers)

    def test_computes_metrics_of_weights_as_those_of_the_images_taken(self) -> None:
        """Check weights 2 against the images twice, and weights 0 and 1 against a selection.

        Equal scores of an image's copies are taken together. The scores made here are not tied.
        """
        answers = self.case.answers(self.case.outputs())
        tallies = answers.tallies()
        plain = answers.metrics_of(_ones(_IMAGES))
        twice = plain
        # a copy of an image would be its nearest neighbour
        if not answers.together:
            twice = type(tallies).joined([tallies, tallies]).metrics_of(_ones(2 * _IMAGES))
        for name, values in answers.metrics_of(2 * _ones(_IMAGES)).items():
            assert _equal(values, twice[name]), (
                f"{name} differs with weights 2 and with images twice"
            )
            assert _equal(values, plain[name]), f"{name} differs with weights 2 and 1"
        some = np.array([0, 2, 5])
        marked = np.zeros((_IMAGES, 1), np.float32)
        marked[some] = 1
        chosen = answers.rows(some).metrics_of(_ones(len(some)))
        for name, values in answers.metrics_of(marked).items():
            assert _equal(values, chosen[name]), f"{name} differs with weights 0 and without images"
        both = answers.metrics_of(np.concatenate([marked, _ones(_IMAGES)], axis=1))
        for name, values in both.items():
            parts = np.concatenate([chosen[name], plain[name]], axis=-1)
            assert _equal(values, parts), f"{name} of two draws differs from that of each"

    def test_finds_no_change_beside_the_same_answers(self) -> None:
        """Check answers beside themselves."""
        one, two = self.case.answers(self.case.outputs()), self.case.answers(self.case.outputs())
        assert not one.changed(two).any(), "changed() marks images whose answers are equal"
        assert not one.differs(two).any(), "differs() marks images whose answers are equal"
        apart = one.apart(two)
        assert not (apart[~np.isnan(apart)]).any(), f"apart() of equal answers is {apart}"
        words = TaskWords(self.case.task.facts())
        best = {each.name: words.best(each.name) for each in words.task.measures}
        for name, sums in one.measures_of(two).items():
            (value,) = sums.of(_ones(_IMAGES))
            expected = best.get(name, 0.0)  # the paired change of a metric
            assert np.isnan(value) or value == expected, f"{name} of equal answers is {value:g}"

    def test_finds_every_change_beside_other_answers(self) -> None:
        """Check that an image whose answer changed is one that differs, both ways round."""
        one = self.case.answers(self.case.outputs())
        two = self.case.answers(self.case.outputs(seed=2))
        changed = one.changed(two)
        assert changed.any(), "changed() marks no image although all outputs are others"
        assert _equal(changed, two.changed(one)), "changed() depends on the order of the two"
        assert (one.differs(two) | ~changed).all(), "changed() marks images that differs() does not"
        assert one.quality().shape == (_IMAGES,), f"quality() has the shape {one.quality().shape}"

    def test_counts_outputs_that_are_not_finite(self) -> None:
        """Check that NaN is counted, and that everything is still computed."""
        outputs = self.case.outputs()
        for each in outputs:
            each[1] = np.nan
        answers, other = self.case.answers(outputs), self.case.answers(self.case.outputs())
        finite = answers.finite().tolist()
        assert finite == [index != 1 for index in range(_IMAGES)], f"finite() says {finite}"
        answers.metrics_of(_ones(_IMAGES))
        for sums in answers.measures_of(other).values():
            sums.of(_ones(_IMAGES))
        assert answers.said(1), "said() gives nothing for an image with NaN"
        assert not answers.changed(answers).any(), "an answer with NaN changed beside itself"

    def test_compares_answers_without_labels(self) -> None:
        """Check images without labels."""
        if self.case.task.refuses("none"):
            raise SkipTest(self.case.task.refuses("none"))
        bare = Case(self.case.task, self.case.given, samples_of("none"), ClassMap((), _CLASSES))
        one, two = bare.answers(bare.outputs()), bare.answers(bare.outputs(seed=2))
        found = one.metrics_of(_ones(_IMAGES))
        needed = self.case.task.facts().needs_labels
        assert one.labelled != needed, f"labelled is {one.labelled}"
        assert not (needed and found), f"metrics without labels: {sorted(found)}"
        assert _equal(one.changed(two), two.changed(one)), (
            "changed() depends on the order of the two"
        )

    def test_words_and_draws_every_answer(self) -> None:
        """Check that each answer is said, and drawn as JSON values."""
        answers = self.case.answers(self.case.outputs())
        for index in range(_IMAGES):
            said = answers.said(index)
            assert isinstance(said, str), f"said() gives {said!r}"
            assert said, "said() gives no text"
            json.dumps(answers.drawn(index), allow_nan=False)


def _stored(answers: Answers) -> bytes:
    """Return the file of answers as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answers.parquet")
        answers.to_parquet(file)
        return file.read_bytes()


def _same_metrics(one: Answers, other: Answers) -> None:
    mine, theirs = (each.metrics_of(_ones(_IMAGES)) for each in (one, other))
    for name, values in mine.items():
        assert _equal(values, theirs[name]), f"{name} differs once it is read"


def _ones(count: int) -> npt.NDArray[np.float32]:
    return np.ones((count, 1), np.float32)


def _equal(one: Any, other: Any) -> bool:
    # sums of floats in another order may differ in the last digits
    return bool(np.allclose(one, other, rtol=1e-12, atol=0, equal_nan=True))
