"""Fixtures every test file may use."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from alignkit.extras import missing_library
from alignkit.plugins import gpu_present
from tests.photos import make_jpegs

gc.disable()  # thousands of tests are collected, none is garbage: looking for it took a quarter
# for the processes that tests start: without bytecode each would compile torch again, for seconds
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# a job in a shell's background inherits that interrupts are ignored, and so would what tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
if not missing_library("torch"):  # the core's tests run without it
    import torch

    torch.set_num_threads(1)  # tests are small; threads only fight each other


def pytest_collection_finish() -> None:
    """Look for garbage again, and seldom among the million objects of modules and tests."""
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked ``gpu`` is skipped, and told so, where there is no GPU."""
    if item.get_closest_marker("gpu") and not gpu_present():
        pytest.skip("this machine has no NVIDIA GPU")


@pytest.fixture(scope="session", autouse=True)
def _outside_ci() -> Iterator[None]:
    """Tests run as on a desk; what alignkit does in CI is tested by setting ``CI`` there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CI", raising=False)
        yield


@pytest.fixture(autouse=True)
def _own_code_of_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tests write modules of one name; none of them was edited by another."""
    monkeypatch.setattr("alignkit.tasks.own_code._IMPORTED", {})
    monkeypatch.setattr("alignkit.tasks.own_code._KEYED", {})


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public images beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data, the folder of public test images, is not here")
    return folder


@pytest.fixture(scope="session")
def jpegs() -> dict[str, bytes]:
    """Small valid JPEGs of one photo, by kind; see `tests.photos.make_jpegs`."""
    return make_jpegs()
