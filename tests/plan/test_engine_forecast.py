"""The time of a plan with an engine follows from the pace of this machine and the number of lots."""

import math

import pytest

import alignkit.lots
from alignkit.lots.engines import EngineOption
from alignkit.plan import preparations
from alignkit.plan.engine_forecast import engine_forecast
from alignkit.plan.forecast import forecast
from alignkit.torch_settings import usable_cpus
from alignkit.workspace import Workspace
from tests.plan.test_forecast import keep_pixels, plan, timed  # noqa: F401 - a fixture

WORK = ("prepared", "comparisons")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "reports")


@pytest.fixture
def measured(plan, workspace, monkeypatch):  # noqa: F811
    """Similar work of other images is stored: half a second for each of 20 images."""
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 7)
    keep_pixels(workspace, plan, samples="other")
    for kind in WORK:
        timed(workspace, kind, 10.0)
    return forecast(plan, workspace)


def divided(expected, workspace, workers):
    return engine_forecast(expected, EngineOption("dask", workers=workers), workspace)


def makespan(images, workers):
    """Seconds until the last of equal lots is done, by handing out one after the other."""
    lots = math.ceil(images / 7)
    free = [0.0] * workers
    for _ in range(lots):
        free[free.index(min(free))] += images / lots * 0.5 * usable_cpus()
    return max(free)


@pytest.mark.parametrize("workers", [1, 2, 3, 100])
def test_lots_are_shared_out_among_the_workers(plan, workspace, measured, workers):  # noqa: F811
    train, evaluation = plan.data.counts()
    splits = [each.split for each in preparations(plan)]
    works = [train if split == "train" else evaluation for split in splits]
    works += [evaluation for _ in plan.comparisons]
    found = divided(measured, workspace, workers)
    assert found.shared == pytest.approx(sum(makespan(images, workers) for images in works))
    assert found.seconds is None  # of trainings and cells nothing is stored
    assert found.core_seconds is None


def test_nothing_is_said_of_work_that_was_not_measured(plan, workspace):  # noqa: F811
    found = divided(forecast(plan, workspace), workspace, 2)
    assert (found.shared, found.rest, found.more_bytes, found.start) == (None, None, None, None)


def test_work_of_an_engine_is_no_pace_of_this_machine_but_tells_its_start(plan, workspace):  # noqa: F811
    class Engine:
        def facts(self):
            return {"name": "dask", "workers": 3, "start": 1.25}

    for each in (*preparations(plan), *plan.comparisons):
        parts = each.parts | {"samples": "other"}
        with workspace.store(each.kind, parts, each.label, images=20, engine=Engine()):
            pass
    expected = forecast(plan, workspace)
    assert {*WORK} <= {*expected.unknown}
    found = divided(expected, workspace, 2)
    assert (found.start, found.started) == (1.25, 3)
    ray = engine_forecast(expected, EngineOption("ray", workers=2), workspace)
    assert ray.start is None
