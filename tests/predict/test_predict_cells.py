"""How much builds of one model differ."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.compare.predictions import ClassIds, Predictions
from alignkit.errors import BackendError
from alignkit.experiment import load_experiment
from alignkit.outcome import Failed, Measured
from alignkit.plan import make_plan
from alignkit.plugins import gpu_present
from alignkit.predict import predict_cells
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.predict_cells import measure_spread, spread_of, spread_stored
from alignkit.predict.session_inputs import Tensors, records_of
from alignkit.progress import NoProgress, PlainProgress
from alignkit.record import BuildSpread
from alignkit.samples import Samples
from alignkit.tasks import ClassMap
from alignkit.tasks.classification import Classification
from alignkit.train import Trained
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.training_case import digits_case

YAML = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
  c: {decode: opencv, resize: {name: pillow, size: 32}}
train: {epochs: 1, seeds: [0]}
evaluate: {backends: [torch, {name: tensorrt-rtx, precision: fp16}]}
"""


@pytest.fixture(scope="module")
def inputs() -> Tensors:
    case = digits_case(first=900, count=90)
    return Tensors(case.prepared, np.arange(90), case.training.preprocess, (3, 32, 32))


def answers(logits) -> Predictions:
    ids = tuple(map(str, range(len(logits))))
    names = tuple(map(str, range(logits.shape[1])))
    return Predictions(ids, np.zeros(0, np.int64), logits, (), names)


def in_batches_of(size, inputs):
    """Give a session's answers to the inputs."""

    def predicted(session) -> Predictions:
        decoder = AnswerDecoder(Classification(), ClassMap((), tuple("0123456789")))
        samples = Samples(tuple(map(str, range(len(inputs)))), (), (), bytes, "")
        return answers(records_of(session, inputs, decoder, samples, size).records)

    return predicted


class Shifted:
    """A session whose logits lie a little off, differently in every build."""

    open = 0

    def __init__(self, logits, by):
        self.logits, self.by, self.seen = logits, by, 0

    def predict(self, batch):
        answer = self.logits[self.seen : self.seen + len(batch)] + np.float32(self.by)
        self.seen += len(batch)
        return (answer,)


def builder(logits, offsets):
    remaining = list(offsets)

    @contextmanager
    def build():
        assert Shifted.open == 0, "two engines in memory"
        Shifted.open += 1
        try:
            by = remaining.pop(0)
            if by is None:
                raise BackendError("this build failed")
            yield Shifted(logits, by)
        finally:
            Shifted.open -= 1

    return build


def test_the_farthest_two_builds_are_compared_logit_by_logit():
    rng = np.random.default_rng(0)
    several = [rng.normal(size=(40, 3)).astype(np.float32) for _ in range(4)]
    found = spread_of([answers(each) for each in several])
    every = np.stack(several).astype(np.float64)
    pairs = np.abs(every[:, None] - every[None]).max(axis=(0, 1))
    assert found.max_abs == pytest.approx(pairs.max(), rel=1e-12)
    assert found.mean_abs == pytest.approx(pairs.mean(), rel=1e-12)
    classes = every.argmax(axis=2)
    assert found.flips == sum(len(set(column)) > 1 for column in classes.T)
    assert (found.builds, found.images) == (4, 40)


def test_builds_that_give_the_class_itself_are_compared_by_class():
    several = np.array([[0, 1, 2], [0, 5, 2]])
    none = np.zeros(0, np.int64)
    found = spread_of(
        [ClassIds(tuple("123"), none, each, (), tuple("abcdefg")) for each in several]
    )
    assert (found.images, found.flips, found.max_abs) == (3, 1, None)
    assert "without scores" in found.reason


def test_builds_are_made_anew_one_after_another(inputs):
    logits = np.zeros((90, 10), np.float32)
    build = builder(logits, [0.5, -0.25])
    found = measure_spread(answers(logits), in_batches_of(25, inputs), build, builds=3)
    assert (found.builds, found.max_abs, found.mean_abs, found.flips) == (3, 0.75, 0.75, 0)


