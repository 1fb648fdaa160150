"""What a run would do, the time similar work took here, and the memory it needs.

The memory is held against arrays of that size, and the table this began with.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from alignkit.experiment import load_experiment
from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.plan import Plan, make_plan, preparations
from alignkit.plan.forecast import (
    Memory,
    forecast,
    memory,
    worker_bytes,
)
from alignkit.plan.planned_attribution import planned_attributions
from alignkit.plan.rates import NOTHING
from alignkit.stored_file import read_sealed, sealed
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


def keep_training(workspace, training, *, rates=(100.0,), **parts) -> None:
    log = {"epochs": [{"images_per_second": rate} for rate in rates]}
    with workspace.store("trainings", training.parts | parts, training.label) as folder:
        (folder / "log.json").write_text(json.dumps(log))


def keep_cell(workspace, cell, images=20) -> None:
    with workspace.store("cells", cell.parts, cell.label, images=images) as folder:
        (folder / "logits").write_bytes(b"x" * 1000)


def keep_attributions(workspace, plan, **parts) -> None:
    for each in planned_attributions(plan):
        with workspace.store("comparisons", each.parts | parts, each.label, images=20) as folder:
            (folder / "attributions.json").write_text("[]")


def keep_pixels(workspace, plan, *, images=20, **parts) -> None:
    """Keep the preparations and comparisons."""
    for each in (*preparations(plan), *plan.comparisons):
        with workspace.store(each.kind, each.parts | parts, each.label, images=images) as folder:
            (folder / "pixels").write_bytes(b"x")


def timed(workspace, kind, seconds) -> None:
    """Say that each stored work of a kind took so long."""
    for each in workspace.finished(kind):
        file = each.folder / "key.json"
        content = json.loads(read_sealed(file)) | {"seconds": seconds}
        content.pop("sha256", None)
        file.write_text(sealed(json.dumps(content)))


def test_without_finished_work_all_is_to_run_and_no_time_is_known(plan, workspace):
    expected = forecast(plan, workspace)
    assert {each.state for each in expected.trainings} == {"to run"}
    assert {each.state for each in expected.cells} == {"to run", "impossible"}
    assert expected.known == NOTHING
    kinds = ("prepared", "trainings", "cells", "comparisons", "attributions")
    assert expected.unknown == kinds


def test_finished_work_is_cached_even_where_it_could_not_be_done_again(plan, workspace):
    keep_training(workspace, plan.trainings[0])
    impossible = next(cell for cell in plan.evaluations if cell.skipped)
    keep_cell(workspace, impossible)
    expected = forecast(plan, workspace)
    assert expected.trainings[0].state == "cached"
    assert expected.cells[plan.evaluations.index(impossible)].state == "cached"


def test_the_reason_of_a_skip_is_that_of_the_plan(plan, workspace):
    cells = forecast(plan, workspace).cells
    impossible = [outlook for outlook in cells if outlook.state == "impossible"]
    assert impossible
    assert all(outlook.reason == outlook.work.skipped for outlook in impossible)


def test_trainings_are_timed_by_the_median_speed_of_the_same_model_and_size(plan, workspace):
    keep_training(workspace, plan.trainings[0], rates=(50.0, 100.0, 5000.0))
    for cell in plan.evaluations:
        keep_cell(workspace, cell)
    keep_attributions(workspace, plan)
    estimate = forecast(plan, workspace).costs["trainings"]
    assert estimate.seconds == pytest.approx(3 * 4 * 40 / 100)  # trainings, epochs, images
    assert estimate.bytes > 0


def test_damaged_work_is_to_run_and_tells_no_time(plan, workspace):
    keep_training(workspace, plan.trainings[0])
    (folder,) = (each.folder for each in workspace.finished("trainings"))
    (folder / "log.json").write_text('{"epochs": [{"images_per_second": 1e9}]}')
    expected = forecast(plan, workspace)
    assert expected.trainings[0].state == "cached"  # the files of work are verified by a run
    assert expected.costs["trainings"].seconds is None
    (folder / "key.json").write_text((folder / "key.json").read_text()[:50])
    expected = forecast(plan, workspace)
    assert (expected.trainings[0].state, expected.trainings[0].reason) == (
        "to run",
        "the stored work is damaged",
    )
    assert folder.exists()  # a plan changes nothing


@pytest.mark.parametrize(
    ("less", "share"), [("train.fractions=[0.5]", 0.5), ("train.holdout=0.25", 0.75)]
)
def test_a_share_of_the_images_takes_a_share_of_the_time(workspace, tmp_path, less, share):
    file = tmp_path / "share.yaml"
    file.write_text(YAML)
    plan = make_plan(load_experiment(file, [less]))
    keep_training(workspace, plan.trainings[0])
    for cell in plan.evaluations:
        keep_cell(workspace, cell)
    keep_attributions(workspace, plan)
    seconds = forecast(plan, workspace).costs["trainings"].seconds
    assert seconds == pytest.approx(3 * share * 40 / 100)  # trainings of one epoch, images


def test_another_model_tells_nothing_of_the_time(plan, workspace):
    recipe = plan.trainings[0].parts["recipe"] | {"model": "resnet18"}
    keep_training(workspace, plan.trainings[0], recipe=recipe)
    expected = forecast(plan, workspace)
    assert "trainings" in expected.unknown
    assert expected.trainings[0].reason == ""  # the similar work is another experiment's
    (workspace.root / plan.experiment.name).mkdir()
    assert forecast(plan, workspace).trainings[0].reason == "recipe changed"


def test_cells_are_timed_by_those_of_the_same_runtime_and_model_scaled_to_the_images(
    plan, workspace
):
    for training in plan.trainings:
        keep_training(workspace, training)
    assert "cells" in forecast(plan, workspace).unknown
    runtimes = {(each.runtime.name, each.runtime.precision): each for each in plan.evaluations}
    for cell in runtimes.values():
        # of another data set of 5 images; this one has 20
        keep_cell(workspace, replace(cell, parts=cell.parts | {"preprocess": "x"}), images=5)
    timed(workspace, "cells", 2.0)
    cost = forecast(plan, workspace).costs["cells"]
    to_run = [each for each in plan.evaluations if not each.skipped]
    assert cost.seconds == pytest.approx(len(to_run) * 2 * 20 / 5)
    assert cost.bytes > 4 * 1000 * len(to_run)


def test_cells_of_another_option_of_the_task_tell_nothing_of_the_disk(plan, workspace):
    for training in plan.trainings:
        keep_training(workspace, training)
    runtimes = {(each.runtime.name, each.runtime.precision): each for each in plan.evaluations}
    for cell in runtimes.values():
        keep_cell(workspace, replace(cell, parts=cell.parts | {"task": ["none", "1"]}))
    assert "cells" in forecast(plan, workspace).unknown


def test_pixels_are_timed_by_the_same_paths_on_other_images(plan, workspace):
    keep_pixels(workspace, plan, samples="others")
    timed(workspace, "prepared", 3.0)
    timed(workspace, "comparisons", 5.0)
    costs = forecast(plan, workspace).costs
    # two paths, 40 training and 20 evaluation images; one comparison of 20
    assert costs["prepared"].seconds == pytest.approx(2 * (40 + 20) * 3 / 20)
    assert costs["comparisons"].seconds == pytest.approx(5)
    assert all(costs[kind].of_others for kind in ("prepared", "comparisons"))


def test_the_largest_of_similar_works_tell_the_time(plan, workspace):
    keep_pixels(workspace, plan, samples="others")
    timed(workspace, "comparisons", 5.0)
    for few in ("few", "fewer"):  # two works that took hardly any time would be the median
        keep_pixels(workspace, plan, samples=few, images=2)
    assert forecast(plan, workspace).costs["comparisons"].seconds == pytest.approx(5)


def test_pixels_of_the_same_images_tell_the_time_before_those_of_others(plan, workspace):
    keep_pixels(workspace, plan, code="older")
    timed(workspace, "prepared", 3.0)
    timed(workspace, "comparisons", 5.0)
    costs = forecast(plan, workspace).costs
    keep_pixels(workspace, plan, samples="others")
    kinds = ("prepared", "comparisons")
    assert [forecast(plan, workspace).costs[kind] for kind in kinds] == [costs[k] for k in kinds]
    assert not any(costs[kind].of_others for kind in kinds)


def test_when_all_is_cached_nothing_is_to_be_done(plan, workspace):
    for training in plan.trainings:
        keep_training(workspace, training)
    for cell in plan.evaluations:
        keep_cell(workspace, cell)
    keep_attributions(workspace, plan)
    keep_pixels(workspace, plan)
    expected = forecast(plan, workspace)
    assert (expected.known, expected.unknown) == (NOTHING, ())


def test_an_attribution_says_what_it_will_mix(plan, workspace):
    (outlook,) = forecast(plan, workspace).attributions
    assert outlook.state == "to run"
    assert outlook.work.factors == ("decode", "orient", "resize")
    assert outlook.work.mixture_count == 8


def test_attributions_are_timed_by_those_of_the_same_paths_scaled_to_images_and_models(
    plan, workspace
):
    for training in plan.trainings:
        keep_training(workspace, training)
    for cell in plan.evaluations:
        keep_cell(workspace, cell)
    keep_attributions(workspace, plan, models=[])
    assert "attributions" in forecast(plan, workspace).unknown  # pixels alone predict nothing
    keep_attributions(workspace, plan, models=["other"])
    timed(workspace, "comparisons", 7.0)
    (workspace.root / plan.experiment.name).mkdir()
    expected = forecast(plan, workspace)
    assert expected.attributions[0].state == "to run"
    assert expected.attributions[0].reason == "models changed"
    models = len(expected.attributions[0].work.models)
    assert expected.costs["attributions"].seconds == pytest.approx(7 * models)


def test_what_a_live_endpoint_takes_part_in_is_attributed_in_every_run(workspace, tmp_path):
    file = tmp_path / "live.yaml"
    file.write_text(YAML)
    endpoint = "{name: kserve, url: 'http://localhost:1', model: m, sends: tensors, serves: opencv}"
    overrides = ["train.seeds=[3]", f"evaluate.backends=[torch, {endpoint}]"]
    plan = make_plan(load_experiment(file, overrides))
    assert [each.live for each in planned_attributions(plan)] == [True]
    keep_attributions(workspace, plan)
    assert [each.state for each in forecast(plan, workspace).attributions] == ["to run"]
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
