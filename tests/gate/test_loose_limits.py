"""A limit that the same images with a planted fault would keep is said beside the verdict."""

import cv2
import numpy as np
import pytest

from alignkit import assert_preprocess_aligned
from tests.photos import encoded, scene

SIZE = 64
FILES = [encoded(scene(at, 90, 120), quality=90) for at in range(4)]
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def image(data: bytes) -> np.ndarray:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(cv2.cvtColor(found, cv2.COLOR_BGR2RGB), (SIZE, SIZE))


def tensor(data: bytes) -> np.ndarray:
    return ((image(data) / np.float32(255) - MEAN) / STD).transpose(2, 0, 1)


def mean_abs(spoil) -> float:
    pairs = ((image(each).astype(float), spoil(image(each).astype(float))) for each in FILES)
    return float(np.mean([np.abs(one - other).mean() for one, other in pairs]))


def max_abs(spoil) -> float:
    return max(float(np.abs(tensor(each) - spoil(tensor(each))).max()) for each in FILES)


SPOILT = {
    "swapped": mean_abs(lambda each: each[..., ::-1]),
    "turned": mean_abs(lambda each: each[::-1, ::-1]),
    "even": mean_abs(lambda each: np.full_like(each, int(each.mean()))),
}
IN_UNITS = {
    "even": max_abs(lambda each: np.full_like(each, each.mean())),
    "scaled": max_abs(lambda each: (each - each.min()) / (each.max() - each.min())),
}
LEAST = min(SPOILT["even"], max(SPOILT.values()))


@pytest.mark.parametrize(
    ("own", "metric", "limit", "loose"),
    [
        (image, "colour.mean_abs", LEAST * 1.01, True),
        (image, "colour.mean_abs", LEAST * 0.99, False),
        (image, "colour.mean_abs", 254, True),
        (image, "colour.psnr", 1, True),
        (image, "colour.psnr", 40, False),
        (image, "colour.changed", 0.99, False),
        (tensor, "normalise.max_abs", min(IN_UNITS.values()) * 1.01, True),
        (tensor, "normalise.max_abs", min(IN_UNITS.values()) * 0.99, False),
        (tensor, "normalise.mean_abs", 0.01, False),
    ],
)
def test_a_limit_of_a_functions_result_is_held_against_faults_in_it(own, metric, limit, loose):
    def moved(data):
        return own(data) + (1e-3 if own is tensor else 0)

    verdict = assert_preprocess_aligned(
        own, moved, FILES, rules=[{"metric": metric, "fail": limit}]
    )
    assert verdict.state == "pass"
    assert ("A limit that holds nothing" in verdict.sentence) == loose
    assert ("Aligned" in verdict.sentence) == (not loose)
    assert verdict.said.steps[0].words.startswith("Set that limit" if loose else "Nothing")


@pytest.mark.parametrize(
    ("metric", "limit", "loose"),
    [
        ("resize.mean_abs", 254, True),
        ("resize.mean_abs", 10, False),
        ("resize.psnr", 1, True),
        ("resize.psnr", 20, False),
        ("decode.mean_abs", 200, True),
        ("decode.mean_abs", 9, False),
    ],
)
def test_a_limit_of_a_stage_is_held_against_the_planted_faults(metric, limit, loose):
    one = {"decode": "pillow", "resize": {"name": "opencv", "size": SIZE}}
    other = {"decode": {"name": "simplejpeg", "chroma": "nearest"},
             "resize": {"name": "opencv", "size": SIZE, "interpolation": "area"}}  # fmt: skip
    rules = [{"metric": metric, "fail": limit}, {"metric": "decode.changed", "warn": 0}]
    said = assert_preprocess_aligned(one, other, FILES, rules=rules).sentence
    assert (f"{metric} {limit:g} would pass" in said) == loose
    assert ("with channels swapped" in said) == loose
