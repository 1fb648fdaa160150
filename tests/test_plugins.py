"""Suggestions for names that are unknown."""

from pathlib import Path

import pytest

from alignkit.plugins import Plugin, did_you_mean, gpu_present, nearest

HERE, ABSENT = Plugin("x:Y"), Plugin("x:Y", module="no_such_library")


def test_a_name_that_begins_with_the_word_goes_before_a_similar_one():
    assert nearest("pil", ["plsc", "pillow-train"]) == ["pillow-train"]
    assert nearest("PIL", ["plsc", "pillow-train"]) == ["pillow-train"]
    assert nearest("onnx", ["nnx", "onnxruntime"]) == ["onnxruntime"]


def test_of_several_names_those_that_run_here_come_first_and_at_most_three():
    known = {"a-gpu": ABSENT, "a-cpu": HERE, "a-1": HERE, "a-2": HERE}
    assert nearest("a", known) == ["a-cpu", "a-1", "a-2"]
    assert did_you_mean("a-", {"a-gpu": ABSENT, "a-cpu": HERE, "b": HERE}) == (
        "; did you mean 'a-cpu' or 'a-gpu'?"
    )


def test_a_typo_names_the_nearest_spelling_even_if_it_does_not_run_here():
    assert nearest("dali-gppu", {"dali-gpu": ABSENT, "dali-resnet-surrogate": HERE}) == ["dali-gpu"]


def test_names_far_from_all_are_answered_with_the_list():
    assert did_you_mean("q", ["b", "a"]) == "; known: a, b"
    assert did_you_mean("q", []) == ""


@pytest.mark.parametrize(
    ("shown", "present"),
    [
        ((), False),
        (("dev/nvidia0",), True),
        (("dev/nvidia3",), True),  # a container that was given another GPU
        (("proc/driver/nvidia/gpus/0000:00:06.0",), True),
        (("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps"), False),
    ],
)
def test_a_gpu_is_seen_whatever_its_number(tmp_path, monkeypatch, shown, present):
    for each in shown:
        (tmp_path / each).mkdir(parents=True)
    monkeypatch.setattr(
        "alignkit.plugins.Path", lambda place: Path(tmp_path, str(place).lstrip("/"))
    )
    gpu_present.cache_clear()
    try:
        assert gpu_present() is present
    finally:
        gpu_present.cache_clear()
