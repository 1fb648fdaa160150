"""What a run would do, and the memory it needs.

The memory is held against arrays of that size, and the table this began with.
"""

import numpy as np
import pytest

from alignkit.experiment import load_experiment
from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.plan import Plan, make_plan, preparations
from alignkit.plan.outlooks import (
    Memory,
    memory,
    outlooks,
    worker_bytes,
)
from alignkit.plan.planned_attribution import planned_attributions
from alignkit.workspace import Workspace
from tests.plan.test_plan import YAML


@pytest.fixture
def plan(tmp_path) -> Plan:
    file = tmp_path / "x.yaml"
    file.write_text(YAML.replace("epochs: 1", "epochs: 4"))
    return make_plan(load_experiment(file))


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "reports")


def keep_training(workspace, training, **parts) -> None:
    with workspace.store("trainings", training.parts | parts, training.label) as folder:
        (folder / "log.json").write_text("{}")


def keep_cell(workspace, cell) -> None:
    with workspace.store("cells", cell.parts, cell.label) as folder:
        (folder / "logits").write_bytes(b"x" * 1000)


def keep_attributions(workspace, plan, **parts) -> None:
    for each in planned_attributions(plan):
        with workspace.store("comparisons", each.parts | parts, each.label) as folder:
            (folder / "attributions.json").write_text("[]")


def keep_pixels(workspace, plan) -> None:
    """Keep the preparations and comparisons."""
    for each in (*preparations(plan), *plan.comparisons):
        with workspace.store(each.kind, each.parts, each.label) as folder:
            (folder / "pixels").write_bytes(b"x")


def test_without_finished_work_all_is_to_run(plan, workspace):
    expected = outlooks(plan, workspace)
    assert {each.state for each in expected.trainings} == {"to run"}
    assert {each.state for each in expected.cells} == {"to run", "impossible"}


def test_finished_work_is_cached_even_where_it_could_not_be_done_again(plan, workspace):
    keep_training(workspace, plan.trainings[0])
    impossible = next(cell for cell in plan.evaluations if cell.skipped)
    keep_cell(workspace, impossible)
    expected = outlooks(plan, workspace)
    assert expected.trainings[0].state == "cached"
    assert expected.cells[plan.evaluations.index(impossible)].state == "cached"


def test_the_reason_of_a_skip_is_that_of_the_plan(plan, workspace):
    cells = outlooks(plan, workspace).cells
    impossible = [outlook for outlook in cells if outlook.state == "impossible"]
    assert impossible
    assert all(outlook.reason == outlook.work.skipped for outlook in impossible)


def test_damaged_work_is_to_run(plan, workspace):
    keep_training(workspace, plan.trainings[0])
    (folder,) = (each.folder for each in workspace.finished("trainings"))
    (folder / "log.json").write_text('{"epochs": [{"images_per_second": 1e9}]}')
    expected = outlooks(plan, workspace)
    assert expected.trainings[0].state == "cached"  # the files of work are verified by a run
    (folder / "key.json").write_text((folder / "key.json").read_text()[:50])
    expected = outlooks(plan, workspace)
    assert (expected.trainings[0].state, expected.trainings[0].reason) == (
        "to run",
        "the stored work is damaged",
    )
    assert folder.exists()  # a plan changes nothing


def test_the_reason_of_work_that_is_done_again_is_what_changed(plan, workspace):
    recipe = plan.trainings[0].parts["recipe"] | {"model": "resnet18"}
    keep_training(workspace, plan.trainings[0], recipe=recipe)
    expected = outlooks(plan, workspace)
    assert expected.trainings[0].reason == ""  # the similar work is another experiment's
    (workspace.root / plan.experiment.name).mkdir()
    assert outlooks(plan, workspace).trainings[0].reason == "recipe changed"


def test_when_all_is_cached_nothing_is_to_be_done(plan, workspace):
    for training in plan.trainings:
        keep_training(workspace, training)
    for cell in plan.evaluations:
        keep_cell(workspace, cell)
    keep_attributions(workspace, plan)
    keep_pixels(workspace, plan)
    expected = outlooks(plan, workspace)
    assert {each.state for each in (*expected.trainings, *expected.prepared)} == {"cached"}
    assert {each.state for each in (*expected.comparisons, *expected.attributions)} == {"cached"}
    assert {each.state for each in expected.cells} == {"cached"}


def test_an_attribution_says_what_it_will_mix(plan, workspace):
    (outlook,) = outlooks(plan, workspace).attributions
    assert outlook.state == "to run"
    assert outlook.work.factors == ("decode", "orient", "resize")
    assert outlook.work.mixture_count == 8


def test_an_attribution_of_other_models_is_done_again(plan, workspace):
    keep_attributions(workspace, plan, models=["other"])
    (workspace.root / plan.experiment.name).mkdir()
    (found,) = outlooks(plan, workspace).attributions
    assert (found.state, found.reason) == ("to run", "models changed")


def test_what_a_live_endpoint_takes_part_in_is_attributed_in_every_run(workspace, tmp_path):
    file = tmp_path / "live.yaml"
    file.write_text(YAML)
    endpoint = "{name: kserve, url: 'http://localhost:1', model: m, sends: tensors, serves: opencv}"
    overrides = ["train.seeds=[3]", f"evaluate.backends=[torch, {endpoint}]"]
    plan = make_plan(load_experiment(file, overrides))
    assert [each.live for each in planned_attributions(plan)] == [True]
    keep_attributions(workspace, plan)
    assert [each.state for each in outlooks(plan, workspace).attributions] == ["to run"]
    # with a second seed, whose model the endpoint does not hold, no attribution asks it
    assert not any(
        each.live for each in planned_attributions(make_plan(load_experiment(file, overrides[1:])))
    )


def planned(tmp_path, *overrides):
    file = tmp_path / "x.yaml"
    file.write_text(YAML)
    return make_plan(load_experiment(file, overrides))


def test_caches_and_batches_are_bounded_by_float_arrays_of_their_shape(tmp_path):
    needed = memory(planned(tmp_path))
    assert needed.caches == np.empty((2 * (40 + 20), 48, 48, 3), np.float32).nbytes
    assert needed.batch == np.empty((128, 3, 48, 48), np.float32).nbytes
    assert needed.workers % (TASKS_A_WORKER * IMAGES_A_TASK * 48 * 48 * 3 * 4) == 0


def test_identical_paths_share_one_cache(tmp_path):
    same = "preprocess.pillow={preset: opencv-train, size: 48, same: true}"
    assert 2 * memory(planned(tmp_path, same)).caches == memory(planned(tmp_path)).caches


@pytest.mark.parametrize(
    ("image", "prefetch", "size"),
    [(512 * 512 * 20, 1, 1_342_177_280), (512 * 512 * 4, 1, 268_435_456), (512 * 512 * 4, 2, 536_870_912)],
)  # fmt: skip
def test_workers_hold_image_times_batch_times_workers_times_prefetch(image, prefetch, size):
    assert worker_bytes(image, batch=32, workers=8, prefetch=prefetch) == size


def test_what_does_not_fit_is_known_before(tmp_path):
    assert Memory(1, 10, 1, 100).fits
    assert not Memory(1, 100, 1, 100).fits
    assert Memory(1, 100, 1, None).fits is None
