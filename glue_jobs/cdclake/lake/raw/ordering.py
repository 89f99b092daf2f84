"""Encodes ordering values as text that sorts, byte by byte, like the values.

Values of one type compare with each other; decimals do so whatever their scale. Null sorts below every value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.position import NULL_ORDERING

if TYPE_CHECKING:
    from decimal import Decimal

_DIGITS = 20
_SIGN = np.uint64(1 << 63)
_TEXT_START = '"'
"""Above `NULL_ORDERING`, so that empty text and text that starts with a space are above it, too."""
_TEXT_END = "\x01"
_NINES_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def order_values(values: pa.Array) -> pa.Array:
    """Encode a column of a lake type.

    * integers, booleans, dates, timestamps: 20 digits, shifted so that negative values come first
    * float, double: 20 digits made from the bits; -0.0 equals 0.0, and NaN is above infinity
    * decimals: sign, number of integer digits, digits, end mark; the same for every scale
    * text: unchanged between two marks, so that `ab` is below `abc` whatever follows
    * bytes: as text of their hexadecimal digits

    Returns:
        Text, without nulls.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        encoded = _twenty_digits(_float_bits(values))
    elif pa.types.is_decimal(kind):
        encoded = _decimals(values)
    elif pa.types.is_string(kind):
        encoded = _between_marks(values)
    elif pa.types.is_binary(kind):
        encoded = _between_marks(
            pa.array([v.hex() if v is not None else None for v in values.to_pylist()], pa.string())
        )
    else:
        integers = values.cast(pa.int32()) if pa.types.is_date32(kind) else values
        encoded = _twenty_digits(_without_nulls(integers.cast(pa.int64())).view(np.uint64) ^ _SIGN)
    return pc.if_else(values.is_valid(), encoded, NULL_ORDERING)


def _without_nulls(values: pa.Array) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return array


def _twenty_digits(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers, pa.uint64()).cast(pa.string()), _DIGITS, "0")


def _float_bits(values: pa.Array) -> np.ndarray[Any, Any]:
    """IEEE 754 bits as unsigned integers in the order of the values."""
    doubles = _without_nulls(values.cast(pa.float64())) + 0.0  # -0.0 becomes 0.0
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _decimals(values: pa.Array) -> pa.Array:
    encoded = pc.dictionary_encode(values)
    texts = [_decimal(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _decimal(value: Decimal) -> str:
    # abs() would round to the decimal context's precision.
    whole, _, fraction = f"{value.copy_abs():f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    digits = f"{len(whole):02d}{whole}{fraction}"
    if value >= 0:
        return f"1{digits}!"  # the end mark sorts below every digit
    return f"0{digits.translate(_NINES_COMPLEMENT)}~"  # here it sorts above: -1.51 is below -1.5


def _between_marks(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_TEXT_START, texts, _TEXT_END, "")
