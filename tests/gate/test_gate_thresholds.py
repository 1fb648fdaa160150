"""Proposed thresholds: a gate with them passes today and fails for what is worse."""

from dataclasses import replace

import pytest

from alignkit.errors import NothingCompared
from alignkit.experiment import load_experiment
from alignkit.gate import gate_thresholds as module
from alignkit.gate.gate_check import check
from alignkit.gate.gate_thresholds import proposal_text, propose, rounded_up
from alignkit.progress import NoProgress
from alignkit.task_facts import MetricFacts
from alignkit.workspace import Context, Workspace
from tests.gate_case import PATHS, make_case
from tests.report.records import quickstart

NEAREST = PATHS.replace(
    "opencv: {decode: opencv", "opencv: {decode: {name: simplejpeg, chroma: nearest}"
)


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


def proposals(case, paths, record=None, repeats=2):
    experiment = load_experiment(case.write(paths=paths))
    return propose(experiment, record, repeats=repeats, progress=NoProgress())


def verdict(case, text, paths):
    file = case.write(paths=paths)
    file.write_text(file.read_text() + text)
    checked = check(
        load_experiment(file), Context(Workspace(case.reports), NoProgress()), baselines=None
    )
    return checked.record.verdict


def test_stages_without_any_difference_are_held_bit_for_bit(case):
    found = proposals(case, PATHS)
    assert all(".changed, fail: 0" in each.rule for each in found)
    assert len(found) == 7


def test_a_gate_with_the_proposal_passes_today_and_fails_for_more(case):
    text = proposal_text(proposals(case, NEAREST), ())
    assert "decode.mean_abs" in text
    assert verdict(case, text, NEAREST).exit_code == 0
    worse = NEAREST.replace("chroma: nearest", "chroma: nearest, dct: ifast")
    assert verdict(case, text, worse).exit_code == 1


def test_a_proposal_says_which_paths_are_surrogates(case):
    paths = PATHS + "  gpu: {preset: torchpipe-gpu-surrogate, size: 32}\n"
    experiment = load_experiment(case.write(paths=paths))
    text = proposal_text(proposals(case, paths), experiment.paths)
    assert text.startswith("# gpu: surrogate of torchpipe-gpu, decode verified")
    assert "\ngate:\n" in text
    assert verdict(case, text, paths).exit_code == 0


def test_noise_of_repeats_raises_a_threshold(case, monkeypatch):
    noisy = {"decode": module._Measured(mean=0.5, most=3.0)}
    monkeypatch.setattr(module, "_compared", lambda *_: noisy)
    rules = [each.rule for each in proposals(case, PATHS)]
    assert "{metric: decode.mean_abs, fail: 0.63}" in rules
    assert "{metric: decode.max_abs, fail: 3.8}" in rules


def of_images(case, record):
    """The record, as if it were of the case's images."""
    images = load_experiment(case.write()).data.fingerprint("eval")
    return record.model_copy(
        update={"data": record.data.model_copy(update={"fingerprint": images})}
    )


def test_models_are_held_to_the_noise_of_their_seeds(case):
    record = of_images(case, quickstart())
    rules = {each.rule.split(",")[0]: each for each in proposals(case, PATHS, record)}
    floor = max(each.churn for each in record.noise_floor)
    assert f"fail: {rounded_up(floor):g}" in rules["{metric: churn"].rule
    assert "recall.macro, margin" in rules["{metric: recall.macro"].rule


def test_one_path_has_nothing_to_calibrate(case):
    gpu = PATHS.replace("opencv: {decode: opencv", "opencv: {decode: torchvision-cuda")
    experiment = load_experiment(case.write(paths=gpu))
    if not experiment.paths[1].missing():
        pytest.skip("this machine has a GPU")
    with pytest.raises(NothingCompared, match="no limits to propose"):
        propose(experiment, None, repeats=1, progress=NoProgress())


@pytest.mark.parametrize(("value", "up"), [(0.0, 0.0), (0.4123, 0.42), (7.0, 7.0), (123.0, 130.0)])
def test_rounding_is_upwards_to_two_digits(value, up):
    assert rounded_up(value) == up


def test_a_margin_in_another_unit_than_a_share_may_exceed_1_and_says_its_unit(case):
    record = of_images(case, quickstart())
    pixels = MetricFacts(name="recall.macro", label="Shift", unit="px")
    task = replace(record.task, metrics=(pixels,))
    floors = tuple(replace(each, metrics={"recall.macro": 3.25}) for each in record.noise_floor)
    record = record.model_copy(update={"task": task, "noise_floor": floors})
    rules = {each.rule: each.because for each in proposals(case, PATHS, record)}
    said = rules["{metric: recall.macro, margin: 3.3}"]
    assert said.startswith("seeds spread by 3.25 px; intervals here are")
    assert "pp" not in said
