"""Finalists by how many predictions of a model they change."""

import numpy as np

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.match import match
from alignkit.match.configurations import Configuration
from alignkit.match.drift import with_churn
from alignkit.match.target import path_of, path_target
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from tests.match.test_match import photographs


class Sensitive:
    """Forty random projections of the pixels' deviation from their mean."""

    def predict(self, batch: np.ndarray) -> np.ndarray:
        flat = batch.reshape(len(batch), -1) - batch.mean(axis=(1, 2, 3))[:, None]
        weights = np.random.default_rng(0).normal(size=(flat.shape[1], 40))
        return (flat @ weights).astype(np.float32)


def test_the_target_s_own_configuration_changes_no_prediction_and_comes_first():
    samples = photographs()
    target = path_target(path_of("pillow-train", 32), samples)
    configurations = [
        Configuration(OpenCVDecoder(), resizer)
        for resizer in (PillowResizer(), PillowResizer("lanczos"), OpenCVResizer("nearest"))
    ]
    found = match(target, samples, range(len(samples)), configurations)
    ranked = with_churn(found, target, samples, range(len(samples)), Sensitive())
    assert ranked.winner.configurations == (configurations[0],)
    churns = [each.churn.value for each in ranked.ranking]
    assert churns[0] == 0.0
    assert churns == sorted(churns)
    assert churns[-1] > 0
    assert [path.resize.resizer for path in ranked.paths] == [
        each.configurations[0].resizer for each in ranked.ranking
    ]
