"""A function whose result is not of the image that it is given compares nothing."""

import functools

import cv2
import numpy as np
import pytest

from alignkit import PreprocessDriftError, assert_preprocess_aligned
from alignkit.errors import NothingCompared
from tests.photos import encoded, photo

OPENCV = {"decode": "opencv", "resize": {"name": "opencv", "size": 32}}
KEPT = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)


@pytest.fixture(scope="module")
def images():
    return [encoded(photo(height=60 + at, width=80 + 2 * at), quality=90) for at in range(12)]


def serve(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), (32, 32))


def first_only():
    """Return what keeps the result of the first image, as a mistaken cache does."""
    kept = []

    def function(data: bytes) -> np.ndarray:
        if not kept:
            kept.append(serve(data))
        return kept[0]

    return function


BLIND = {
    "constant": lambda: lambda _: KEPT.copy(),
    "the same object": lambda: lambda _: KEPT,
    "zeros": lambda: lambda _: np.zeros((32, 32, 3), np.uint8),
    "grey": lambda: lambda _: np.full((32, 32, 3), 114, np.uint8),
    "tensor": lambda: lambda _: np.full((3, 32, 32), 0.5, np.float32),
    "first result": first_only,
    "decorated": lambda: functools.cache(lambda _: KEPT),
}


@pytest.mark.parametrize("many", [True, False], ids=["twelve", "one"])
@pytest.mark.parametrize("kind", BLIND)
def test_functions_that_ignore_their_argument_compare_nothing(images, kind, many):
    shown = images if many else images[:1]
    with pytest.raises(NothingCompared, match="not of the bytes"):
        assert_preprocess_aligned(BLIND[kind](), BLIND[kind](), shown)
    for sides in ((OPENCV, BLIND[kind]()), (BLIND[kind](), OPENCV)):
        with pytest.raises(NothingCompared, match="not of the bytes"):
            assert_preprocess_aligned(*sides, shown)


def test_a_candidate_that_returns_the_buffer_of_the_reference_compares_nothing(images):
    buffer = np.empty((32, 32, 3), np.uint8)

    def filling(data: bytes) -> np.ndarray:
        buffer[:] = serve(data)
        return buffer

    with pytest.raises(NothingCompared, match="the candidate function"):
        assert_preprocess_aligned(filling, lambda _: buffer, images)


def test_nan_fails_as_nan(images):
    for other in (OPENCV, lambda _: np.full((32, 32, 3), np.nan)):
        with pytest.raises(PreprocessDriftError, match="values are NaN or infinite"):
            assert_preprocess_aligned(lambda _: np.full((32, 32, 3), np.nan), other, images)


def test_one_default_for_many_images_was_not_compared(images):
    def lenient(data: bytes) -> np.ndarray:
        return np.zeros((32, 32, 3), np.uint8) if data in images[:4] else serve(data)

    with pytest.raises(NothingCompared, match=r"3 of 12\xa0images.*image 1 that of image 0"):
        assert_preprocess_aligned(lenient, lambda data: lenient(data).copy(), images)


def test_a_few_that_were_not_compared_are_said(images):
    many = images + [encoded(photo(height=90 + at, width=80 + at)) for at in range(30)]

    def lenient(data: bytes) -> np.ndarray:
        return np.zeros((32, 32, 3), np.uint8) if data in many[:2] else serve(data)

    verdict = assert_preprocess_aligned(lenient, lambda data: lenient(data).copy(), many)
    assert "1 of 42\xa0images has the result of another" in verdict.sentence


def test_images_that_show_the_same_may_have_equal_results(images):
    """Copies, and the pixels of a file in another format."""
    image = cv2.imdecode(np.frombuffer(images[0], np.uint8), cv2.IMREAD_COLOR)
    again = [images[0], images[0], cv2.imencode(".png", image)[1].tobytes()]
    for shown in (again, images[:1], images):
        assert assert_preprocess_aligned(serve, functools.partial(serve), shown).state == "pass"
        assert assert_preprocess_aligned(OPENCV, serve, shown).state == "pass"


def test_a_function_that_refuses_other_images_has_read_them(images):
    def own(data: bytes) -> np.ndarray:
        if data not in images:
            raise ValueError("no image of ours")
        return serve(data)

    assert assert_preprocess_aligned(own, serve, images[:1]).state == "pass"
