"""Assertions about recorded stages: pass, drift, and nothing compared."""

import io

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.gate.gate_run import GateRun, run_gate
from alignkit.judge import judge
from alignkit.progress import progress_for
from alignkit.record import Measurements
from alignkit.record.verdict_facts import stated
from alignkit.tap_recorder import Tap
from alignkit.text.outcome import said
from alignkit.workspace import Workspace
from tests.photos import encoded, photo

FILE = """\
name: taps
data: {{name: images, root: {root}/photos}}
preprocess:
  training: {{decode: pillow, resize: {{name: pillow, size: 32}}}}
gate:
  taps:
    folder: {root}/taps
    rules:
      - {rule}
"""


@pytest.fixture
def folder(tmp_path):
    """Two photographs, served by Pillow in the order B, G, R, as floats after the resize."""
    (tmp_path / "photos").mkdir()
    tap = Tap()
    tap.to(tmp_path / "taps")
    for number in range(2):
        data = encoded(photo(width=90 + number))
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(data)
        image = Image.open(io.BytesIO(data)).convert("RGB")
        tap("decoded", np.asarray(image)[..., ::-1], f"{number}.jpg")
        small = image.resize((32, 32), Image.Resampling.BILINEAR)
        tap("resized", np.asarray(small).astype(np.float32), f"{number}.jpg")
        tap("feed", np.full((1, 3, 32, 32), 9.5 * number, np.float32), f"{number}.jpg")
    return tmp_path


def gate(folder, rule: str, *overrides: str):
    file = folder / "gate.yaml"
    file.write_text(FILE.format(root=folder, rule=rule))
    run = GateRun(file, overrides, Workspace(folder / "reports"), report=False)
    return run_gate(run, progress_for("none"))


@pytest.mark.parametrize(
    ("rule", "code", "observed"),
    [
        ("{tap: resized, size: [32, 32]}", 0, "32x32 on 2 images"),
        ("{tap: feed, size: [32, 32]}", 0, "32x32 on 2 images"),
        ("{tap: resized, size: [32, 33]}", 1, "32x32 on 2 (first 0.jpg) of 2 images"),
        ("{tap: decoded, size: [61, 90]}", 1, "61x91 on 1 (first 1.jpg) of 2 images"),
        ("{tap: resized, dtype: float32}", 0, "float32 on 2 images"),
        ("{tap: resized, dtype: uint8}", 1, "float32 on 2 (first 0.jpg) of 2 images"),
        ("{tap: feed, range: [0, 10]}", 0, "0 to 9.5 over 2 images"),
        ("{tap: feed, range: [-1, 9]}", 1, "0 to 9.5 over 2 images; outside on 1 (first 1.jpg)"),
        ("{tap: resized, channels: rgb}", 0, "RGB: 0 levels from training as RGB"),
        ("{tap: decoded, channels: rgb}", 1, "BGR: "),
        ("{tap: decoded, channels: bgr}", 0, "BGR: "),
        ("{tap: feed, channels: rgb}", 5, "which stage 'feed' is, is not known"),
        ("{tap: absent, dtype: uint8}", 5, "no tap 'absent' in"),
    ],
)
def test_each_assertion_passes_fails_or_cannot_be_judged(folder, rule, code, observed):
    result = gate(folder, rule)
    assert result.exit_code == code
    (outcome,) = result.record.verdict.rules
    assert observed in said(outcome, "value")
    assert outcome.line == 9


@pytest.mark.parametrize(
    "rule",
    ["size: [32, 32]", "dtype: uint8", "range: [0, 255]", "size: [32, 32], dtype: uint8"],
)
def test_assertions_that_noise_keeps_call_nothing_aligned(folder, rule):
    """The recorded images are no photographs at all."""
    tap, noise = Tap(), np.random.default_rng(0).integers(0, 255, (2, 32, 32, 3), np.uint8)
    tap.to(folder / "taps")
    for number in range(2):
        tap("noise", noise[number], f"{number}.jpg")
    record = gate(folder, f"{{tap: noise, {rule}}}").record
    assert record.verdict.state == "pass"
    (held,) = record.verdict.sentence
    assert (held.kind, held.values["taps"]) == ("held", 1)


def test_a_tap_of_some_images_says_of_how_many(folder):
    for number in range(2, 5):
        (folder / "photos" / f"{number}.jpg").write_bytes(encoded(photo(width=90 + number)))
    for rule in ("size: [32, 32]", "dtype: float32", "range: [0, 255]", "channels: rgb"):
        result = gate(folder, f"{{tap: resized, {rule}}}")
        assert (result.exit_code, result.record.verdict.state) == (0, "warn")
        observed = [stated("tap part", tap="resized", images=2, of=5)]
        assert [*result.record.verdict.first.observed] == observed


def test_an_order_that_pixels_do_not_show_is_no_pass(folder):
    result = gate(folder, "{tap: feed, channels: rgb}", "gate.taps.stages={feed: normalise}")
    assert result.exit_code == 5
    (outcome,) = result.record.verdict.rules
    assert "no order is clearly nearer" in said(outcome, "value")


def test_a_folder_without_taps_compares_nothing(folder):
    result = gate(folder, "{tap: feed, dtype: uint8}", f"gate.taps.folder={folder}/none")
    assert result.exit_code == 5
    assert [each.state for each in result.record.verdict.rules] == ["error"]


