"""Finalists by how many predictions of a model they change."""

import numpy as np
import pytest

import alignkit
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import ConfigError
from alignkit.predict.decoder import AnswerDecoder
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.search import match
from alignkit.search.configurations import Configuration
from alignkit.search.match_request import with_churn
from alignkit.search.match_result import Match
from alignkit.search.match_text import fewer_changes, headline
from alignkit.search.target import preprocess_of, preprocess_target
from alignkit.tasks import ClassMap, usual_task
from tests.runner import test_detection_run as squares
from tests.search.test_search import photographs


class Sensitive:
    """Forty random projections of the pixels' deviation from their mean."""

    outputs = 40

    def predict(self, batch: np.ndarray) -> tuple[np.ndarray]:
        flat = batch.reshape(len(batch), -1) - batch.mean(axis=(1, 2, 3))[:, None]
        weights = np.random.default_rng(0).normal(size=(flat.shape[1], 40))
        return ((flat @ weights).astype(np.float32),)


class Scripted:
    """Class 1 for so many of the images: of the target's, of the nearest's and so on."""

    outputs = 2

    def __init__(self, *ones: int) -> None:
        self.ones = list(ones)

    def predict(self, batch: np.ndarray) -> tuple[np.ndarray]:
        return (
            np.eye(2, dtype=np.float32)[(np.arange(len(batch)) < self.ones.pop(0)).astype(int)],
        )


def with_model(resizers: tuple, model: object) -> Match:
    samples = photographs()
    target = preprocess_target(preprocess_of("pillow-train", 32))
    configurations = [Configuration(OpenCVDecoder(), each) for each in resizers]
    found = match(target, samples, range(len(samples)), configurations)
    outputs = tuple(f"output {number}" for number in range(model.outputs))
    decoder = AnswerDecoder(usual_task(), ClassMap((), outputs))
    asked = with_churn(found, target, samples, range(len(samples)), model, decoder)
    assert [each.configurations for each in asked.ranking] == [
        each.configurations for each in found.ranking
    ]
    assert asked.preprocesses == found.preprocesses
    return asked


def test_the_target_s_own_configuration_changes_no_prediction():
    resizers = (PillowResizer(), PillowResizer("lanczos"), OpenCVResizer("nearest"))
    asked = with_model(resizers, Sensitive())
    assert asked.winner.configurations[0].resizer == resizers[0]
    churns = [each.churn.value for each in asked.ranking]
    assert churns[0] == 0.0
    assert churns[-1] > 0
    assert fewer_changes(asked, {}) == ""


def test_the_nearest_stays_the_nearest_where_a_farther_one_changes_fewer_predictions():
    asked = with_model((PillowResizer("lanczos"), OpenCVResizer("nearest")), Scripted(0, 6, 3))
    assert [each.churn.value for each in asked.ranking] == pytest.approx([6 / 15, 3 / 15])
    assert headline(asked, {}).startswith("near: opencv ▸ pillow filter=lanczos comes nearest to")
    assert "it is still the nearest" in headline(asked, {})
    fewer = fewer_changes(asked, {})
    assert fewer.startswith("Of the model's predictions, number 2 changes fewer than the nearest: ")
    assert "opencv ▸ opencv interpolation=nearest 20.00\N{NO-BREAK SPACE}% [" in fewer
    assert ", the nearest 40.00\N{NO-BREAK SPACE}% [" in fewer


def test_a_detector_s_finalists_change_as_many_images_as_a_diff_of_them_does(tmp_path):
    squares.write_images(tmp_path / "squares")
    squares.write_detector(tmp_path / "patches.onnx")
    target = {"preset": "ultralytics-letterbox", "size": 96}
    images, model = tmp_path / "squares" / "images", tmp_path / "patches.onnx"
    found = alignkit.match(
        target, images, decoders=["opencv"], resizers=["opencv"], model=model, task="detection"
    ).match
    churns = [each.churn.value for each in found.ranking]
    assert churns[0] == 0.0
    assert len(churns) > 1
    last = found.preprocesses[-1]
    compared = alignkit.diff(images, target, last, model=model, task="detection").record
    assert churns[-1] == compared.pairs[0].predictions.churn.value


def test_a_task_without_a_model_is_refused():
    with pytest.raises(ConfigError, match="add --model"):
        alignkit.match("pillow-train", photographs(), task="detection")
