"""`assert_preprocess_aligned` for stacks, mappings and functions."""

import cv2
import numpy as np
import pytest

import alignkit
from alignkit import PreprocessDriftError, assert_preprocess_aligned
from alignkit.errors import ConfigError, NothingCompared
from alignkit.preprocess import Normalise
from tests.photos import make_jpegs

PILLOW = {"decode": "pillow", "resize": {"name": "opencv", "size": 32}}
OPENCV = {**PILLOW, "decode": "opencv"}
NEAREST = {**PILLOW, "decode": {"name": "simplejpeg", "chroma": "nearest"}}


@pytest.fixture(scope="module")
def images():
    jpegs = make_jpegs()
    return [jpegs["420"], jpegs["444"], jpegs["low-quality"]]


def serve(encoded: bytes) -> np.ndarray:
    """What a serving stack's own code does."""
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), (32, 32))


def test_stacks_that_agree_pass_and_give_the_verdict(images):
    verdict = assert_preprocess_aligned(PILLOW, OPENCV, images)
    assert verdict.state == "pass"
    assert len(verdict.rules) == 8


def test_drift_raises_and_names_the_stage_and_the_cause(images):
    with pytest.raises(PreprocessDriftError, match=r"decode\.changed") as caught:
        assert_preprocess_aligned(PILLOW, NEAREST, images)
    assert isinstance(caught.value, AssertionError)
    assert "chroma=nearest" in str(caught.value)
    assert caught.value.verdict.exit_code == 1


def test_rules_can_be_presets_and_mappings(images):
    rules = [{"metric": "decode.max_abs", "fail": 200}, {"metric": "coverage", "fail": 0}]
    assert assert_preprocess_aligned(PILLOW, NEAREST, images, rules=rules).state == "pass"
    with pytest.raises(PreprocessDriftError):
        assert_preprocess_aligned(PILLOW, NEAREST, images, rules=["decode"])


def test_the_same_stack_twice_is_no_comparison_unless_that_is_meant(images):
    for other in (PILLOW, {**PILLOW, "decode": {"name": "pillow"}, "orient": "none"}):
        with pytest.raises(NothingCompared, match="'same': True"):
            assert_preprocess_aligned(PILLOW, other, images)
    with pytest.raises(NothingCompared):
        assert_preprocess_aligned(serve, serve, images)
    assert assert_preprocess_aligned(PILLOW, {**PILLOW, "same": True}, images).state == "pass"
    with pytest.raises(ConfigError, match="same is not true"):
        assert_preprocess_aligned(PILLOW, {**OPENCV, "same": True}, images)


def test_a_rule_about_what_both_stacks_share_compares_nothing(images):
    area = {**PILLOW, "resize": {"name": "opencv", "size": 32, "interpolation": "area"}}
    with pytest.raises(PreprocessDriftError, match="candidate differs in resize"):
        assert_preprocess_aligned(PILLOW, area, images, rules=["decode"])


def test_files_and_folders_are_images(images, tmp_path):
    for index, encoded in enumerate(images):
        (tmp_path / f"{index}.jpg").write_bytes(encoded)
    assert assert_preprocess_aligned(PILLOW, OPENCV, tmp_path).state == "pass"
    assert assert_preprocess_aligned(PILLOW, OPENCV, [tmp_path / "0.jpg"]).state == "pass"


def test_a_function_that_gives_nan_is_not_aligned(images):
    def broken(encoded: bytes) -> np.ndarray:
        image = serve(encoded).astype(np.float32)
        image[16:] = np.nan
        return image

    rules = [{"metric": "colour.max_abs", "fail": 200}, {"metric": "colour.mean_abs", "fail": 100}]
    for images_of in (images, images[:1]):
        with pytest.raises(PreprocessDriftError, match="values are NaN or infinite"):
            assert_preprocess_aligned(OPENCV, broken, images_of, rules=rules)
    with pytest.raises(PreprocessDriftError, match="values are NaN or infinite"):
        assert_preprocess_aligned(
            OPENCV, lambda encoded: np.full((32, 32, 3), np.nan), images, rules=rules
        )


def test_a_function_is_compared_by_its_result(images):
    assert assert_preprocess_aligned(OPENCV, serve, images).state == "pass"
    with pytest.raises(PreprocessDriftError, match=r"colour\.changed"):
        assert_preprocess_aligned(OPENCV, lambda encoded: serve(encoded)[..., ::-1], images)


def test_a_function_may_give_a_tensor(images):
    def tensor(encoded):
        return Normalise()(serve(encoded))[None]

    assert assert_preprocess_aligned(OPENCV, tensor, images).state == "pass"
    rules = [{"metric": "normalise.max_abs", "fail": 0.01}]
    assert assert_preprocess_aligned(tensor, OPENCV, images, rules=rules).state == "pass"
    with pytest.raises(PreprocessDriftError, match="another shape"):
        assert_preprocess_aligned(OPENCV, lambda e: tensor(e)[..., 1:], images, rules=rules)


def test_a_function_that_gives_no_image_is_a_mistake(images):
    with pytest.raises(ConfigError, match=r"must be \(h, w, 3\)"):
        assert_preprocess_aligned(OPENCV, lambda _: np.zeros((4, 4)), images)


def test_a_mistake_in_a_mapping_or_a_rule_is_said(images):
    with pytest.raises(ConfigError, match="did you mean 'pillow'"):
        assert_preprocess_aligned({**PILLOW, "decode": "pilow"}, OPENCV, images)
    with pytest.raises(ConfigError, match="can never fire"):
        assert_preprocess_aligned(
            PILLOW, OPENCV, images, rules=[{"metric": "decode.max_abs", "fail": 255}]
        )


def test_no_images_is_no_pass():
    with pytest.raises(NothingCompared):
        assert_preprocess_aligned(PILLOW, OPENCV, [])


def test_the_package_names_what_it_has():
    assert alignkit.assert_preprocess_aligned is assert_preprocess_aligned
    with pytest.raises(AttributeError, match="nothing_such"):
        alignkit.nothing_such  # noqa: B018 - the access is what is tested
