"""Stacks of other libraries: found or near where the search holds them, not found otherwise."""

import numpy as np
import pytest

from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.samples import Samples
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_result import Match
from alignkit.search.match_text import as_json, headline, label, paste
from alignkit.search.recorded_target import recorded_target
from tests.search.serving_stacks import INSIDE, OUTSIDE, Stack
from tests.search.test_search import BASE, RESIZERS, photographs

EVERY = {"decoders": BASE, "resizers": RESIZERS}
FEW = {"decoders": ("opencv",), "resizers": ("opencv",)}
QUICK = ("cv2 area of floats", "(x - 127.5) / 128", "grey by cv2", "YCbCr read by BT.709",
         "Gaussian blur and gamma", "JPEG again, quality 50")  # fmt: skip


def upright(count: int = 15) -> Samples:
    """The photographs that no EXIF turns: Pillow and OpenCV treat the others differently."""
    return photographs().take([row for row in range(count) if row not in (1, 8)])


def searched(folder, tensor, only, samples) -> Match:
    for row, name in enumerate(samples.ids):
        np.save(folder / name.replace(".jpg", ".npy"), tensor(row))
    target, rows = recorded_target(folder, samples, **only)
    found = match(target, samples, rows, configurations(target.geometry, **only))
    nearest = label(found.winner.configurations[0])
    share = "" if found.explained is None else f"explains {found.explained:.0%}"
    print(f"{found.state:10} {found.remains:8.3f} {share:14} {nearest}")
    return found


def said(found: Match) -> str:
    same = [label(each) for each in found.winner.configurations]
    return "\n".join((*found.facts, *same))


def check_found(found: Match, stack: Stack) -> None:
    assert found.state in ("found", "near"), headline(found, {})
    assert found.remains <= 1.0
    for words in stack.says:
        assert words in said(found)
    assert "matched:\n  decode: {name: " in paste(found, "matched")


def check_not_found(found: Match) -> None:
    assert found.state == "not found", headline(found, {})
    assert headline(found, {}).startswith("not found: no configuration explains ")
    assert "grey levels remain" in headline(found, {})
    assert "correct it" not in said(found)
    assert "colour: not found" in said(found)
    assert paste(found, "matched") == ""
    assert {each["preprocess"] for each in as_json(found, {})["ranking"]} == {None}


@pytest.mark.parametrize("name", QUICK)
def test_a_few_stacks_on_a_small_search(tmp_path, name):
    samples = upright(9)
    stack = next(each for each in (*INSIDE, *OUTSIDE) if each.name == name)
    found = searched(tmp_path, lambda row: stack.tensor(samples.read(row)), FEW, samples)
    check_found(found, stack) if stack in INSIDE else check_not_found(found)


def test_tensors_of_other_images_are_not_found(tmp_path):
    samples, stack = upright(9), INSIDE[0]
    others = [*range(1, len(samples)), 0]
    found = searched(tmp_path, lambda row: stack.tensor(samples.read(others[row])), FEW, samples)
    check_not_found(found)


@pytest.mark.slow
@pytest.mark.parametrize("stack", INSIDE, ids=[each.name for each in INSIDE])
def test_a_stack_in_the_search_is_found(tmp_path, stack):
    samples = upright()
    found = searched(tmp_path, lambda row: stack.tensor(samples.read(row)), EVERY, samples)
    check_found(found, stack)


@pytest.mark.slow
@pytest.mark.parametrize("stack", OUTSIDE, ids=[each.name for each in OUTSIDE])
def test_a_stack_outside_of_the_search_is_not_found(tmp_path, stack):
    samples = upright()
    found = searched(tmp_path, lambda row: stack.tensor(samples.read(row)), EVERY, samples)
    check_not_found(found)


def test_what_is_near_explains_most_and_says_what_remains(tmp_path):
    samples, stack = upright(9), INSIDE[3]
    found = searched(tmp_path, lambda row: stack.tensor(samples.read(row)), FEW, samples)
    assert found.state == "near"
    assert found.explained >= EXPLAINS_MOST
    assert headline(found, {}).startswith("near: opencv ▸ opencv interpolation=area")
