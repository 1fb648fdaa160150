"""Keys follow the images that models are trained on, and a plan is narrowed to named cells."""

from pathlib import Path

import pytest

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.plan import Plan, make_plan
from alignkit.plan.plan_keys import narrow_to_cells, rekey_for_images
from alignkit.plan.planned_units import matched_pairs

ROOT = Path(__file__).parents[2]

YAML = """\
name: rekeyed
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  same: {preset: opencv-train, size: 48, same: true}
train: {model: small-cnn, epochs: 1, seeds: [3]}
"""


@pytest.fixture
def plan(tmp_path) -> Plan:
    file = tmp_path / "rekeyed.yaml"
    file.write_text(YAML)
    return make_plan(load_experiment(file))


def test_an_image_left_out_changes_every_key_but_the_runs(plan):
    rekeyed = rekey_for_images(plan, ["a"], 2)
    for before, after in zip(plan.evaluations, rekeyed.evaluations, strict=True):
        assert after.key != before.key
        assert after.parts["training"] == after.training.key != before.training.key
        assert after.training in rekeyed.trainings
    assert rekeyed.key == plan.key


def test_paths_that_share_a_key_stay_two_trainings(plan):
    rekeyed = rekey_for_images(plan, ["a"], 2)
    assert [str(each.row) for each in rekeyed.trainings] == ["opencv", "same"]
    assert [str(each.candidate.row) for each in matched_pairs(rekeyed.trainings)] == ["same"]


def test_the_images_found_last_are_those_in_the_keys(plan):
    first = rekey_for_images(plan, ["a"], 2)
    assert rekey_for_images(first, ["a"], 2) == first
    assert rekey_for_images(first, ["a", "b"], 2) == plan


def test_a_pattern_narrows_a_plan_to_every_cell_that_it_matches_and_the_references():
    def places(*names: str) -> set[str]:
        return {str(each.place) for each in narrow_to_cells(plan, names).evaluations}

    plan = make_plan(load_experiment(ROOT / "experiments" / "quickstart.yaml"))
    whole = places()
    runtimes = {place.partition("/")[2].partition("/")[2] for place in whole}
    reference = next(str(each.place) for each in plan.evaluations if each.aligned)
    own = reference.rpartition("/")[0].rpartition("/")[0]
    assert len(runtimes) > 1
    assert places(f"{own}/*") == {place for place in whole if place.startswith(f"{own}/")}
    assert places("*/torch/fp32") == {place for place in whole if place.endswith("/torch/fp32")}
    assert places("*") == whole
    assert places(reference) == {reference}
    with pytest.raises(ConfigError, match=r"--cell \*/torch/fp31: no such cell"):
        places("*/torch/fp31")
