"""Keys are one text or number per row, and their stored form stays the same."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.storage.keys import (
    convert_keys,
    key_range_of_columns,
    leading_key_range_of,
    part_of,
    row_keys,
)
from cdclake.lake.storage.types import cast_exactly, to_arrow
from tests.examples import examples

STORED = [
    ("tinyint", -5, -5),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("boolean", True, 1),
    ("date", date(2024, 3, 5), 19787),
    ("timestamp", datetime(2024, 3, 5, 10, 15, 0, 1, timezone.utc), 1709633700000001),
    ("decimal(10,0)", Decimal(-5), "-5"),
    ("decimal(10,2)", Decimal("5.1"), "5.10"),
    ("decimal(20,10)", Decimal(0), "0E-10"),
    ("float", 0.1, "0.1"),
    ("double", 1e20, "1e+20"),
    ("double", -math.inf, "-inf"),
    ("double", math.nan, "nan"),
    ("double", -0.0, "0"),
    ("string", "Ab ", "Ab "),
    ("binary", b"\x00\xff", "00ff"),
]
"""Keys as they are stored in tombstones and key ranges of existing lakes."""


def encoded(kind: str, *values: Any) -> pa.Array:
    return row_keys([pa.array(values, to_arrow(kind))])[1]


@pytest.mark.parametrize(("kind", "value", "stored"), STORED)
def test_the_stored_form_of_a_key_does_not_change(kind: str, value: object, stored: object) -> None:
    assert encoded(kind, value).to_pylist() == [stored]


def test_the_stored_form_of_a_key_of_several_columns_does_not_change() -> None:
    columns = [pa.array(["a:é", ""]), pa.array([Decimal("1.10"), None], pa.decimal128(4, 2)), pa.array([7, 8])]
    leading_keys, keys = row_keys(columns)
    assert leading_keys.to_pylist() == ["a:é\0001.10\00009223372036854775815", None]
    assert keys.to_pylist() == ["4:a:é:4:1.10:1:7", None]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_zeros_of_both_signs_are_one_key_as_are_all_nans(kind: str) -> None:
    assert len(encoded(kind, 0.0, -0.0).unique()) == 1
    assert len(encoded(kind, math.nan, -math.nan).unique()) == 1


@examples(thorough=5_000, ci=200, test=100)
@given(st.data())
def test_leading_keys_of_several_columns_sort_like_their_values(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(["bigint", "string"]), min_size=2, max_size=3))
    number, text = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), st.text(alphabet="\0\1\2ab:é𝄞", max_size=4)
    row = st.tuples(*(number if kind == "bigint" else text for kind in kinds))
    rows = data.draw(st.lists(row, min_size=1, max_size=10))
    columns = [pa.array(column, to_arrow(kind)) for column, kind in zip(zip(*rows), kinds)]
    leading_keys = row_keys(columns)[0]

    by_key = sorted(range(len(rows)), key=lambda i: (leading_keys[i].as_py(), i))
    assert [rows[i] for i in by_key] == sorted(rows)
    assert [rows[i] for i in pc.array_sort_indices(leading_keys).to_pylist()] == sorted(rows), "as Arrow sorts them"
    assert [part_of(leading_keys, i, column.type) for i, column in enumerate(columns)] == columns
    assert leading_key_range_of(columns) == (min(leading_keys.to_pylist()), max(leading_keys.to_pylist()))
    low, high = key_range_of_columns([(min(column), max(column)) for column in zip(*rows)])
    assert low <= min(leading_keys.to_pylist())
    assert max(leading_keys.to_pylist()) <= high


@pytest.mark.parametrize("kinds", [["bigint"], ["string", "bigint", "string"]])
def test_no_rows_have_no_range(kinds: list[str]) -> None:
    assert leading_key_range_of([pa.array([], to_arrow(kind)) for kind in kinds]) == (None, None)


def test_bounds_use_a_column_only_while_those_before_it_have_one_value() -> None:
    columns = pa.array([7, 7, 7, 8, 6, 9]), pa.array([100, 200, 5, 500, 5, 5])
    first, last, *others = row_keys(columns)[0].to_pylist()
    assert key_range_of_columns([(7, 7), (100, 200)]) == (first, last)
    low, high = key_range_of_columns([(7, 8), (100, 200)])
    assert [low <= key <= high for key in others] == [True, True, False, False]
    assert key_range_of_columns([(None, None), (1, 2)]) == (None, None)


WIDENINGS = [
    ("smallint", "bigint", st.integers(-9, 9)),
    ("int", "decimal(12,2)", st.integers(-9, 9)),
    ("int", "double", st.integers(-9, 9)),
    ("smallint", "float", st.integers(-9, 9)),
    ("decimal(4,1)", "decimal(20,10)", st.decimals(-9, 9, places=1)),
    ("float", "double", st.floats(width=32)),
    ("string", "string", st.text(max_size=3)),
    ("binary", "binary", st.binary(max_size=3)),
]


@examples(thorough=1_000, ci=100, test=50, quick=20)
@given(st.lists(st.sampled_from(WIDENINGS), min_size=1, max_size=3), st.data())
def test_converted_keys_equal_the_keys_of_the_widened_values(kinds: list[Any], data: st.DataObject) -> None:
    values = [[data.draw(strategy) for _ in range(3)] for _, _, strategy in kinds]
    narrow = [pa.array(column, to_arrow(kind)) for column, (kind, _, _) in zip(values, kinds, strict=True)]
    wide = [cast_exactly(column, kind) for column, (_, kind, _) in zip(narrow, kinds, strict=True)]
    before, after = [kind for kind, _, _ in kinds], [kind for _, kind, _ in kinds]
    assert convert_keys(*row_keys(narrow), before, after) == row_keys(wide)
