"""Golden tensors: stored once, found by content, checked when read."""

import os

import numpy as np
import pytest

from alignkit.baseline.golden import GoldenStore, array_sha256
from alignkit.errors import BaselineError


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_array_comes_back_bit_for_bit(tmp_path, dtype):
    array = (np.random.default_rng(0).random((5, 7, 3)) * 255).astype(dtype)
    store = GoldenStore(tmp_path)
    found = store.get(store.put(array))
    assert found is not None
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_the_hash_tells_shape_and_dtype_apart():
    zeros = np.zeros((2, 6, 3), np.uint8)
    others = (zeros.reshape(6, 2, 3), zeros.view(np.int8), zeros[:1])
    assert len({array_sha256(zeros), *map(array_sha256, others)}) == 4
    assert array_sha256(zeros[:, ::-1]) == array_sha256(zeros)


def test_equal_arrays_share_a_file_that_is_not_written_again(tmp_path):
    store = GoldenStore(tmp_path)
    store.put(np.ones((2, 2, 3), np.uint8))
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    store.put(np.ones((2, 2, 3), np.uint8))
    assert file.stat().st_mtime_ns == before


def test_an_array_that_is_not_kept_is_none(tmp_path):
    assert GoldenStore(tmp_path).get("0" * 64) is None


def test_a_damaged_or_wrong_tensor_is_refused(tmp_path):
    store = GoldenStore(tmp_path)
    sha256 = store.put(np.ones((2, 2, 3), np.uint8))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    with pytest.raises(BaselineError, match="damaged"):
        store.get(sha256)
    other = tmp_path / f"{'1' * 64}.npz"
    other.write_bytes(whole)
    with pytest.raises(BaselineError, match="another array than its name says"):
        store.get("1" * 64)


def test_a_pipe_in_the_place_of_a_tensor_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / f"{'1' * 64}.npz")
    with pytest.raises(BaselineError, match="it holds no array"):
        GoldenStore(tmp_path).get("1" * 64)
