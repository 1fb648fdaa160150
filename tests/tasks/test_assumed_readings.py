"""A reading that neither a file nor a label shows is told by the outputs, and not by its words."""

import pytest

from alignkit.tasks import OutputShape
from alignkit.tasks.classification import Classification
from alignkit.tasks.detection import Detection
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.segmentation import Segmentation

ROW, ONE, MAP, BINARY = (None, 5), (None, 1), (None, 5, 8, 8), (None, 1, 8, 8)


def shape(sides, scale="", name="y", *, whole=False):
    return OutputShape(name, sides, whole=whole, scale=scale)


ASSUMED = "assumed, as"
CASES = {
    # name: task, output, number of classes that are named; whether its reading is assumed
    "a row": (Classification(), shape(ROW), None, True),
    "a row of an open shape": (Classification(), shape(None), None, True),
    "a convolution's row": (Classification(), shape((None, 5, 1, 1), "logits"), None, True),
    "a row of named classes": (Classification(), shape(ROW), 5, False),
    "a row of probabilities": (Classification(), shape(ROW, "probabilities"), None, False),
    "ids": (Classification(), shape((None,), whole=True), None, False),
    "one logit": (Classification(), shape(ONE, "logits"), None, True),
    "one logit of two names": (Classification(), shape(ONE, "logits"), 2, False),
    "one logit by an option": (Classification(scores="sigmoid"), shape(ONE), None, False),
    "one probability": (Classification(), shape(ONE, "probabilities"), None, False),
    "a name with our words": (Classification(), shape(ROW, "probabilities", ASSUMED), 5, False),
    "labels": (MultiLabel(), shape(ROW), 5, True),
    "labels by a file": (MultiLabel(), shape(ROW, "logits"), None, False),
    "labels by an option": (MultiLabel(scores="percent"), shape(ROW), None, False),
    "a binary map": (Segmentation(), shape(BINARY), 2, True),
    "a binary map by a file": (Segmentation(), shape(BINARY, "probabilities"), 2, False),
    "a binary map of ids": (Segmentation(), shape(BINARY, whole=True), 2, False),
    "a map of classes": (Segmentation(), shape(MAP), 5, False),
    "boxes": (Detection(), shape((None, 9, 100)), 5, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reading_is_assumed_where_nothing_shows_it(name):
    task, output, classes, assumed = CASES[name]
    assert task.assumes([output], classes) is assumed
    if output.name == "y":
        assert (ASSUMED in task.recognise([output], classes)) is assumed
