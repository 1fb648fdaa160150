import json
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import xxhash

from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.torch import TorchBackend
from alignkit.errors import BackendError, DataError, MissingDependency, NothingCompared
from alignkit.plan.work import Evaluation, Runtime
from alignkit.predict import cell_parts, open_session, predict, stored_answer
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.places import UnknownPlaces
from alignkit.predict.session_inputs import records_of
from alignkit.prepare import Prepared, SampleOutcome
from alignkit.samples import Samples
from alignkit.tasks import ClassMap
from alignkit.tasks.classification import Classification
from alignkit.workspace import Workspace, content_key
from tests.backends.model import trained_model
from tests.training_case import digits_case

TORCH = Runtime("torch", TorchBackend(), "fp32", "torch")
ONNX = Runtime("onnxruntime", ONNXRuntimeBackend(), "fp32", "onnxruntime")
ONE_CLASS = AnswerDecoder(Classification(scores="sigmoid"), ClassMap(("one", "two")))


@pytest.fixture(scope="module")
def model():
    return trained_model()


@pytest.fixture(scope="module")
def case():
    return digits_case(first=900, count=90)


def evaluation_of(case, runtime=TORCH):
    parts = {"training": "planned", "runtime": [runtime.name, runtime.precision]}
    return Evaluation(case.training, case.training.preprocess, runtime, parts)


def run(case, model, root, runtime=TORCH, session=None, **changes):
    evaluation = changes.pop("evaluation", evaluation_of(case, runtime))
    arguments = {
        "prepared": case.prepared,
        "samples": case.samples,
        "batch_size": 25,
        "workspace": Workspace(root),
        **changes,
    }
    if session is not None:
        return predict(evaluation, model.checkpoint, session, **arguments)
    with open_session(runtime, model.checkpoint, model.onnx) as opened:
        return predict(evaluation, model.checkpoint, opened, **arguments)


class Constant:
    """A backend that answers the same for everything."""

    def __init__(self, answer):
        self.answer, self.batches, self.closed = answer, [], False

    def predict(self, batch):
        self.batches.append(batch)
        return (self.answer(batch),)

    def effective(self):
        return {"precision": "fp32"}

    def close(self):
        self.closed = True


def test_predictions_stand_in_the_order_of_the_data(case, model, tmp_path):
    answer = run(case, model, tmp_path)
    predictions, effective = answer.predictions, answer.effective
    expected = model.predict(TorchBackend(), "fp32")
    assert np.abs(predictions.logits - expected).max() < 1e-5
    assert predictions.ids == case.samples.ids
    assert tuple(predictions.labels) == case.samples.labels
    assert predictions.classes == case.samples.classes
    assert effective["precision"] == "fp32"


@pytest.mark.parametrize("runtime", [TORCH, ONNX], ids=["torch", "onnxruntime"])
def test_a_cell_holds_the_bits_of_a_bare_loop(case, model, tmp_path, runtime):
    normalise = case.training.preprocess.normalise
    scaled = case.prepared.pixels[case.prepared.rows] / np.float32(255)
    mean, std = (np.array(each, np.float32) for each in (normalise.mean, normalise.std))
    tensors = np.ascontiguousarray(((scaled - mean) / std).transpose(0, 3, 1, 2))
    with open_session(runtime, model.checkpoint, model.onnx) as session:
        bare = [session.predict(tensors[start : start + 25])[0] for start in range(0, 90, 25)]
    answer = run(case, model, tmp_path, runtime)
    assert answer.predictions.logits.tobytes() == np.concatenate(bare).tobytes()
    assert answer.inputs == xxhash.xxh3_128(tensors.tobytes()).hexdigest()


class Watched:
    """Inputs that say when each batch was made, and may fail at one."""

    def __init__(self, count, fails=None):
        self.count, self.fails = count, fails
        self.made = [Event() for _ in range(count)]
        self.indices = np.arange(count)

    def __len__(self):
        return self.count

    def part(self, start, stop, *, count):
        if start == self.fails:
            raise DataError("this batch cannot be made")
        self.made[start].set()
        return np.full((stop - start, 1), start, np.float32)

    def places(self, start, stop):
        return UnknownPlaces(stop - start)

    def spans(self, size):
        return [(start, start + size) for start in range(0, self.count, size)]


