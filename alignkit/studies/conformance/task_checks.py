"""Checks of the contract in `alignkit.tasks`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from alignkit.annotations import Annotation, Boxes, LabelSet, Mask
from alignkit.compare.answers import Answers
from alignkit.errors import ConfigError
from alignkit.predict.decoder import KeptRecords
from alignkit.preprocess.geometry import Geometry
from alignkit.samples import HeldImages, Samples, Truth
from alignkit.studies.conformance import Check, NotApplicable, require
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


def checks(task: Task) -> Iterator[Check]:
    """Yield every check of a task, on outputs and labels made here."""
    yield Check("is a frozen dataclass of options that a key can hold", partial(options, task))
    yield Check("refuses outputs that it cannot decode", partial(refuses_outputs, task))
    made: list[Case] = []

    def check(name: str, run: Callable[[Case], str]) -> Check:
        def found() -> str:
            made.extend([] if made else [case_of(task)])
            return run(made[0])

        return Check(name, found)

    yield check("describes its metrics, measures and matrices", describes)
    yield check("gives one record an image, whatever the batch", batches)
    yield check("keeps its answers in a file, bit for bit", files)
    yield check("computes metrics of weights as those of the images taken", weights)
    yield check("finds no change beside the same answers", unchanged)
    yield check("finds every change beside other answers", changes)
    yield check("counts outputs that are not finite", not_finite)
    yield check("compares answers without labels", unlabelled)
    yield check("words and draws every answer", words)


def case_of(task: Task) -> Case:
    """Find outputs and labels that a task accepts; raise `NotApplicable` if there are none here."""
    kinds = (each for each in get_args(Truth) if not task.refuses(each))
    kind = next(kinds, None)
    require(kind, "refuses() refuses labels of every kind")
    samples = samples_of(str(kind))
    classes = len(_CLASSES)
    side = _INPUT // 2
    for given in (_scores(classes), _scores(classes, side, side), _detections()):
        try:
            task.recognise(given.shapes, classes)
        except ConfigError:
            continue
        return Case(task, given, samples, ClassMap(_CLASSES))
    raise NotApplicable("it accepts none of the outputs that are made here")


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


def options(task: Any) -> str:
    """Check the task's class and its options."""
    params = getattr(task, "__dataclass_params__", None)
    require(params is not None and params.frozen, "it is no frozen dataclass")
    text = json.dumps(asdict(task), sort_keys=True)
    return f"options {text}"


def refuses_outputs(task: Task) -> str:
    """Check that no output, or one of seven axes, is refused before anything runs."""
    refused = []
    for name, shapes in (("no output", ()), ("seven axes", (OutputShape("y", (1, *[2] * 6)),))):
        try:
            task.recognise(shapes, len(_CLASSES))
        except ConfigError as error:
            require(str(error), f"{name} is refused without a reason")
            refused.append(name)
    require("no output" in refused, "a model without an output is recognised")
    return f"refuses {' and '.join(refused)}"


def describes(case: Case) -> str:
    """Check that the facts name all that the answers compute."""
    facts, answers = case.task.facts(), case.answers(case.outputs())
    stored = TypeAdapter(type(facts))
    again = stored.validate_json(stored.dump_json(facts))
    require(again == facts, "facts() differ once they are stored")
    metrics = [each.name for each in facts.metrics]
    require(
        set(metrics) == set(answers.metric_names),
        f"facts() names the metrics {metrics}, and the answers {answers.metric_names}",
    )
    measures = [each.name for each in facts.measures]
    # a measure with a metric's name is its paired change
    found = [*(answers.measures_of(answers).keys() - set(metrics))]
    require(sorted(measures) == sorted(found), f"facts() names {measures}, the answers {found}")
    unknown = {*facts.matrices} - {*metrics, *measures, "churn"}
    require(not unknown, f"matrices of unknown metrics: {sorted(unknown)}")
    require("churn" in facts.matrices, "no matrix of churn")
    computed = answers.metrics_of(_ones(len(answers)))
    by_class = [each.name for each in facts.class_metrics]
    missing = {*metrics, *by_class} - {*computed}
    require(not missing, f"metrics_of() leaves out {sorted(missing)}")
    for name in by_class:
        shape = computed[name].shape
        require(shape == (len(_CLASSES), 1), f"{name} of classes has the shape {shape}")
    return f"{len(metrics)} metrics, {len(by_class)} by class, {len(measures)} measures"


def batches(case: Case) -> str:
    """Check that an image's answer does not depend on the others of its batch."""
    outputs = case.outputs()
    together = case.answers(outputs)
    for index in range(_IMAGES):
        alone = case.answers(outputs, [index])
        same = together.rows(np.array([index]))
        require(_stored(alone) == _stored(same), f"image {index} differs alone and among others")
    require(together.ids == case.samples.ids, "the ids are not those given")
    return f"{_IMAGES} images alone and together"


