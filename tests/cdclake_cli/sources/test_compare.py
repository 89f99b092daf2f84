"""A comparison of a lake table with its source finds every difference, and reports nothing else.

Each test compares whole tables, and tables that are split into parts on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdclake.model import position
from cdclake_cli.sources.compare import MAX_EXAMPLES, RowComparison, compare_rows
from cdclake_cli.sources.compare_parts import compare_in_parts

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
ADDED = ["dms_timestamp"]
Compare = Callable[[pa.Table, pa.Table, Sequence[str]], RowComparison]


def whole(lake: pa.Table, source: pa.Table, key: Sequence[str]) -> RowComparison:
    return compare_rows(lake, source, key, ADDED)


def in_parts(lake: pa.Table, source: pa.Table, key: Sequence[str]) -> RowComparison:
    def batches(rows: pa.Table) -> Iterator[pa.Table]:
        yield rows.schema.empty_table()
        yield from (rows.slice(first, 2) for first in range(0, rows.num_rows, 2))

    return compare_in_parts(batches(lake), batches(source), key, ADDED, parts=3)


@pytest.fixture(params=[whole, in_parts])
def compare(request: pytest.FixtureRequest) -> Compare:
    compare: Compare = request.param
    return compare


def lake(**columns: Any) -> pa.Table:
    """The rows of `SOURCE` in another order, with the columns of a lake table; some columns may be replaced."""
    table = SOURCE.set_column(0, "id", SOURCE["id"].cast(pa.int64())).take([2, 0, 1])
    table = table.append_column("Op", [["I"] * 3]).append_column("dms_timestamp", [["x"] * 3])
    table = table.append_column(position.COLUMN, [[""] * 3])
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array([values], table[name].type))
    return table


def test_equal_tables_in_any_order_are_equal(compare: Compare):
    compared = compare(lake(), SOURCE, KEY)
    assert compared.equal
    assert compared.differences == ()
    assert (compared.rows, compared.source_rows) == (3, 3)


@pytest.mark.parametrize(
    ("column", "values", "difference"),
    [
        ("name", ["x", "a", ""], "name is 'x', not None"),
        ("name", [None, "a", None], "name is None, not ''"),
        ("price", [Decimal("0.01"), Decimal("1.10"), None], "price is Decimal('0.01'), not Decimal('0.00')"),
    ],
)
def test_a_differing_value_is_reported_with_its_key(
    compare: Compare, column: str, values: list[object], difference: str
):
    compared = compare(lake(**{column: values}), SOURCE, KEY)
    assert (compared.different, compared.missing, compared.surplus, compared.equal) == (1, 0, 0, False)
    assert any(difference in example.row and "id " in example.row for example in compared.examples)


def test_zeros_of_both_signs_are_equal(compare: Compare):
    ours, theirs = (pa.table({"id": [1, 2], "ratio": [zero, 1.5]}) for zero in (0.0, -0.0))
    assert compare(ours, theirs, ["id"]).equal


def test_missing_surplus_and_repeated_rows_are_counted_and_reported(compare: Compare):
    changed = pa.concat_tables([lake().slice(0, 2), lake(id=[7, 8, 9]).slice(0, 1), lake().slice(0, 1)])
    compared = compare(changed, SOURCE, KEY)
    assert (compared.missing, compared.surplus, compared.repeated, compared.different) == (1, 1, 1, 0)
    assert any(str(example).startswith("missing in the lake: id 2") for example in compared.examples)
    assert any(str(example).startswith("not in the source: id 7") for example in compared.examples)
    assert "1 rows repeated" in compared.differences


def test_a_repeated_row_that_differs_from_the_first_is_found(compare: Compare):
    changed = pa.concat_tables([lake(), lake(name=["other", "other", "other"]).slice(0, 1)])
    assert not compare(changed, SOURCE, KEY).equal


def test_columns_that_are_missing_unknown_or_of_another_type_are_reported(compare: Compare):
    changed = lake().drop_columns(["at"]).append_column("new", [[1, 2, 3]])
    changed = changed.set_column(2, "name", pa.chunked_array([[1, 2, 3]]))
    assert compare(changed, SOURCE, KEY).columns == (
        "column name is bigint in the lake and string in the source",
        "column at is missing in the lake",
        "column new is not in the source",
    )


def test_values_are_compared_even_if_the_column_has_another_type(compare: Compare):
    changed = lake().set_column(2, "name", pa.chunked_array([[1, 2, 3]]))
    assert compare(changed, SOURCE, KEY).different == 3


def test_bytes_that_are_not_text_are_compared_with_a_text_column(compare: Compare):
    source = pa.table({"id": [1, 2], "part": ["a", "b"], "photo": [b"\xff\x00", b"jpg"]})
    compared = compare(source.set_column(2, "photo", [["ff00", "jpg"]]), source, KEY)
    assert compared.columns == ("column photo is string in the lake and binary in the source",)
    assert (compared.different, compared.missing, compared.surplus) == (1, 0, 0)


def test_tables_without_a_key_column_are_never_equal(compare: Compare):
    assert not compare(lake().drop_columns(["part"]), SOURCE, KEY).equal


def test_without_a_key_each_row_must_occur_as_often_as_in_the_source(compare: Compare):
    source = pa.table({"a": ["x", "x", "y"], "b": [1, 1, None]})
    assert compare(source.take([2, 0, 1]), source, []).equal
    fewer = compare(source.take([0, 2]), source, [])
    assert (fewer.missing, fewer.surplus) == (1, 0)
    more = compare(pa.concat_tables([source, source.slice(2)]), source, [])
    assert (more.missing, more.surplus) == (0, 1)


def test_the_first_differences_of_each_kind_are_shown_and_all_are_counted(compare: Compare):
    source = pa.table({"id": list(range(100)), "v": [0] * 100})
    changed = pa.table({"id": list(range(100)), "v": [1] * 100})
    compared = compare(changed, source, ["id"])
    assert compared.different == 100
    assert len(compared.examples) == MAX_EXAMPLES


def test_two_empty_tables_are_equal(compare: Compare):
    nothing = SOURCE.slice(0, 0)
    assert compare(nothing, nothing, KEY).equal
    assert compare(nothing, SOURCE, KEY).missing == 3


def test_keys_with_the_same_concatenation_are_different(compare: Compare):
    source = pa.table({"a": ["1:", "1"], "b": ["x", ":x"]})
    assert compare(source, source, ["a", "b"]).repeated == 0


def test_tables_with_no_column_in_common_are_not_equal(compare: Compare):
    assert not compare(pa.table({"a": [1]}), pa.table({"b": [1]}), []).equal


def test_two_nan_are_equal(compare: Compare):
    source = pa.table({"id": [1, 2, 3], "v": [float("nan"), float("nan"), None]})
    assert compare(source, source, ["id"]).equal
    assert compare(source.set_column(1, "v", [[float("nan"), 1.0, float("nan")]]), source, ["id"]).different == 2
