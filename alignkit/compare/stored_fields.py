"""Annotations of fields that JSON has no form for, in types that are stored as they are.

    lost: Annotated[FloatArray, BITS]
    means: Annotated[Counter[float], PAIRS]

Parts of lots have such fields. They may come from another machine, so that each is checked before
it is added up.
"""

from __future__ import annotations

import math
from types import GenericAlias
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

import numpy as np
import numpy.typing as npt
from pydantic import Base64Bytes, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    no_info_after_validator_function,
    plain_serializer_function_ser_schema,
)

from alignkit.record import Count

_StoredArray: TypeAlias = tuple[Literal["<f8", "<f4", "<i4", "|b1"], tuple[Count, ...], Base64Bytes]
"""Type, shape, and values in C order."""


class _Bits:
    """An array of numbers, bit by bit."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        stored = handler.generate_schema(_StoredArray)
        written = plain_serializer_function_ser_schema(
            lambda array: (array.dtype.str, array.shape, array.tobytes()), return_schema=stored
        )
        return no_info_after_validator_function(_array_of, stored, serialization=written)


class _Pairs:
    """A mapping whose keys are no words, as a list of keys and values."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        kind, (key, *value) = get_origin(source), get_args(source)
        # a `Counter` has the type of its keys alone
        pair = GenericAlias(tuple, (key, *(value or [int])))
        stored = handler.generate_schema(GenericAlias(tuple, (pair, ...)))
        written = plain_serializer_function_ser_schema(
            lambda mapping: tuple(mapping.items()), return_schema=stored
        )
        return no_info_after_validator_function(
            lambda pairs: kind(dict(pairs)), stored, serialization=written
        )


BITS: Final = _Bits()
PAIRS: Final = _Pairs()


def _array_of(stored: _StoredArray) -> npt.NDArray[Any]:
    dtype, shape, data = stored
    if len(data) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError("its data are not of its shape")
    # a copy, as the bytes cannot be written
    return np.frombuffer(data, dtype).reshape(shape).copy()
