"""Images that change between a measurement and its judgement end the gate."""

import pytest

from alignkit.errors import DataError
from alignkit.experiment import load_experiment
from alignkit.gate import gate_check as module
from alignkit.gate.baseline_recording import record_baseline
from alignkit.gate.gate_check import check
from alignkit.gate.gate_subgroup import measure_groups
from alignkit.gate.gate_thresholds import propose
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
from tests.gate_case import make_case

AGAIN = "the images changed after they were listed; run the same command again"


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


def change_an_image(case):
    min(case.images.iterdir()).unlink()


@pytest.fixture
def measured(case):
    """A finished gate whose rule asks for a subgroup, and its images changed since."""
    experiment = load_experiment(
        case.write("{metric: decode.changed, fail: 0, where: {format: JPEG}}")
    )
    context = Context(Workspace(case.reports), NoProgress())
    checked = check(experiment, context, baselines=None)
    change_an_image(case)
    return experiment, checked, context


def test_a_subgroup_of_other_images_is_not_judged(measured):
    experiment, checked, context = measured
    with pytest.raises(DataError, match=AGAIN):
        measure_groups(experiment, checked.record, checked.folder, context)


def test_thresholds_of_other_images_are_not_proposed(measured):
    experiment, checked, _ = measured
    with pytest.raises(DataError, match=AGAIN):
        propose(experiment, checked.record, repeats=1, progress=NoProgress())


@pytest.mark.parametrize("changed_only", [False, True])
def test_stages_of_other_images_are_not_compared_with_a_baseline(case, monkeypatch, changed_only):
    monkeypatch.delenv("CI", raising=False)
    rule = "{metric: decode.changed, fail: 0, against: baseline}"
    experiment = load_experiment(case.write(rule))
    context = Context(Workspace(case.reports), NoProgress())
    record_baseline(experiment, context, baselines=None, golden=(), reason="first")
    measure = module._measured_pixels

    def measured_and_changed(*given):
        done = measure(*given)
        change_an_image(case)
        return done

    monkeypatch.setattr(module, "_measured_pixels", measured_and_changed)
    with pytest.raises(DataError, match=AGAIN):
        check(experiment, context, baselines=None, changed_only=changed_only)
