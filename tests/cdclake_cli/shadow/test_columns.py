"""Columns of two tables are paired by name, compared as a type that has all their values, or refused by name."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.shadow.columns import FOLDER, PairedColumns, pair_columns

LAKE = pa.schema([("id", pa.int32()), ("Name", pa.string()), ("price", pa.decimal128(10, 2))])


def paired(lake: pa.Schema, other: pa.Schema, **options: object) -> PairedColumns:
    return pair_columns(lake, other, ("id",), **options)  # type: ignore[arg-type]


def test_columns_are_paired_whatever_their_case_and_order() -> None:
    other = pa.schema([("price", pa.decimal128(10, 2)), ("name", pa.large_string()), ("ID", pa.int32())])
    columns = paired(LAKE, other)
    assert [(pair.name, pair.other) for pair in columns.pairs] == [("id", "ID"), ("Name", "name"), ("price", "price")]
    assert (columns.only_here, columns.only_there, columns.ignored, columns.remarks) == ((), (), (), ())


def test_what_hudi_cdclake_and_dms_add_is_not_compared() -> None:
    added = ["_hoodie_commit_time", "_cdc_position", "op", "AR_H_CHANGE_SEQ"]
    columns = paired(LAKE, pa.schema([*LAKE, *((name, pa.string()) for name in added), ("extra", pa.int8())]))
    assert (columns.ignored, columns.only_there) == (tuple(added), ("extra",))


def test_a_column_of_the_source_is_compared_whatever_its_name() -> None:
    lake = pa.schema([*LAKE, ("Op", pa.string())])
    assert "Op" in paired(lake, lake).schema.names
    assert paired(lake, LAKE).only_here == ("Op",)


def test_ignored_columns_are_left_out_of_both_tables() -> None:
    other = pa.schema([LAKE.field("id"), LAKE.field("price"), ("etl_a", pa.string()), ("etl_b", pa.string())])
    columns = paired(LAKE, other, ignore=["ETL_*", "name"])
    assert (columns.only_here, columns.only_there, columns.ignored) == ((), (), ("Name", "etl_a", "etl_b"))


def test_a_name_with_brackets_is_ignored_as_the_error_proposes() -> None:
    lake, other = (pa.schema([("id", pa.int32()), ("A[1]", kind)]) for kind in (pa.int32(), pa.string()))
    with pytest.raises(ConfigurationError) as refused:
        paired(lake, other)
    assert "--ignore 'A[1]'" in refused.value.remedy
    assert paired(lake, other, ignore=["a[1]"]).schema.names == ["id"]


def test_a_renamed_column_is_paired_with_the_one_it_was() -> None:
    other = pa.schema([("id", pa.int32()), ("label", pa.string()), ("price", pa.decimal128(10, 2))])
    columns = paired(LAKE, other, renamed={"label": "Name"})
    assert [(pair.name, pair.other) for pair in columns.pairs][1] == ("Name", "label")
    assert (columns.only_here, columns.only_there) == ((), ())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ignore": ["nmae"]}, "nmae"),
        ({"renamed": {"labl": "Name"}}, "labl"),
        ({"renamed": {"id": "other"}}, "other"),
        ({"ignore": ["id"]}, "id"),
    ],
)
def test_a_name_of_no_column_is_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        paired(LAKE, LAKE, **options)


def test_a_key_that_one_table_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="key column region"):
        pair_columns(LAKE, LAKE, ("id", "region"))


def test_a_column_that_the_key_names_twice_counts_once() -> None:
    assert pair_columns(LAKE, LAKE, ("id", "name", "ID")).key == ("id", "Name")


def test_names_that_differ_only_in_case_must_be_told_apart() -> None:
    other = pa.schema([("id", pa.int32()), ("NAME", pa.string()), ("name", pa.string()), LAKE.field("price")])
    with pytest.raises(ConfigurationError, match="differ only in case"):
        paired(LAKE, other)
    assert paired(LAKE, other, renamed={"NAME": "Name"}).only_there == ("name",)


@pytest.mark.parametrize(
    ("here", "there", "compared_as"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int8(), pa.uint16(), pa.int64()),
        (pa.int64(), pa.uint64(), pa.decimal128(20, 0)),
        (pa.int32(), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
        (pa.decimal128(38, 10), pa.decimal128(38, 18), pa.decimal256(46, 18)),
        (pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.null(), pa.string()),
    ],
)
def test_types_with_the_same_values_are_compared_and_told_once(
    here: pa.DataType, there: pa.DataType, compared_as: pa.DataType
) -> None:
    columns = paired(pa.schema([("id", pa.int32()), ("v", here)]), pa.schema([("id", pa.int32()), ("v", there)]))
    assert columns.pairs[1].type == compared_as
    (remark,) = columns.remarks
    assert remark.startswith("v: ")


@pytest.mark.parametrize("there", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_forms_of_text_are_no_other_type(there: pa.DataType) -> None:
    columns = paired(pa.schema([("id", pa.string())]), pa.schema([("id", there)]))
    assert not columns.remarks
    values = pa.array(["a", None]).cast(there)
    assert columns.there(pa.table({"id": values}))["id"].to_pylist() == ["a", None]


def test_types_that_cannot_be_compared_are_all_named() -> None:
    lake = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("day", pa.date32()), ("tags", pa.string())])
    other = pa.schema([("id", pa.int32()), ("n", pa.float64()), ("day", pa.string()), ("tags", pa.list_(pa.string()))])
    with pytest.raises(ConfigurationError) as refused:
        paired(lake, other)
    message = str(refused.value)
    assert all(text in message for text in ("3 columns", "n: int in the lake, double there", "day: date", "tags: "))
    assert "--ignore n --ignore day --ignore tags" in refused.value.remedy
    assert paired(lake, other, ignore=["n", "day", "tags"]).schema.names == ["id"]


def test_values_of_different_types_become_equal() -> None:
    at = datetime(2024, 3, 5, 6, 7, 8, tzinfo=timezone.utc)
    lake = pa.table(
        {"id": pa.array([1], pa.int32()), "price": [Decimal("1.50")], "at": pa.array([at], pa.timestamp("us", "UTC"))}
    )
    other = pa.table(
        {
            "id": pa.array([1], pa.int64()),
            "price": pa.array([Decimal("1.5000")], pa.decimal128(12, 4)),
            "at": pa.array([at.replace(tzinfo=None)], pa.timestamp("ns")),
        }
    )
    columns = paired(lake.schema, other.schema)
    assert columns.here(lake).equals(columns.there(other))


def test_times_finer_than_those_of_a_lake_table_are_refused_with_their_column() -> None:
    lake = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    other = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(ConfigurationError, match="column at there are no timestamp"):
        paired(lake, other.schema).there(other)


def test_zeros_of_both_signs_are_one_key() -> None:
    columns = paired(pa.schema([("id", pa.float64())]), pa.schema([("id", pa.float32())]))
    zeros = pa.table({"id": pa.array([-0.0, 0.0], pa.float32())})
    assert list(map(str, columns.there(zeros)["id"].to_pylist())) == ["0.0", "0.0"]


def test_texts_of_folders_are_compared_as_what_they_say() -> None:
    lake = pa.schema([("id", pa.int32()), ("day", pa.date32())])
    folder = pa.field("day", pa.string(), metadata={FOLDER: b""})
    columns = paired(lake, pa.schema([("id", pa.int32()), folder]))
    (remark,) = columns.remarks
    assert "text of a folder" in remark
    other = pa.table({"id": pa.array([1], pa.int32()), "day": ["2024-03-05"]})
    assert str(columns.there(other)["day"][0]) == "2024-03-05"
    with pytest.raises(ConfigurationError, match="day"):
        columns.there(other.set_column(1, "day", [["x"]]))
