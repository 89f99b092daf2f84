"""Encodes ordering values as text that sorts, byte by byte, like the values.

Values of one type compare with each other; integers and decimals do so whatever their width and scale. Null sorts below
every value. The text is stored in positions, so the encoding of a type never changes. If the ordering column gets a
wider type, its values are still encoded among values of the first type.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.position import NULL_ORDERING, SEQUENCE_DIGITS
from cdclake.model.schema import INTEGER_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS = 20
_SIGN = np.uint64(1 << 63)
_TEXT_START = '"'
"""Above `NULL_ORDERING`, so that empty text and text that starts with a space are above it, too."""
_TEXT_END = "\x01"
_LOW_CHARACTERS = (("\x01", "\x01~"), ("\x00", "\x01}"))
"""Characters at or below the end mark, and what stands for them: above the end mark and the separator `|` that follows
it in a position, and below every other character."""
_FRACTION = "~"
"""Above the separator that ends an integer in a position."""
_SHIFT = 1 << 63
_MINUS_INFINITY, _BELOW, _ABOVE, _INFINITY, _ABOVE_INFINITY = "+", "-", "2", "3", "4"
"""First characters of numbers beyond 64-bit integers, whose digits begin with 0 or 1."""
_NUMBER = r"^\s*[+-]?\d+(\.\d*)?\s*$"
_SORTABLE_TEXT = rf"^(\d{{{SEQUENCE_DIGITS}}}|\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?)$"
"""A change sequence, or a time of TimestampColumnName: `yyyy-MM-dd HH:mm:ss.SSSSSS` in the DMS API reference."""
_NINES_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def order_values(values: pa.Array, first_type: str = "") -> pa.Array:
    """Encode a column of a lake type.

    * integers, booleans, dates, timestamps: 20 digits, shifted so that negative values come first
    * float, double: 20 digits made from the bits; -0.0 equals 0.0, and NaN is above infinity
    * decimals: sign, number of integer digits, digits, end mark; the same for every scale
    * text: unchanged, except for U+0000 and U+0001, between two marks, so that `ab` is below `abc` whatever follows
    * bytes: as text of their hexadecimal digits
    * decimals and doubles among integers: the 20 digits of the integer below them, `~`, fraction, end mark; with a
      greater or smaller first character if there is no such integer

    Args:
        first_type: Lake type with which the ordering of the table began, if that may be a narrower one.

    Returns:
        Text, without nulls.
    """
    kind = values.type
    if first_type in INTEGER_TYPES and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        encoded = _encode_distinct(values, _among_integers)
    elif pa.types.is_floating(kind):
        encoded = _twenty_digits(_float_bits(values))
    elif pa.types.is_decimal(kind):
        encoded = _encode_distinct(values, _decimal)
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


def unsortable_text(texts: pa.Array, *, declared: bool) -> int | None:
    """Index of the first text that may sort in another order than the values it stands for; None if there is none.

    Text sorts 9 above 10, and 9:00 above 10:00. Change sequences and the form that DMS writes for TimestampColumnName
    have leading zeros; they sort like the values if all have the same length. A declaration as text says that
    the order of bytes is meant, except of numbers: without a header line, Schema declares every column.

    Args:
        texts: Texts and nulls; nulls do not count.
        declared: Whether Schema declares the column as text.
    """
    present = texts.drop_null()
    sortable = pc.match_substring_regex(present, _SORTABLE_TEXT)
    if declared:
        sortable = pc.or_(sortable, pc.invert(pc.match_substring_regex(present, _NUMBER)))
    elif len(present):
        sortable = pc.and_(sortable, pc.equal(pc.utf8_length(present), pc.utf8_length(present[0])))
    first = pc.index(sortable, False).as_py()
    return None if first < 0 else int(pc.indices_nonzero(texts.is_valid())[first].as_py())


def order_kind(kind: str) -> str:
    """Name of the encoding of a lake type in `order_values`; only equal ones compare."""
    if kind in ("float", "double"):
        return "numbers with fractions"
    if kind.startswith("decimal"):
        return "decimals"
    if kind in INTEGER_TYPES:
        return "integers"
    return "text" if kind == "string" else kind


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


def _encode_distinct(values: pa.Array, encode: Callable[[Any], str]) -> pa.Array:
    encoded = pc.dictionary_encode(values)
    texts = [encode(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _among_integers(value: Decimal | float) -> str:
    """Encode a number so that it sorts among the 20 digits of integers."""
    number = Decimal(value)
    if not number.is_finite():
        return _ABOVE_INFINITY if number.is_nan() else _INFINITY if number > 0 else _MINUS_INFINITY
    sign, digits, exponent = number.as_tuple()
    # Arithmetic with Decimal would round to the context's precision.
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    whole, rest = divmod(unscaled * 10 ** max(0, int(exponent)), 10 ** max(0, -int(exponent)))
    fraction = f"{rest:0{-int(exponent)}d}".rstrip("0") if rest else ""
    return _any_integer(whole) + (f"{_FRACTION}{fraction}!" if fraction else "")


def _any_integer(whole: int) -> str:
    shifted, digits = whole + _SHIFT, str(abs(whole))
    if 0 <= shifted < 2 * _SHIFT:
        return f"{shifted:0{_DIGITS}d}"
    sized = f"{len(digits):03d}{digits}"
    return f"{_ABOVE}{sized}" if whole > 0 else f"{_BELOW}{sized.translate(_NINES_COMPLEMENT)}"


def _decimal(value: Decimal) -> str:
    # abs() would round to the decimal context's precision.
    whole, _, fraction = f"{value.copy_abs():f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    digits = f"{len(whole):02d}{whole}{fraction}"
    if value >= 0:
        return f"1{digits}!"  # the end mark sorts below every digit
    return f"0{digits.translate(_NINES_COMPLEMENT)}~"  # here it sorts above: -1.51 is below -1.5


def _between_marks(texts: pa.Array) -> pa.Array:
    for character, replacement in _LOW_CHARACTERS:
        texts = pc.replace_substring(texts, character, replacement)
    return pc.binary_join_element_wise(_TEXT_START, texts, _TEXT_END, "")
