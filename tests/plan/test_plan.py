"""Every training and evaluation, decided before any is done."""

from dataclasses import replace
from pathlib import Path

import pytest

import alignkit
from alignkit.experiment import load_experiment
from alignkit.plan import Plan, make_plan
from alignkit.plan.planned_units import matched_pairs
from alignkit.plan.work import MatchedPair

PACKAGE = Path(alignkit.__file__).parent
YAML = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {epochs: 1, seeds: [3, 5]}
evaluate:
  backends: [{name: torch, precision: [fp32, tf32]}, {name: onnxruntime, precision: fp32}]
"""


@pytest.fixture
def plan_of(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(YAML)

    def planned(*overrides: str) -> Plan:
        return make_plan(load_experiment(file, overrides))

    return planned


def test_trainings_go_seed_by_seed_reference_first(plan_of):
    trainings = plan_of().trainings
    assert [(each.seed, each.preprocess.name) for each in trainings] == [
        (3, "opencv"), (3, "pillow"), (5, "opencv"), (5, "pillow"),
    ]  # fmt: skip


def test_every_model_is_evaluated_under_every_path_and_runtime(plan_of):
    evaluations = plan_of().evaluations
    assert len(evaluations) == 4 * 2 * 3
    assert len({each.key for each in evaluations}) == len(evaluations)


def test_progress_calls_a_surrogate_so(plan_of):
    plan = plan_of("preprocess.gpu={preset: torchpipe-gpu-surrogate, size: 48}")
    assert [each.title for each in plan.experiment.paths] == ["opencv", "pillow", "gpu (surrogate)"]
    assert [each.title for each in plan.trainings[:3]] == [
        "opencv seed 3", "pillow seed 3", "gpu (surrogate) seed 3",
    ]  # fmt: skip
    named = replace(plan.experiment.paths[2], name="torchpipe-gpu-surrogate")
    assert named.title == "torchpipe-gpu-surrogate"


def test_one_cell_of_each_row_and_seed_is_the_aligned_one(plan_of):
    aligned = [each for each in plan_of().evaluations if each.aligned]
    assert [each.training.label for each in aligned] == [t.label for t in plan_of().trainings]
    assert {(each.runtime.name, each.runtime.precision) for each in aligned} == {("torch", "fp32")}


def test_pairs_join_the_reference_with_each_candidate_of_the_same_seed(plan_of):
    pairs = matched_pairs(plan_of().trainings)
    assert [(p.reference.preprocess.name, p.candidate.preprocess.name) for p in pairs] == [
        ("opencv", "pillow")
    ] * 2
    assert all(p.reference.seed == p.candidate.seed for p in pairs)


def test_a_pair_that_differs_in_anything_else_cannot_be_built(plan_of):
    first, second, other_seed, _ = plan_of().trainings
    MatchedPair(first, second)
    with pytest.raises(ValueError, match="not a matched pair: seed differ"):
        MatchedPair(first, other_seed)
    with pytest.raises(ValueError, match="recipe"):
        MatchedPair(first, replace(second, parts=second.parts | {"recipe": {}}))


def test_one_backend_with_other_options_is_a_runtime_of_its_own(plan_of):
    twice = "evaluate.backends=[onnxruntime, {name: onnxruntime, optimisation: basic}]"
    evaluations = plan_of(twice).evaluations
    assert {each.runtime.name for each in evaluations} == {
        "onnxruntime", "onnxruntime optimisation=basic",
    }  # fmt: skip
    assert len({each.key for each in evaluations}) == len(evaluations)


def test_an_impossible_precision_is_skipped_with_its_reason_not_replaced(plan_of):
    tf32 = [each for each in plan_of().evaluations if each.runtime.precision == "tf32"]
    assert tf32
    assert all(each.skipped for each in tf32)


def test_a_device_that_is_not_here_skips_trainings_and_all_their_cells(plan_of):
    plan = plan_of("train.device=cuda")
    assert all(each.skipped for each in plan.trainings)
    assert all(each.skipped for each in plan.evaluations)


@pytest.mark.parametrize(
    "override",
    [
        "data.seed=1",
        "train.epochs=2",
        "train.augment.flip=0.5",
        "train.model=resnet18",
        "preprocess.opencv.orient=none",
        "preprocess.opencv.normalise={mean: [0, 0, 0], std: [1, 1, 1]}",
    ],
)
def test_what_weights_depend_on_changes_the_training_and_its_cells(plan_of, override):
    before, after = plan_of(), plan_of(override)
    assert before.trainings[0].key != after.trainings[0].key
    assert before.evaluations[0].key != after.evaluations[0].key
    assert before.trainings[0].label == after.trainings[0].label


@pytest.mark.parametrize(
    "override",
    ["gate.informational=true", "report.worst=3", "evaluate.resamples=300", "name=other"],
)
def test_what_only_comparison_depends_on_keeps_finished_work(plan_of, override):
    before, after = plan_of(), plan_of(override)
    assert [each.key for each in before.evaluations] == [each.key for each in after.evaluations]
    assert (before.key == after.key) is (override == "name=other")


def test_another_path_changes_no_training_of_the_others(plan_of):
    more = plan_of("preprocess.torch={preset: torchpipe-gpu-surrogate, size: 48}")
    before = {each.key for each in plan_of().trainings}
    assert before < {each.key for each in more.trainings}


def test_identical_paths_share_their_work(plan_of):
    plan = plan_of("preprocess.pillow={preset: opencv-train, size: 48, same: true}")
    first, second, *_ = plan.trainings
    assert first.key == second.key
