"""Files of one picture are one image of it, whatever is compared: every surface says so."""

import cv2
import numpy as np
import pytest

from alignkit import assert_preprocess_aligned
from tests.cli.test_match import linear_model
from tests.compare.test_copies import ALIKE, JPEG
from tests.gate_case import GateCase
from tests.photos import encoded, scene

A = {"decode": "pillow", "resize": {"name": "opencv", "size": 32}}
B = {"decode": "opencv", "resize": {"name": "opencv", "interpolation": "area", "size": 32}}
PATHS = """\
  a: {decode: pillow, resize: {name: opencv, size: 32}}
  b: {decode: opencv, resize: {name: opencv, interpolation: area, size: 32}}
"""
LOOSE = "{metric: resize.mean_abs, fail: 99}"
STRICT = "{preset: strict, against: baseline}"
SAID = "7 of 16 images have the pixels of another: 9 different images"


@pytest.fixture
def case(tmp_path):
    """Nine pictures, one of them in seven files more; no file has the bytes of another."""
    made = GateCase(tmp_path)
    made.images.mkdir()
    files = {"0": JPEG, **{f"p{at}": encoded(scene(at, 50, 70)) for at in range(8)}}
    for name, data in {
        **files,
        **{f"z{at}": each for at, each in enumerate(ALIKE.values())},
    }.items():
        (made.images / f"{name}.jpg").write_bytes(data)
    linear_model(tmp_path / "model.onnx", 32)
    return made


@pytest.fixture
def said(alignkit, case):
    """Run a command; return its words on one line."""

    def call(*words, code=0):
        told = alignkit(*words)
        assert told.code == code, told
        return " ".join(told.out.split())

    return call


def gate(case, *rules, **file):
    return "gate", case.write(*rules, **file), "--no-html", "--reports", case.reports


def test_a_diff_says_so_with_and_without_a_model(said, case):
    stacks = (line.strip().replace(": {", ", ", 1) for line in PATHS.splitlines())
    words = "diff", case.images, *(f"--preprocess={{name: {each}" for each in stacks)
    assert SAID in said(*words)
    assert SAID in said(*words, "--model", case.folder / "model.onnx")
    assert SAID in said("data", "stats", case.images)


def test_a_gate_says_so_of_paths_and_of_a_baseline(said, case):
    assert SAID in said(*gate(case, LOOSE, paths=PATHS))
    one = case.write(STRICT, paths="  a: {decode: pillow, resize: {name: opencv, size: 32}}\n")
    said("baseline", "record", one, "--reports", case.reports)
    assert SAID in said("gate", one, "--no-html", "--reports", case.reports)


def test_a_run_says_so_and_draws_the_picture_once(said, case):
    model = f"models: [{{name: m, onnx: {case.folder}/model.onnx, preprocess: a}}]\n"
    rule = "{metric: churn, fail: 0.9}"
    file = case.write(rule, paths=PATHS + model)
    assert SAID in said("run", file, "--reports", case.reports)


def test_a_match_says_so_and_checks_on_no_image_that_it_has_seen(said, case):
    found = said("match", "--images", case.images, "--target", "pillow-train", "--size", 32)
    assert "images have the pixels of another" in found
    for at in range(8):
        (case.images / f"p{at}.jpg").unlink()
    found = said("match", "--images", case.images, "--target", "pillow-train", "--size", 32)
    assert "7 of 7 images" not in found
    assert "No image was left to check it on" in found
    assert "6 of 7 images have the pixels of another: 1 different image" in found


def own(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), (32, 32))


@pytest.mark.parametrize(("candidate", "stage"), [(B, "resize"), (own, "colour")])
def test_an_assertion_says_so(case, candidate, stage):
    rules = [{"metric": f"{stage}.mean_abs", "fail": 99}]
    verdict = assert_preprocess_aligned(A, candidate, case.images, rules=rules)
    assert SAID in verdict.sentence.replace("\N{NO-BREAK SPACE}", " ")
