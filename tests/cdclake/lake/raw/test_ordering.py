"""Encoded ordering values sort like the values, and positions sort like the changes."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.raw.ordering import order_values
from cdclake.model.position import NULL_ORDERING, file_and_row, file_ordering, position

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "20240305-101500123.parquet"


def encoded(values: list[Any], kind: pa.DataType) -> list[str]:
    texts: list[str] = order_values(pa.array(values, kind)).to_pylist()
    return texts


def positions(values: list[Any], kind: pa.DataType) -> list[bytes]:
    """Positions of change rows with these ordering values, as compared bytes."""
    return [position(FILE, 0, ordering).encode() for ordering in encoded(values, kind)]


def assert_ordered(values: list[Any], kind: pa.DataType, key: Callable[[Any], Any] = lambda value: value) -> None:
    for first, first_position in zip(values, positions(values, kind), strict=True):
        for second, second_position in zip(values, positions(values, kind), strict=True):
            assert (first_position < second_position) == (key(first) < key(second)), (first, second)


moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc))  # noqa: DTZ001 - hypothesis wants bounds without zone


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_integers_keep_their_order(values: list[int]) -> None:
    assert_ordered(values, pa.int64())


@given(st.lists(st.integers(-128, 127), max_size=8))
def test_an_integer_has_the_same_encoding_in_every_width(values: list[int]) -> None:
    assert encoded(values, pa.int8()) == encoded(values, pa.int64())


@given(st.lists(st.booleans(), max_size=4))
def test_booleans_keep_their_order(values: list[bool]) -> None:
    assert_ordered(values, pa.bool_())


@given(st.lists(st.dates(), max_size=8))
def test_dates_keep_their_order(values: list[date]) -> None:
    assert_ordered(values, pa.date32())


@given(st.lists(moments, max_size=8))
def test_timestamps_keep_their_order_to_the_microsecond(values: list[datetime]) -> None:
    assert_ordered([*values, *(value + timedelta(microseconds=1) for value in values)], pa.timestamp("us", "UTC"))


@given(st.lists(st.floats(allow_nan=False), max_size=8))
def test_doubles_keep_their_order(values: list[float]) -> None:
    assert_ordered([*values, -math.inf, -0.0, 0.0, 5e-324, math.inf], pa.float64())


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=8))
def test_floats_are_encoded_like_doubles(values: list[float]) -> None:
    assert encoded(values, pa.float32()) == encoded(values, pa.float64())


def test_nan_is_above_infinity_and_negative_zero_equals_zero() -> None:
    infinity, nan, other_nan, minus_zero, zero = encoded([math.inf, math.nan, -math.nan, -0.0, 0.0], pa.float64())
    assert infinity < nan == other_nan
    assert minus_zero == zero


decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)


@given(st.lists(decimals | st.integers(-20, 20).map(lambda tenths: Decimal(tenths) / 10), max_size=8))
def test_decimals_keep_their_order(values: list[Decimal]) -> None:
    assert_ordered(values, pa.decimal128(38, 6))


def test_decimals_of_different_scales_compare_by_value() -> None:
    coarse = encoded([Decimal("-2.0"), Decimal("-1.5"), Decimal("1.5"), Decimal("2.0")], pa.decimal128(4, 1))
    fine = encoded([Decimal("-1.51"), Decimal("-1.50"), Decimal("1.50"), Decimal("1.51")], pa.decimal128(10, 2))
    assert coarse[0] < fine[0] < coarse[1] == fine[1] < coarse[2] == fine[2] < fine[3] < coarse[3]


def test_decimals_of_any_length_keep_their_order() -> None:
    longest, next_longest = Decimal("9" * 38), Decimal("9" * 37 + "8")
    values = [
        longest.copy_negate(),
        next_longest.copy_negate(),
        Decimal(-10),
        Decimal(-9),
        Decimal(0),
        Decimal(9),
        Decimal(10),
        Decimal(100),
        next_longest,
        longest,
    ]
    assert_ordered(values, pa.decimal128(38, 0))


low_characters = st.text("\x00\x01\x02a|}~", max_size=4)


@given(st.lists(low_characters | st.text(st.characters(codec="utf-8"), max_size=4), max_size=8))
def test_text_sorts_by_bytes_whatever_follows(values: list[str]) -> None:
    low = ["a", "a\x00", "a\x00\x00", "a\x01", "a\x01}", "a\x02", "a!", "b"]
    assert_ordered([*values, *low, "", "ab", "abc", "ab|", " "], pa.string(), lambda text: text.encode())


def test_a_text_with_low_characters_keeps_its_file_and_row() -> None:
    (stored,) = encoded(["a\x00|\x01"], pa.string())
    assert file_and_row(position(FILE, 7, stored)) == (FILE, 7)


@given(st.lists(st.binary(max_size=4), max_size=8))
def test_bytes_keep_their_order(values: list[bytes]) -> None:
    assert_ordered(values, pa.binary())


@pytest.mark.parametrize(
    ("lowest", "kind"),
    [
        (-(2**63), pa.int64()),
        ("", pa.string()),
        (" ", pa.string()),
        (b"", pa.binary()),
        (-math.inf, pa.float64()),
        (Decimal("-" + "9" * 38), pa.decimal128(38, 0)),
        (date(1, 1, 1), pa.date32()),
        (False, pa.bool_()),
    ],
)
def test_null_sorts_below_every_value(lowest: Any, kind: pa.DataType) -> None:
    null, value = positions([None, lowest], kind)
    assert encoded([None], kind) == [NULL_ORDERING]
    assert null < value


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (pa.int8(), -5, "09223372036854775803"),
        (pa.int64(), 2**63 - 1, "18446744073709551615"),
        (pa.bool_(), True, "09223372036854775809"),
        (pa.date32(), date(2024, 3, 5), "09223372036854795595"),
        (pa.timestamp("us", "UTC"), datetime(2024, 3, 5, tzinfo=timezone.utc), "09225081633654775808"),
        (pa.float32(), -1.5, "04613937818241073151"),
        (pa.float64(), 1.5, "13832806255468478464"),
        (pa.float64(), math.nan, "18444492273895866368"),
        (pa.decimal128(6, 2), Decimal("12.50"), "102125!"),
        (pa.decimal128(6, 2), Decimal("-0.05"), "09994~"),
        (pa.decimal128(6, 2), Decimal(0), "100!"),
        (pa.string(), "a|b", '"a|b\x01'),
        (pa.string(), "a\x00\x01b", '"a\x01}\x01~b\x01'),
        (pa.binary(), b"\x00\xff", '"00ff\x01'),
        (pa.int64(), None, "!"),
    ],
)
def test_the_stored_text_of_an_ordering_value_does_not_change(kind: pa.DataType, value: Any, stored: str) -> None:
    assert encoded([value], kind) == [stored]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Decimal(5), "09223372036854775813"),
        (Decimal("5.25"), "09223372036854775813~25!"),
        (Decimal("-5.25"), "09223372036854775802~75!"),
        (Decimal(2**63), "20199223372036854775808"),
        (Decimal(-(2**63) - 1), "-9800776627963145224190"),
    ],
)
def test_the_stored_text_of_a_decimal_among_integers_does_not_change(value: Decimal, stored: str) -> None:
    assert order_values(pa.array([value], pa.decimal128(38, 2)), "int").to_pylist() == [stored]


whole = st.integers(-(2**63), 2**63 - 1)
anything = (
    st.tuples(st.just(pa.int64()), whole)
    | st.tuples(st.just(pa.decimal128(38, 4)), decimals | whole.map(Decimal) | st.decimals(-(10**33), 10**33, places=4))
    | st.tuples(st.just(pa.float64()), st.floats(allow_nan=False) | st.integers(-99, 99).map(float))
)


@given(st.lists(anything, min_size=2, max_size=6))
def test_wider_numbers_sort_among_the_integers_before_them(values: list[tuple[pa.DataType, Any]]) -> None:
    texts = [order_values(pa.array([value], kind), "smallint")[0].as_py() for kind, value in values]
    for (_, first), first_text in zip(values, texts, strict=True):
        for (_, second), second_text in zip(values, texts, strict=True):
            places = position(FILE, 0, first_text).encode() < position(FILE, 0, second_text).encode()
            assert places == (first < second), (first, second)


def test_nan_and_infinities_are_beyond_the_integers_before_them() -> None:
    numbers = order_values(pa.array([-math.inf, -1e300, 1e300, math.inf, math.nan]), "int").to_pylist()
    assert sorted([*numbers, NULL_ORDERING]) == [NULL_ORDERING, *numbers]


def test_files_with_and_without_a_change_sequence_sort_by_time() -> None:
    earlier, later = "20240305-101500000.csv", "20240305-1016000009.csv"
    sequence = "2024030510153000" + "0000000000000000007"
    assert position(earlier, 0) < position(FILE, 0, sequence) < position(later, 0)


def test_the_time_in_a_file_name_has_18_digits_in_any_folder() -> None:
    assert file_ordering("2024/03/05/20240305-101500123.csv.gz") == "202403051015001230"
    assert file_ordering("20240305-1015001234.csv") == "202403051015001234"
    assert file_ordering("CDC_TXN-20240305101500123.csv") == "202403051015001230"


def test_a_change_row_without_ordering_value_is_above_every_full_load_row() -> None:
    assert position(FILE, 0, NULL_ORDERING) > ""
