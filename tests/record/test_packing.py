import json

import numpy as np
import pytest

from alignkit.record.packing import pack, script
from tests.packed import unpack


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_arrays_come_back_bit_for_bit(dtype):
    values = np.random.default_rng(0).integers(0, 255, (7, 5, 3)).astype(dtype)
    if dtype is np.float32:
        values.flat[:3] = np.nan, -0.0, 1e-30
    found = unpack(pack(values))
    assert found.dtype == dtype
    assert found.tobytes() == values.tobytes()


def test_an_empty_array_comes_back_empty():
    assert unpack(pack(np.zeros(0, np.float32))).size == 0


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="float64"):
        pack(np.zeros(2))


def test_a_script_is_one_assignment_of_json():
    text = script("self.x", {"name": "</script>", "n": 1})
    assert text.startswith("self.x=")
    assert json.loads(text[len("self.x=") : -2]) == {"name": "</script>", "n": 1}
