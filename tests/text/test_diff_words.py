"""What a diff says about a model's predictions."""

from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.experiment.yaml_argument import named_paths
from alignkit.predict.decoder import AnswerDecoder
from alignkit.record.diff_document import GivenModel
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import ClassifierTally, MixedPair
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks import ClassMap
from alignkit.tasks.classification import Classification
from alignkit.text.diff_words import flips_sentence, prediction_lines

MODEL = GivenModel(name="m.onnx", sha256="", runtime="onnxruntime", outputs=3)
PATHS = named_paths(["opencv-train", "pillow-train"], size=16)
PAIR = MixedPair.of(*(each.preprocess for each in PATHS))
LOGITS = np.array([[3, 1, 0], [0, 2, 1], [1, 0, 4], [5, 1, 1]], np.float32)


def drifted(before, after):
    ids = tuple(f"{place}.png" for place in range(len(before)))
    samples = Samples(ids, (), (), lambda index: b"", "")
    names = ("a", "b", "c")
    decoder = AnswerDecoder(Classification(), ClassMap((), outside=names))
    opened = SimpleNamespace(outputs=names, decoder=decoder)
    found = [before, *[after] * PAIR.candidate]  # every part of the candidate alone moves them
    tally = ClassifierTally.of(samples, found, PAIR, opened)
    return tally.drift(PAIR, {"left_out": 0, "left_out_reason": ""}, opened, samples, {})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_output_that_is_not_finite_on_both_paths_is_not_judged(value):
    before, after = LOGITS.copy(), LOGITS.copy()
    before[0, 0] = after[0, 0] = after[1, 2] = value
    drift = drifted(before, after)
    assert (drift.n, drift.non_finite, drift.flips) == (2, 2, 0)
    said = flips_sentence(drift, "m.onnx").replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(
        "2 of 4 images have an output that is NaN or infinite; of the others, 0 "
    )
    assert "of 2 predictions" in said
    lines = prediction_lines(drift, MODEL, CLASSIFICATION)
    assert not [each for each in lines if "NaN" in each]


@pytest.mark.parametrize("lost", range(3))
def test_images_that_are_lost_are_counted_where_the_others_compare_nothing(lost):
    same = np.tile(LOGITS[0], (4, 1))
    same[:lost, 0] = np.nan
    said = flips_sentence(drifted(same, same), "m").replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(f"{lost} of 4 images have an output " if lost else "m: nothing was com")
    assert "m: nothing was compared: all images have the same" in said


def test_nothing_is_said_to_be_unchanged_where_no_output_is_finite():
    lost = np.full_like(LOGITS, np.nan)
    drift = drifted(lost, lost)
    assert (drift.n, drift.non_finite, drift.churn.value) == (0, 4, None)
    expected = "m: nothing was compared: no image has finite outputs on both paths"
    assert flips_sentence(drift, "m") == expected
    assert prediction_lines(drift, MODEL, CLASSIFICATION)


def test_a_margin_that_grows_is_gained():
    (line,) = (
        each
        for each in prediction_lines(drifted(LOGITS, 1.5 * LOGITS), MODEL, CLASSIFICATION)
        if each.startswith("margins")
    )
    assert line.startswith("margins: 50.0\N{NO-BREAK SPACE}% gained in the median; ")
    less = prediction_lines(drifted(LOGITS, 0.5 * LOGITS), MODEL, CLASSIFICATION)
    assert any("50.0\N{NO-BREAK SPACE}% lost in the median" in each for each in less)
