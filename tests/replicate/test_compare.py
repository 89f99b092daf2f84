"""A lake table beside its source: nothing that differs goes unseen, and nothing that does not is told."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdclake.model import position
from cdclake.replicate.compare import MOST_EXAMPLES, compare_rows

SOURCE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.uint32()),
        "part": pa.array([b"\xff", b"", b"1:"]),
        "name": ["a", "", None],
        "price": pa.array([Decimal("1.10"), None, Decimal("0.00")], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2024, 3, 5, tzinfo=timezone.utc), None, None], pa.timestamp("us", "UTC")),
    }
)
KEY = ["id", "part"]


def lake(**columns: Any) -> pa.Table:
    """The same rows in another order, as a lake has them, with some columns replaced."""
    table = SOURCE.set_column(0, "id", SOURCE["id"].cast(pa.int64())).take([2, 0, 1])
    table = table.append_column("Op", [["I"] * 3]).append_column("dms_timestamp", [["x"] * 3])
    table = table.append_column(position.COLUMN, [[""] * 3])
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array([values], table[name].type))
    return table


def test_equal_tables_in_any_order_are_equal():
    compared = compare_rows(lake(), SOURCE, KEY, ["dms_timestamp"])
    assert compared.equal
    assert compared.differences == ()
    assert (compared.rows, compared.source_rows) == (3, 3)


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("name", ["x", "a", ""], "name is 'x', not None"),
        ("name", [None, "a", None], "name is None, not ''"),
        ("price", [Decimal("0.01"), Decimal("1.10"), None], "price is Decimal('0.01'), not Decimal('0.00')"),
    ],
)
def test_one_value_that_is_not_the_same_is_told_with_its_key(column: str, values: list[object], told: str):
    compared = compare_rows(lake(**{column: values}), SOURCE, KEY, ["dms_timestamp"])
    assert (compared.different, compared.missing, compared.surplus, compared.equal) == (1, 0, 0, False)
    assert any(told in example and "id " in example for example in compared.examples)


def test_missing_surplus_and_repeated_rows_are_counted_and_told():
    found = pa.concat_tables([lake().slice(0, 2), lake(id=[7, 8, 9]).slice(0, 1), lake().slice(0, 1)])
    compared = compare_rows(found, SOURCE, KEY, ["dms_timestamp"])
    assert (compared.missing, compared.surplus, compared.repeated, compared.different) == (1, 1, 1, 0)
    assert any(text.startswith("missing in the lake: id 2") for text in compared.examples)
    assert any(text.startswith("not in the source: id 7") for text in compared.examples)
    assert "1 rows repeated" in compared.differences


def test_a_repeated_row_that_differs_from_the_first_is_seen():
    found = pa.concat_tables([lake(), lake(name=["other", "other", "other"]).slice(0, 1)])
    assert not compare_rows(found, SOURCE, KEY, ["dms_timestamp"]).equal


def test_columns_that_are_missing_unknown_or_of_another_type_are_told():
    found = lake().drop_columns(["at"]).append_column("new", [[1, 2, 3]])
    found = found.set_column(2, "name", pa.chunked_array([[1, 2, 3]]))
    assert compare_rows(found, SOURCE, KEY, ["dms_timestamp"]).columns == (
        "column name is bigint in the lake and string by its source",
        "column at is missing in the lake",
        "column new is not in the source",
    )


def test_a_column_of_another_type_is_compared_all_the_same():
    found = lake().set_column(2, "name", pa.chunked_array([[1, 2, 3]]))
    assert compare_rows(found, SOURCE, KEY, ["dms_timestamp"]).different == 3


def test_without_the_key_columns_nothing_is_said_to_be_equal():
    assert not compare_rows(lake().drop_columns(["part"]), SOURCE, KEY, ["dms_timestamp"]).equal


def test_without_a_key_each_row_must_be_there_as_often_as_in_the_source():
    source = pa.table({"a": ["x", "x", "y"], "b": [1, 1, None]})
    assert compare_rows(source.take([2, 0, 1]), source, []).equal
    fewer = compare_rows(source.take([0, 2]), source, [])
    assert (fewer.missing, fewer.surplus) == (1, 0)
    more = compare_rows(pa.concat_tables([source, source.slice(2)]), source, [])
    assert (more.missing, more.surplus) == (0, 1)


def test_the_first_differences_of_each_kind_are_told_and_all_are_counted():
    source = pa.table({"id": list(range(100)), "v": [0] * 100})
    found = pa.table({"id": list(range(100)), "v": [1] * 100})
    compared = compare_rows(found, source, ["id"])
    assert compared.different == 100
    assert len(compared.examples) == MOST_EXAMPLES


def test_two_empty_tables_are_equal():
    nothing = SOURCE.slice(0, 0)
    assert compare_rows(nothing, nothing, KEY).equal
    assert compare_rows(nothing, SOURCE, KEY).missing == 3


def test_keys_that_only_look_alike_are_two():
    source = pa.table({"a": ["1:", "1"], "b": ["x", ":x"]})
    assert compare_rows(source, source, ["a", "b"]).repeated == 0
