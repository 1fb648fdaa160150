"""Images that no side decodes are counted on every surface, and fail a gate above 5 %."""

import json
from pathlib import Path

import pytest

from alignkit.api.diff_result import diff
from alignkit.errors import NothingCompared
from alignkit.gate.assertion import PreprocessDriftError, assert_preprocess_aligned
from tests.cli.conftest import alignkit  # noqa: F401 - a fixture
from tests.gate_case import ONE_PATH, PATHS, make_case
from tests.photos import encoded, photo

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
STRICT, DECODE = "{preset: strict}", "{preset: decode}"


@pytest.fixture
def case(tmp_path):
    case = make_case(tmp_path)
    image = encoded(photo(height=32, width=32), "PNG")
    for index in range(20):
        (case.images / f"{index:02}.png").write_bytes(image)
    return case


def lose(case, images: int, content: bytes = POINTER) -> None:
    """Overwrite so many of the 25 images."""
    for path in sorted(case.images.iterdir())[:images]:
        path.write_bytes(content)


# id: content, lost images of 25, rules, state, exit code. 1 of 25 is 4 %, 2 are 8 %
CASES = {
    "none": (POINTER, 0, [STRICT], "pass", 0),
    "a pointer of Git LFS": (POINTER, 1, [STRICT], "warn", 0),
    "more than 5 %": (POINTER, 2, [STRICT], "fail", 1),
    "nearly all": (POINTER, 24, [STRICT], "fail", 1),
    "all": (POINTER, 25, [STRICT], None, 5),
    "empty files": (b"", 2, [STRICT], "fail", 1),
    "a cut file": (encoded(photo(), "PNG")[:60], 2, [DECODE], "fail", 1),
    "a page of HTML": (b"<!doctype html><title>404</title>", 2, [DECODE], "fail", 1),
    "a limit of one's own": (POINTER, 24, [STRICT, "{metric: coverage, fail: 0.97}"], "warn", 0),
    "a lower limit": (POINTER, 1, [STRICT, "{metric: coverage, fail: 0.01}"], "fail", 1),
    "a limit that only warns": (POINTER, 2, [STRICT, "{metric: coverage, warn: 0.5}"], "fail", 1),
    "the limit of another path": (
        POINTER, 2, [STRICT, "{metric: coverage, fail: 0.5, path: other}"], "warn fail", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_images_that_no_side_decodes(case, alignkit, name):  # noqa: F811
    content, lost, rules, state, code = CASES[name]
    lose(case, lost, content)
    other = "  other: {decode: opencv, resize: {name: pillow, size: 32}}\n"
    paths = PATHS + other * ("other" in rules[-1])
    file = case.write(*rules, paths=paths)
    outs = {kind: case.folder / f"out.{kind}" for kind in ("json", "md", "github", "junit")}
    words = [word for kind, path in outs.items() for word in ("--out", f"{kind}={path}")]
    told = alignkit("gate", file, "-q", "--reports", case.reports, *words, "--out", "text=-")
    assert told.code == code, told
    if state is None:
        assert "none of 25 images was decoded by both" in told.out + told.err
        return
    verdict = json.loads(outs["json"].read_text())["verdict"]
    found = [each for each in verdict["rules"] if each["rule"] == "decoded"]
    states = {each["state"] for each in found}
    assert states == (set(state.split()) if lost else set())
    said = f"{lost} of 25 images"
    page = Path(json.loads(outs["json"].read_text())["report"]).read_text()
    surfaces = [told.out, page, *(path.read_text() for path in outs.values())]
    assert [said in each for each in surfaces] == [bool(lost)] * len(surfaces)
    assert ("{metric: coverage, fail: " in told.out) == ("fail" in state)
    assert ("25, " in told.out) == bool(lost), "the number of those compared stands beside all"


def test_a_baseline_of_images_that_nobody_decodes(case, alignkit):  # noqa: F811
    lose(case, 20)
    file = case.write("{preset: strict, against: baseline}", paths=ONE_PATH)
    assert alignkit("baseline", "record", file, "--reports", case.reports).code == 0
    told = alignkit("gate", file, "-q", "--no-html", "--reports", case.reports)
    assert (told.code, "20 of 25 images decoded by neither" in told.out) == (1, True), told


def test_an_assertion(case):
    paths = {"decode": "pillow", "resize": {"name": "opencv", "size": 32}}
    other = {**paths, "decode": "opencv"}
    images = sorted(case.images.iterdir())
    lose(case, 1)
    assert assert_preprocess_aligned(paths, other, images).state == "warn"
    lose(case, 2)
    with pytest.raises(PreprocessDriftError, match="2 of 25 images decoded by neither"):
        assert_preprocess_aligned(paths, other, images)
    lose(case, 25)
    with pytest.raises(NothingCompared):
        assert_preprocess_aligned(paths, other, images)


def test_diff_counts_them_too(case):
    lose(case, 2)
    (found,) = diff(case.images, "pillow-train", "opencv-train", size=32).record.coverage_diffs
    assert (found.neither, found.neither_examples) == (2, ("00.png", "01.png"))
