"""The search for the largest batch, and the failures that it takes for a lack of memory."""

import traceback

import pytest

from alignkit.outcome import Failed
from alignkit.studies.bench.loaders import LARGEST_TRIED, largest_batch

LIMIT = 10**9


def search(largest: int, first: int = 16, message: str = "out of memory: it held 1000.1 MB"):
    tried = []

    def attempt(batch: int) -> Failed | None:
        tried.append(batch)
        return None if batch <= largest else Failed(message, "")

    found, failed = largest_batch(attempt, LIMIT, first)
    assert len(tried) == len(set(tried)) <= 20
    return found or failed


@pytest.mark.parametrize("first", [1, 16, 300])
@pytest.mark.parametrize("largest", [1, 2, 15, 16, 17, 100, 255, 256, 1000, 8191])
def test_the_batch_that_fits_and_the_one_that_does_not_are_near_each_other(largest, first):
    found = search(largest, first)
    assert found.fits <= largest < found.exceeds
    assert found.exceeds - found.fits <= max(1, found.fits // 16)
    assert found.reason == "out of memory: it held 1000.1 MB"


def test_nothing_may_fit_and_everything_may():
    none = search(0)
    assert (none.fits, none.exceeds) == (None, 1)
    everything = search(10**6)
    assert (everything.fits, everything.exceeds) == (LARGEST_TRIED, None)
    assert "not tried" in everything.reason


@pytest.mark.parametrize("message", [
    "RuntimeError: decoder: unknown marker",
    "crashed: SIGSEGV",
    "timed out: no answer within 3600 s",
    "an image was decoded before, and not now: broken",
])  # fmt: skip
def test_any_other_failure_is_no_lack_of_memory(message):
    assert search(16, message=message).startswith("a batch of 32 failed: ")


RAISED = {
    "python": "bytearray(1 << 46)",
    "numpy": "import numpy; numpy.empty(1 << 46, numpy.uint8)",
    "torch": "import torch; torch.empty(1 << 46, dtype=torch.uint8)",
}


@pytest.mark.parametrize("library", RAISED)
def test_a_library_that_gets_no_memory_is_known_by_its_words(library):
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        exec(RAISED[library])
    words = "".join(traceback.format_exception_only(caught.value))
    found = search(16, message=words.strip().splitlines()[-1])
    assert found.fits == 16


@pytest.mark.parametrize("message", [
    "RuntimeError: std::bad_alloc",
    "out of memory: killed by the system",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible",
])  # fmt: skip
def test_words_of_the_system_and_of_torchs_workers_are_known(message):
    assert search(16, message=message).exceeds == 17
