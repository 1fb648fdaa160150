"""Pixels read back from batches, and CPU time of a process with its workers."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from alignkit.preprocess.normalise import Normalise
from alignkit.studies.bench.loaders.loader_process import cpu_seconds, levels, on_grid

DRAWS = np.random.default_rng(0)
NORMALISATIONS = (
    Normalise(),
    Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    Normalise((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    Normalise((127.5 / 255,) * 3, (128 / 255,) * 3),
)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_every_level_comes_back_from_its_tensor(normalise):
    pixels = np.arange(256, dtype=np.uint8)[:, None, None].repeat(3, axis=2)
    again = levels(normalise(pixels), normalise)
    assert again.dtype == np.uint8
    assert np.array_equal(again, pixels)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_another_order_of_the_arithmetic_is_no_difference(normalise):
    pixels = DRAWS.integers(0, 256, (40, 50, 3)).astype(np.uint8)
    # as DALI computes it: times the inverse of the deviation, in grey levels
    inverse = np.float32(1) / (255 * np.array(normalise.std, np.float32))
    other = (pixels.astype(np.float32) - 255 * np.array(normalise.mean, np.float32)) * inverse
    assert np.array_equal(levels(other.transpose(2, 0, 1), normalise), pixels)


def test_unrounded_pixels_keep_their_fraction_within_half_a_step():
    pixels = DRAWS.uniform(0, 255, (40, 50, 3)).astype(np.float32)
    normalise = Normalise()
    again = levels(normalise(pixels), normalise)
    assert again.dtype == np.float32
    assert np.abs(again - pixels).max() <= 0.5 / 256 + 1e-4
    assert on_grid(pixels - 300).min() < 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_time_of_a_worker_counts():
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    program = (
        "import multiprocessing, sys\n"
        f"def work(): exec({spin!r}); ready.set(); stop.wait()\n"
        "ready, stop = multiprocessing.Event(), multiprocessing.Event()\n"
        "worker = multiprocessing.Process(target=work); worker.start(); ready.wait()\n"
        "print(flush=True); sys.stdin.readline(); stop.set(); worker.join()\n"
    )
    before = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        used, passed = cpu_seconds(process.pid), time.monotonic() - before
        process.stdin.write(b"\n")
    assert 0.28 <= used <= passed * (os.cpu_count() or 1)
    assert cpu_seconds(process.pid) == 0
