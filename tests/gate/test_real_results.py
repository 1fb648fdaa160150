"""Results that hold more than real numbers are refused wherever a user's code gives them."""

import numpy as np
import pytest
import torch

from alignkit.arrays import unreal
from alignkit.errors import BackendError, ConfigError
from alignkit.gate.result_comparison import array_of
from alignkit.models.module_outputs import named_outputs
from alignkit.tap_recorder import Tap

LEVELS = np.arange(48).reshape(4, 4, 3)
MASK = np.zeros(LEVELS.shape, bool)
MASK[1, 2, 0] = True
UNREAL = {
    "complex128": LEVELS + 0j,
    "complex64": (LEVELS + 1j).astype(np.complex64),
    "torch.complex64": torch.tensor(LEVELS + 1j),
    "one value masked": np.ma.masked_array(LEVELS, mask=MASK),
    "all masked": np.ma.masked_array(LEVELS, mask=True),
}
REAL = {
    "a mask that hides nothing": np.ma.masked_array(LEVELS, mask=MASK & False),
    "no mask": np.ma.masked_array(LEVELS),
    **{name: LEVELS.astype(name) for name in ("int8", "uint16", "int64", "float16", "float64")},
    **{
        name: torch.tensor(LEVELS).to(getattr(torch, name))
        for name in ("bfloat16", "float16", "float64", "float8_e5m2", "uint8", "int16", "uint16")
    },
    "a gradient": torch.tensor(LEVELS, dtype=torch.float32, requires_grad=True),
}


def plain(value):
    return np.array((value.detach().double() if hasattr(value, "detach") else value).tolist())


@pytest.mark.parametrize("name", UNREAL)
def test_what_is_not_real_is_refused(name, tmp_path):
    value = UNREAL[name]
    with pytest.raises(ConfigError, match=r"complex|masked"):
        array_of(value)
    tap = Tap()
    tap.to(tmp_path)
    with pytest.raises(TypeError, match=r"no real numbers|masked"):
        tap("decode", value, "a.jpg")
    assert not [*tmp_path.rglob("*.npy")]


@pytest.mark.parametrize("name", REAL)
def test_what_is_real_is_taken_as_it_is(name, tmp_path):
    value = REAL[name]
    np.testing.assert_array_equal(array_of(value), plain(value))
    tap = Tap()
    tap.to(tmp_path)
    tap("decode", value, "a.jpg")
    np.testing.assert_array_equal(np.load(tmp_path / "decode" / "a.jpg.npy"), plain(value))


@pytest.mark.parametrize("value", [np.full((4, 4, 3), "1"), np.full((4, 4, 3), None), 3, "image"])
def test_what_holds_no_numbers_is_no_array(value):
    with pytest.raises(ConfigError, match="no array"):
        array_of(value)


@pytest.mark.parametrize("returned", [torch.ones(1, 3) * 1j, (torch.ones(1), torch.ones(1) * 1j)])
def test_an_output_of_a_module_is_real(returned):
    with pytest.raises(BackendError, match="is complex"):
        named_outputs(returned)


@pytest.mark.parametrize("value", [1 + 0j, np.complex64(1), np.ma.masked, np.array(1j)])
def test_a_score_is_real(value):
    assert unreal(value)
    assert not any(map(unreal, (1, 1.5, True, np.float16(2), np.array(3), torch.tensor(4.0), None)))
