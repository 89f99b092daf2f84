"""Wider types, and merged schemas."""

from __future__ import annotations

import pytest

from cdclake.errors import SchemaMismatchError
from cdclake.model.schema import Column, Schema
from cdclake.model.type_widening import merge_schemas, wider_type


@pytest.mark.parametrize(
    ("left", "right", "wider"),
    [
        ("int", "bigint", "bigint"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(9,4)", "decimal(12,4)"),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("int", "double", "double"),
        ("bigint", "double", None),
        ("int", "string", None),
        ("date", "timestamp", None),
        ("decimal(38,0)", "decimal(38,10)", None),
    ],
)
def test_two_types_have_the_narrowest_type_that_holds_both(left: str, right: str, wider: str | None) -> None:
    assert wider_type(left, right) == wider
    assert wider_type(right, left) == wider


def test_merged_columns_keep_the_lakes_names_and_order_and_append_new_ones() -> None:
    lake = Schema((Column("Id", "int"), Column("gone", "string")))
    incoming = Schema((Column("fresh", "date"), Column("ID", "bigint")))
    assert merge_schemas(lake, incoming, "f").to_json() == [["Id", "bigint"], ["gone", "string"], ["fresh", "date"]]


def test_types_without_a_common_type_are_an_error_that_names_column_types_and_file() -> None:
    with pytest.raises(SchemaMismatchError, match=r"city is string in the lake and int.*file 2024\.csv"):
        merge_schemas(Schema((Column("city", "string"),)), Schema((Column("city", "int"),)), "2024.csv")