def test_a_build_that_fails_is_the_reason_and_is_tried_again(inputs, tmp_path):
    logits = np.zeros((90, 10), np.float32)
    workspace = Workspace(tmp_path)

    def measure(*offsets):
        return spread_stored(
            {"cell": 1},
            2,
            workspace,
            lambda: measure_spread(
                answers(logits), in_batches_of(90, inputs), builder(logits, offsets), builds=2
            ),
        )

    failed = measure(None)
    assert (failed.builds, failed.max_abs, failed.reason) == (1, None, "this build failed")
    assert measure(0.5).max_abs == 0.5
    assert measure().max_abs == 0.5  # stored: nothing is built


def test_outputs_that_are_not_finite_have_no_spread():
    several = [np.zeros((2, 2), np.float32), np.array([[1, np.nan], [0, 0]], np.float32)]
    found = spread_of([answers(each) for each in several])
    assert found == BuildSpread(
        builds=2, images=2, flips=1, reason="a build gives outputs that are not finite"
    )


def test_the_same_model_loaded_twice_differs_in_nothing(inputs):
    from alignkit.backends.torch import TorchBackend

    model = trained_model()

    @contextmanager
    def build():
        session = TorchBackend().open(model.checkpoint, None, "fp32")
        yield session
        session.close()

    first = model.predict(TorchBackend(), "fp32")
    found = measure_spread(answers(first), in_batches_of(90, inputs), build, builds=2)
    assert (found.max_abs, found.flips) == (0, 0)


@pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")
def test_an_engine_that_cannot_run_here_is_built_once_for_all_paths(tmp_path, monkeypatch):
    pytest.importorskip("tensorrt_rtx_bindings", reason="tensorrt-rtx is not installed")
    (tmp_path / "x.yaml").write_text(YAML)
    plan = make_plan(load_experiment(tmp_path / "x.yaml"))
    tried = []

    def refuse(evaluation, *_):
        tried.append(evaluation.preprocess.name)
        raise BackendError("the parser refuses the graph")

    monkeypatch.setattr(predict_cells, "model_file", refuse)
    training = plan.trainings[0]
    unprepared = Failed("out of disk", "")
    sets = SimpleNamespace(
        prepared={
            ("a", "eval"): unprepared, ("b", "eval"): Measured(None), ("c", "eval"): Measured(None)
        }
    )  # fmt: skip
    found = [
        *predict_cells.predict_cells(
            replace(plan, evaluations=tuple(e for e in plan.evaluations if e.builds_engine)),
            Trained(training, Measured(trained_model().checkpoint), images=40),
            sets,
            Context(Workspace(tmp_path), NoProgress()),
        )
    ]
    assert tried == ["b"]
    assert found[0].ended is unprepared
    assert [each.ended.message for each in found[1:]] == ["the parser refuses the graph"] * 2


SAME_PIXELS = """\
name: same
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: pillow, resize: {name: pillow, size: 32}, same: true}
train: {epochs: 1, seeds: [0]}
evaluate: {backends: [torch, {name: tensorrt, precision: fp16}]}
"""


def cells_shown(folder, ended):
    """Predict the cells of two paths of equal pixels; give them and the lines of progress."""
    (folder / "same.yaml").write_text(SAME_PIXELS)
    plan = make_plan(load_experiment(folder / "same.yaml"))
    prepared = digits_case(first=900, count=20).prepared
    ways = {(name, "eval"): Measured(prepared) for name in ("a", "b")}
    sets = SimpleNamespace(prepared=ways, evaluated=lambda name: prepared, evaluation=None)
    shown = StringIO()
    context = Context(Workspace(folder), PlainProgress(shown))
    trained = Trained(plan.trainings[0], ended, images=40)
    found = [*predict_cells.predict_cells(plan, trained, sets, context)]
    return found, shown.getvalue().splitlines()


def test_a_cell_that_fails_is_run_once_for_all_paths_of_equal_pixels(tmp_path, monkeypatch):
    tried = []

    def refuse(evaluation, *_, **__):
        tried.append(evaluation.preprocess.name)
        raise BackendError("the runtime refuses the batch")

    monkeypatch.setattr(predict_cells, "predict", refuse)
    found, _ = cells_shown(tmp_path, Measured(trained_model().checkpoint))
    failed = [each for each in found if isinstance(each.ended, Failed)]
    assert [each.evaluation.preprocess.name for each in failed] == ["a", "b"]
    assert tried == ["a"]
