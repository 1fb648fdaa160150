"""Stored arrays and mappings are read back bit by bit, and damaged ones are refused."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import TypeAdapter, ValidationError

from alignkit.compare.displacement import Normal
from alignkit.compare.spatial_sums import DrawnImage, SpatialSums
from alignkit.compare.stored_fields import BITS, PAIRS

ARRAY = TypeAdapter(Annotated[npt.NDArray[Any], BITS])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (4, 0)])
def test_an_array_comes_back_bit_by_bit(dtype, shape):
    array = np.random.default_rng(0).normal(0, 1e6, shape).astype(dtype)
    again = ARRAY.validate_json(ARRAY.dump_json(array))
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, shape, array.tobytes())
    assert again.flags.writeable


def test_numbers_that_json_has_no_form_for_come_back_too():
    array = np.array([np.nan, np.inf, -0.0, 5e-324])
    again = ARRAY.validate_json(ARRAY.dump_json(array))
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "stored",
    [
        "null", "[]", "3", '["<f8", [1], "????"]', '["<f8", [2], "AAAAAAAAAAA="]',
        '["<f8", [-1], "AAAAAAAAAAA="]', '["|O8", [1], "AAAAAAAAAAA="]', '["<f8", ["1"], ""]',
        '["<f8", 3, ""]',
    ],
)  # fmt: skip
def test_what_is_no_array_is_refused(stored):
    with pytest.raises(ValidationError):
        ARRAY.validate_json(stored)


@dataclass
class Held:
    counted: Annotated[Counter[float], PAIRS]
    by_place: Annotated[dict[tuple[str, int], tuple[int, float]], PAIRS]


def test_mappings_by_numbers_and_tuples_come_back_in_their_order():
    held = Held(Counter({0.1 + 0.2: 2, 1e-300: 1}), {("b", 1): (1, 0.5), ("a", 2): (2, 0.25)})
    adapter = TypeAdapter(Held)
    again = adapter.validate_json(adapter.dump_json(held))
    assert again == held
    assert type(again.counted) is Counter
    assert [*again.by_place] == [*held.by_place]
    with pytest.raises(ValidationError):
        adapter.validate_json('{"counted": [[0.1, "many"]], "by_place": []}')


def test_sums_of_drawn_images_come_back_with_all_of_their_parts():
    rng = np.random.default_rng(1)
    normal = Normal(rng.normal(size=(2, 2)), rng.normal(size=2), 3.5, 8)
    drawn = DrawnImage(None, normal, None, rng.normal(size=(3, 4)), {7: rng.normal(size=(2, 7, 7))})
    sums = SpatialSums({(1, 2): rng.normal(size=(1, 2)), (3, 1): rng.normal(size=(3, 1))}, (drawn,))
    adapter = TypeAdapter(SpatialSums)
    text = adapter.dump_json(sums)
    again = adapter.validate_json(text)
    assert adapter.dump_json(again) == text
    assert [*again.maps] == [(1, 2), (3, 1)]
    np.testing.assert_array_equal(again.drawn[0].folds[7], drawn.folds[7])