def samples(count):
    return Samples(tuple(map(str, range(count))), (), (), bytes, "")


def test_a_batch_is_made_while_the_session_predicts_the_one_before():
    inputs = Watched(3)

    def answer(batch):
        following = int(batch[0, 0]) + 1
        assert following == 3 or inputs.made[following].wait(60)
        return batch

    answered = records_of(Constant(answer), inputs, ONE_CLASS, samples(3), 1).records
    assert answered[:, 0].tolist() == [0, 1, 2]


def test_a_batch_that_cannot_be_made_ends_the_cell_after_those_before_it():
    session = Constant(lambda batch: batch)
    with pytest.raises(DataError, match="cannot be made"):
        records_of(session, Watched(4, fails=2), ONE_CLASS, samples(4), 1)
    assert len(session.batches) == 2


def test_a_stored_cell_is_read_without_a_session(case, model, tmp_path):
    evaluation = evaluation_of(case)
    assert stored_answer(evaluation, model.checkpoint, Workspace(tmp_path)) is None
    answer = run(case, model, tmp_path)
    again = stored_answer(evaluation, model.checkpoint, Workspace(tmp_path))
    assert again.predictions.logits.tobytes() == answer.predictions.logits.tobytes()
    assert again.predictions.ids == answer.predictions.ids
    assert replace(again, predictions=None) == replace(answer, predictions=None)
    silent = Constant(lambda batch: pytest.fail("predicted again"))
    run(case, model, tmp_path, session=silent)


def test_the_cell_lies_beside_what_really_ran(case, model, tmp_path):
    answer = run(case, model, tmp_path, runtime=ONNX)
    parts = cell_parts(evaluation_of(case, ONNX), model.checkpoint)
    folder = Workspace(tmp_path).stored("cells", content_key(parts))
    assert sorted(each.name for each in folder.iterdir()) == [
        "key.json", "predictions.parquet", "session.json",
    ]  # fmt: skip
    told = json.loads((folder / "session.json").read_text())
    assert told["effective"] == answer.effective
    assert answer.effective["provider"] == "CPUExecutionProvider"


def test_another_checkpoint_is_another_cell(case, model):
    evaluation = evaluation_of(case)
    other = replace(model.checkpoint, key="other")
    assert cell_parts(evaluation, model.checkpoint) != cell_parts(evaluation, other)


def test_images_the_path_did_not_decode_are_left_out(case, model, tmp_path):
    rows = np.arange(-1, 89)
    outcomes = (SampleOutcome("digit-900", "failed", "truncated"), *case.prepared.outcomes[1:])
    prepared = Prepared(lambda: case.prepared.pixels[1:], rows, outcomes)
    predictions = run(case, model, tmp_path, prepared=prepared).predictions
    whole = run(case, model, tmp_path / "whole").predictions
    assert predictions.ids == case.samples.ids[1:]
    assert np.abs(predictions.logits - whole.logits[1:]).max() < 1e-5


def test_a_path_that_decoded_nothing_is_refused(case, model, tmp_path):
    nothing = Prepared(lambda: case.prepared.pixels[:0], np.full(90, -1), case.prepared.outcomes)
    with pytest.raises(NothingCompared, match="aligned decoded no image"):
        run(case, model, tmp_path, prepared=nothing)


def test_every_backend_is_handed_the_same_arrays(case, model, tmp_path):
    seen = []
    for _ in range(2):
        session = Constant(lambda batch: np.zeros((len(batch), 10), np.float32))
        run(case, model, tmp_path / str(len(seen)), session=session)
        seen.append(session.batches)
    assert [len(each) for each in seen[0]] == [25, 25, 25, 15, *[1] * 16]
    assert all(np.array_equal(one, other) for one, other in zip(*seen, strict=True))
    assert np.array_equal(np.concatenate(seen[0][:4]), model.batch)
    assert np.array_equal(np.concatenate(seen[0][4:]), model.batch[:16])
    assert seen[0][0].dtype == np.float32