def files(case: Case) -> str:
    """Check that stored answers are read as they were."""
    outputs = case.outputs()
    outputs[0][0].flat[0] = np.nan
    answers = case.answers(outputs)
    first = _stored(answers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answers.parquet")
        answers.to_parquet(file, besides=np.arange(_IMAGES) / 3)
        again = case.task.read(file)
    require(_stored(again) == first, "a file that is read and written again differs")
    require(not again.unlike(answers), f"it is unlike itself: {again.unlike(answers)}")
    _same_metrics(again, answers, "read")
    return f"{len(first)} bytes"


def weights(case: Case) -> str:
    """Check weights 2 against the images twice, and weights 0 and 1 against a selection.

    Equal scores of an image's copies are taken together. The scores made here are not tied.
    """
    answers = case.answers(case.outputs())
    tallies = answers.tallies()
    plain = answers.metrics_of(_ones(_IMAGES))
    twice = plain
    # a copy of an image would be its nearest neighbour
    if not answers.together:
        twice = type(tallies).joined([tallies, tallies]).metrics_of(_ones(2 * _IMAGES))
    for name, values in answers.metrics_of(2 * _ones(_IMAGES)).items():
        require(_equal(values, twice[name]), f"{name} differs with weights 2 and with images twice")
        require(_equal(values, plain[name]), f"{name} differs with weights 2 and 1")
    some = np.array([0, 2, 5])
    marked = np.zeros((_IMAGES, 1), np.float32)
    marked[some] = 1
    chosen = answers.rows(some).metrics_of(_ones(len(some)))
    for name, values in answers.metrics_of(marked).items():
        require(_equal(values, chosen[name]), f"{name} differs with weights 0 and without images")
    both = answers.metrics_of(np.concatenate([marked, _ones(_IMAGES)], axis=1))
    for name, values in both.items():
        parts = np.concatenate([chosen[name], plain[name]], axis=-1)
        require(_equal(values, parts), f"{name} of two draws differs from that of each")
    return f"{len(plain)} metrics"


def unchanged(case: Case) -> str:
    """Check answers beside themselves."""
    one, two = case.answers(case.outputs()), case.answers(case.outputs())
    require(not one.changed(two).any(), "changed() marks images whose answers are equal")
    require(not one.differs(two).any(), "differs() marks images whose answers are equal")
    apart = one.apart(two)
    require(not (apart[~np.isnan(apart)]).any(), f"apart() of equal answers is {apart}")
    words = TaskWords(case.task.facts())
    best = {each.name: words.best(each.name) for each in words.task.measures}
    for name, sums in one.measures_of(two).items():
        (value,) = sums.of(_ones(_IMAGES))
        expected = best.get(name, 0.0)  # the paired change of a metric
        require(np.isnan(value) or value == expected, f"{name} of equal answers is {value:g}")
    return f"{len(best)} measures"


def changes(case: Case) -> str:
    """Check that an image whose answer changed is one that differs, both ways round."""
    one, two = case.answers(case.outputs()), case.answers(case.outputs(seed=2))
    changed = one.changed(two)
    require(changed.any(), "changed() marks no image although all outputs are others")
    require(_equal(changed, two.changed(one)), "changed() depends on the order of the two")
    require((one.differs(two) | ~changed).all(), "changed() marks images that differs() does not")
    require(one.quality().shape == (_IMAGES,), f"quality() has the shape {one.quality().shape}")
    return f"{int(changed.sum())} of {_IMAGES} images"


def not_finite(case: Case) -> str:
    """Check that NaN is counted, and that everything is still computed."""
    outputs = case.outputs()
    for each in outputs:
        each[1] = np.nan
    answers, other = case.answers(outputs), case.answers(case.outputs())
    finite = answers.finite().tolist()
    require(finite == [index != 1 for index in range(_IMAGES)], f"finite() says {finite}")
    answers.metrics_of(_ones(_IMAGES))
    for sums in answers.measures_of(other).values():
        sums.of(_ones(_IMAGES))
    require(answers.said(1), "said() gives nothing for an image with NaN")
    require(not answers.changed(answers).any(), "an answer with NaN changed beside itself")
    return "1 image of NaN"


def unlabelled(case: Case) -> str:
    """Check images without labels."""
    if case.task.refuses("none"):
        raise NotApplicable(case.task.refuses("none"))
    bare = Case(case.task, case.given, samples_of("none"), ClassMap((), _CLASSES))
    one, two = bare.answers(bare.outputs()), bare.answers(bare.outputs(seed=2))
    found = one.metrics_of(_ones(_IMAGES))
    needed = case.task.facts().needs_labels
    require(one.labelled != needed, f"labelled is {one.labelled}")
    require(not (needed and found), f"metrics without labels: {sorted(found)}")
    require(_equal(one.changed(two), two.changed(one)), "changed() depends on the order of the two")
    return f"{int(one.changed(two).sum())} of {_IMAGES} images changed"


def words(case: Case) -> str:
    """Check that each answer is said, and drawn as JSON values."""
    answers = case.answers(case.outputs())
    for index in range(_IMAGES):
        said = answers.said(index)
        require(isinstance(said, str) and said, f"said() gives {said!r}")
        json.dumps(answers.drawn(index), allow_nan=False)
    return answers.said(0)


def _stored(answers: Answers) -> bytes:
    """Return the file of answers as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answers.parquet")
        answers.to_parquet(file)
        return file.read_bytes()


def _same_metrics(one: Answers, other: Answers, how: str) -> None:
    mine, theirs = (each.metrics_of(_ones(_IMAGES)) for each in (one, other))
    for name, values in mine.items():
        require(_equal(values, theirs[name]), f"{name} differs once it is {how}")


def _ones(count: int) -> npt.NDArray[np.float32]:
    return np.ones((count, 1), np.float32)


def _equal(one: Any, other: Any) -> bool:
    # sums of floats in another order may differ in the last digits
    return bool(np.allclose(one, other, rtol=1e-12, atol=0, equal_nan=True))
