"""What a plan keeps in memory, against arrays of that size and the table this began with."""

from pathlib import Path

import numpy as np
import pytest

import alignkit.plan.memory
from alignkit.experiment import load_experiment
from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.plan import make_plan
from alignkit.plan.memory import Memory, _group_rest, available_bytes, memory, worker_bytes
from tests.plan.test_plan import YAML


def plan(tmp_path, *overrides):
    file = tmp_path / "x.yaml"
    file.write_text(YAML)
    return make_plan(load_experiment(file, overrides))


def test_caches_and_batches_are_bounded_by_float_arrays_of_their_shape(tmp_path):
    needed = memory(plan(tmp_path))
    assert needed.caches == np.empty((2 * (40 + 20), 48, 48, 3), np.float32).nbytes
    assert needed.batch == np.empty((250, 3, 48, 48), np.float32).nbytes
    assert needed.workers % (TASKS_A_WORKER * IMAGES_A_TASK * 48 * 48 * 3 * 4) == 0


def test_identical_paths_share_one_cache(tmp_path):
    same = "preprocess.pillow={preset: opencv-train, size: 48}"
    assert 2 * memory(plan(tmp_path, same)).caches == memory(plan(tmp_path)).caches


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


def test_a_control_group_that_leaves_less_is_what_counts(tmp_path, monkeypatch):
    assert _group_rest(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("30\n")
    assert _group_rest(tmp_path) is None
    (tmp_path / "memory.max").write_text("100\n")
    assert _group_rest(tmp_path) == 70
    monkeypatch.setattr(alignkit.plan.memory, "_group_rest", lambda: 70)
    assert available_bytes() == (70 if Path("/proc/meminfo").exists() else None)
