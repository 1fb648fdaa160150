"""Memory that is used again, by one thread."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from alignkit.compare.histogram import Scratch


def test_a_name_has_one_memory_that_grows():
    scratch = Scratch()
    first = scratch.array("a", (4, 5), np.float32)
    assert (first.shape, first.dtype, first.flags.c_contiguous) == ((4, 5), np.float32, True)
    assert np.shares_memory(first, scratch.array("a", (3,), np.uint8))
    assert not np.shares_memory(first, scratch.array("b", (4, 5), np.float32))
    assert scratch.array("a", (400,), np.uint32).shape == (400,)


def test_threads_do_not_share():
    scratch, both = Scratch(), Barrier(2)

    def take(_):
        taken = scratch.array("a", (9,), np.uint8)
        both.wait(5)
        return taken

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(take, range(2))
    assert not np.shares_memory(one, two)
