"""Advice is checked: what it promised to remove is removed."""

import numpy as np
import pytest

from alignkit.attribute.mitigation import check_mitigation
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.match import match
from alignkit.match.configurations import configurations
from alignkit.match.serving import serving_options
from alignkit.match.target import path_target
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.resizers.torchvision import TorchvisionResizer
from tests.attribute.test_attribute import ONE_RUNTIME
from tests.stacks import REFERENCE, changed, turned_photos


def test_taking_back_a_stage_removes_its_share_and_no_other():
    found = check_mitigation(
        REFERENCE,
        changed("decode", "resize"),
        changed("decode"),
        turned_photos(),
        [ONE_RUNTIME],
        resamples=200,
    )
    pixels = found["pixels"]
    assert pixels.changed == ("resize",)
    assert pixels.before.value > pixels.after.value > 0
    assert pixels.expected == pytest.approx(pixels.after.value, rel=0.4)
    assert "(resize changed) was expected to leave" in pixels.sentence("half-pixel resize")


def test_taking_back_all_leaves_nothing():
    found = check_mitigation(
        REFERENCE, changed("decode", "resize"), REFERENCE, turned_photos(), [ONE_RUNTIME]
    )
    for mitigation in found.values():
        assert mitigation.expected == pytest.approx(0.0, abs=1e-12)
        assert mitigation.after.value == 0.0
        assert mitigation.confirmed


def test_a_change_that_makes_it_worse_is_not_confirmed():
    found = check_mitigation(
        REFERENCE, changed("decode"), changed("resize"), turned_photos(), resamples=200, models=[]
    )
    assert found["pixels"].after.value > found["pixels"].before.value
    assert not found["pixels"].confirmed
    assert found["churn"].sentence("it") == "Churn: no model was given"


class Linear:
    """Ridge regression of the classes on pixels."""

    def __init__(self, batch: np.ndarray, labels: tuple[int, ...]) -> None:
        from sklearn.linear_model import RidgeClassifier

        self.model = RidgeClassifier(alpha=1e4).fit(self.flat(batch), labels)

    @staticmethod
    def flat(batch: np.ndarray) -> np.ndarray:
        return batch.reshape(len(batch), -1)

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return self.model.decision_function(self.flat(batch)).astype(np.float32)


@pytest.mark.slow
def test_on_flowers_the_advised_serving_options_bring_the_model_home(shared_data):
    from alignkit.datasets.folder import Folder

    size = (48, 48)
    trained = Preprocess("trained", SimpleJPEGDecoder(), Resize(PillowResizer(), size))
    served = Preprocess(
        "served",
        SimpleJPEGDecoder(chroma="nearest"),
        Resize(TorchResizer(align_corners=True), size),
    )
    data = Folder(shared_data / "flowers12")
    training, evaluation = data.training(), data.evaluation()
    tensors = [
        trained.normalise(trained.taps(training.read(row)).last) for row in range(len(training))
    ]
    model = {frozenset[str](): Linear(np.stack(tensors), training.labels)}

    target = path_target(trained, training)
    options = serving_options()
    found = match(target, training, range(len(training)), list(options), probe=64)
    best = found.winner.configurations[0]
    assert best.resizer == TorchvisionResizer()
    advised = best.path(target.geometry, trained.normalise, "advised")
    checked = check_mitigation(trained, served, advised, evaluation, [model])["churn"]
    assert checked.before.value > 0.05
    assert checked.expected < 0.2 * checked.before.value
    assert checked.after.value < 0.2 * checked.before.value
    assert checked.confirmed
    assert len(configurations(target.geometry)) > len(options)