def test_non_finite_logits_are_kept_as_they_are(case, model, tmp_path):
    session = Constant(lambda batch: np.full((len(batch), 10), np.inf, np.float32))
    answer = run(case, model, tmp_path, session=session)
    assert np.isinf(answer.predictions.logits).all()
    assert (~answer.predictions.finite()).sum() == 90
    assert answer.batch.max_abs is None
    assert answer.batch.reason == "no sample has finite outputs on both sides"


@pytest.mark.parametrize(
    "answer",
    [lambda batch: np.zeros((len(batch), 9), np.float32), lambda batch: np.zeros((len(batch), 10))],
)
def test_logits_of_another_shape_or_type_are_refused(answer, case, model, tmp_path):
    with pytest.raises(BackendError, match=r"not float32 \(\d+, 10\); export"):
        run(case, model, tmp_path, session=Constant(answer))


def test_classes_and_input_size_must_be_the_models(case, model, tmp_path):
    with pytest.raises(DataError, match="has 9 classes, the model 10"):
        run(case, model, tmp_path, samples=replace(case.samples, classes=case.samples.classes[:9]))
    cropped = Prepared(
        lambda: case.prepared.pixels[:, 2:-2, 2:-2], case.prepared.rows, case.prepared.outcomes
    )
    with pytest.raises(DataError, match=r"\(3, 28, 28\), the model takes \(3, 32, 32\)"):
        run(case, model, tmp_path, prepared=cropped)


def test_sessions_are_closed_even_after_an_error(case, model):
    session = Constant(lambda batch: batch)

    class Backend:
        def open(self, checkpoint, onnx, precision):
            return session

    with (
        pytest.raises(ZeroDivisionError),
        open_session(Runtime("constant", Backend(), "fp32", ""), model.checkpoint),
    ):
        raise ZeroDivisionError
    assert session.closed


def test_a_skipped_runtime_is_not_opened(model):
    skipped = replace(TORCH, skipped="needs an NVIDIA GPU")
    with (
        pytest.raises(MissingDependency, match="torch fp32: needs an NVIDIA GPU"),
        open_session(skipped, model.checkpoint),
    ):
        pytest.fail("opened")


def test_the_recorded_hash_is_that_of_the_tensors_whatever_the_runtime_and_batch(
    case, model, tmp_path
):
    expected = xxhash.xxh3_128(np.ascontiguousarray(model.batch).tobytes()).hexdigest()
    answers = [
        run(case, model, tmp_path / str(index), runtime=runtime, batch_size=size)
        for index, (runtime, size) in enumerate([(TORCH, 25), (ONNX, 25), (TORCH, 7), (ONNX, 90)])
    ]
    assert {each.inputs for each in answers} == {expected}
    changed = Prepared(lambda: case.prepared.pixels ^ 1, case.prepared.rows, case.prepared.outcomes)
    assert run(case, model, tmp_path / "other", prepared=changed).inputs != expected


def test_a_session_that_answers_by_the_size_of_its_batch_is_shown(case, model, tmp_path):
    def answer(batch):
        logits = np.zeros((len(batch), 10), np.float32)
        logits[:, 3] = 1
        if len(batch) == 1:
            logits[:, 4] = np.float32(1.25)
        return logits

    found = run(case, model, tmp_path, session=Constant(answer)).batch
    assert (found.images, found.batch, found.max_abs, found.flips) == (16, 25, 1.25, 16)


def test_runtimes_that_do_not_look_at_the_batch_are_within_rounding(case, model, tmp_path):
    found = run(case, model, tmp_path).batch
    alone = np.concatenate(
        [model.predict(TorchBackend(), "fp32", model.batch[i : i + 1]) for i in range(16)]
    )
    together = model.predict(TorchBackend(), "fp32", model.batch[:25])[:16]
    assert found.max_abs == float(np.abs(alone - together).max())
    assert found.flips == 0


def test_batches_of_one_have_nothing_to_compare_with(case, model, tmp_path):
    found = run(case, model, tmp_path, batch_size=1).batch
    assert found.max_abs is None
    assert "holds one image" in found.reason