@pytest.mark.parametrize("rule", ["size: [8, 8]", "dtype: uint8", "range: [0, 255]"])
def test_a_tap_of_which_no_given_image_was_recorded_is_no_pass(folder, rule):
    tap = Tap()
    tap.to(folder / "taps")
    tap("lone", np.zeros((8, 8, 3), np.uint8), "another.jpg")
    result = gate(folder, f"{{tap: lone, {rule}}}")
    assert result.exit_code == 5
    (outcome,) = result.record.verdict.rules
    assert outcome.observed == (stated("tap empty", tap="lone", images=2),)


def test_an_image_that_cannot_be_compared_leaves_the_order_unjudged(folder):
    file = folder / "taps" / "resized" / "1.jpg.npy"
    array = np.load(file)
    array[0, 0, 0] = np.nan
    np.save(file, array)
    result = gate(folder, "{tap: resized, channels: rgb}")
    assert result.exit_code == 5
    observed = said(result.record.verdict.rules[0], "value")
    assert observed == "1.jpg: the array holds NaN or infinity"


def test_a_mask_of_truth_values_is_judged(folder):
    tap = Tap()
    tap.to(folder / "taps")
    tap("mask", np.eye(8, dtype=bool), "1.jpg")
    result = gate(folder, "{tap: mask, range: [0, 1]}")
    assert result.exit_code == 0
    observed = result.record.verdict.rules[0].observed
    assert observed == (stated("tap range", low="0", high="1", images=1),)


@pytest.mark.parametrize(
    ("kind", "asserted", "code"),
    [
        ("bfloat16", "bfloat16", 0),
        ("bfloat16", "float32", 1),
        (">f4", "float32", 0),
        (">f4", "float64", 1),
    ],
)
def test_the_type_of_numbers_is_the_recorded_one(folder, kind, asserted, code):
    tap = Tap()
    tap.to(folder / "taps")
    if kind == "bfloat16":
        torch = pytest.importorskip("torch")
        tap("typed", torch.ones((3, 8, 8), dtype=torch.bfloat16), "1.jpg")
    else:
        tap("typed", np.ones((3, 8, 8), kind), "1.jpg")
    assert gate(folder, f"{{tap: typed, dtype: {asserted}}}").exit_code == code


def test_an_empty_array_is_outside_of_every_range(folder):
    tap = Tap()
    tap.to(folder / "taps")
    tap("void", np.zeros((0, 8, 3), np.float32), "1.jpg")
    result = gate(folder, "{tap: void, range: [0, 255]}")
    assert result.exit_code == 1
    observed = result.record.verdict.rules[0].observed
    assert observed == (stated("tap no value", what="an empty array", image="1.jpg"),)


def test_rules_about_paths_hold_beside_those_about_taps(folder):
    more = (
        "preprocess.serving={decode: opencv, resize: {name: opencv, size: 32}}",
        "gate.rules=[{metric: resize.mean_abs, fail: 0.1}]",
    )
    result = gate(folder, "{tap: resized, size: [32, 32]}", *more)
    assert result.exit_code == 1
    states = {each.rule: each.state for each in result.record.verdict.rules}
    assert states["resized.size"] == "pass"
    assert states["resize.mean_abs"] == "fail"


def test_a_tap_that_fails_ends_a_fast_gate_before_any_path_is_compared(folder, monkeypatch):
    from alignkit.gate import pixel_gate

    def compared(*_):
        raise AssertionError("paths were compared")

    file = folder / "gate.yaml"
    file.write_text(FILE.format(root=folder, rule="{tap: resized, size: [9, 9]}"))
    more = ("preprocess.serving={decode: opencv, resize: {name: opencv, size: 32}}",)
    run = GateRun(file, more, Workspace(folder / "reports"), report=False, fail_fast=True)
    monkeypatch.setattr(pixel_gate, "compare_stored", compared)
    result = run_gate(run, progress_for("none"))
    assert result.exit_code == 1
    assert [each.rule for each in result.record.verdict.rules] == ["resized.size"]
    (stopped,) = [e for e in result.record.verdict.sentence if e.kind == "stopped"]
    assert stopped.names("paths") == ["serving"]


def test_a_run_leaves_rules_about_taps_to_the_gate(folder):
    file = folder / "gate.yaml"
    file.write_text(FILE.format(root=folder, rule="{tap: resized, size: [9, 9]}"))
    gate = load_experiment(file).gate
    verdict = judge(gate, Measurements(), controls=())
    (left,) = [each for each in verdict.rules if each.rule == "taps"]
    assert left.state == "inconclusive"
    assert left.observed == (stated("left taps"),)
    assert verdict.state == "inconclusive"
    assert verdict.exit_code == 0


@pytest.mark.parametrize(
    ("rule", "place", "says"),
    [
        ("{tap: a}", "9:9", "needs 'size', 'range', 'dtype' or 'channels'"),
        ("{tap: a, range: [3, 3]}", "9:9", "holds no interval"),
        ("{tap: a, chanels: rgb}", "9:18", "did you mean 'channels'?"),
        ("{tap: a, channels: rbg}", "9:28", "should be 'rgb' or 'bgr'"),
        ("{tap: a, size: [0, 4]}", "9:25", "greater than or equal to 1"),
    ],
)
def test_mistakes_are_told_with_line_and_column(folder, rule, place, says):
    file = folder / "gate.yaml"
    file.write_text(FILE.format(root=folder, rule=rule))
    with pytest.raises(ConfigError) as told:
        load_experiment(file)
    assert f"gate.yaml:{place}: gate.taps.rules.0" in str(told.value)
    assert says in str(told.value)
