"""Files have the columns and encodings of DMS, and cdclake reads back exactly what was written."""

from __future__ import annotations

import gzip
import tempfile
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cdclake.errors import SchemaMismatchError
from cdclake.lake.storage.keys import UNSENT
from cdclake.model.table.name import TableName
from cdclake_cli.dms.attributes import attributes_for
from cdclake_cli.dms.csv_text import csv_text
from cdclake_cli.dms.files import (
    CHAR_LENGTH,
    ChangeRows,
    TableChangeRows,
    change_bytes,
    full_load_bytes,
    transaction_bytes,
)
from cdclake_cli.dms.names import change_path, full_load_path, transactions_key
from cdclake_cli.dms.settings import DmsSettings, settings_from
from tests.cdclake.lake.table import NAME, Table
from tests.examples import examples

if TYPE_CHECKING:
    from cdclake.lake.raw.rows import ReadBatch

WHEN = datetime(2024, 3, 5, 10, 15, tzinfo=timezone.utc)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("weight", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("gift", pa.bool_()),
    ]
)
ROW = (1, 'a, "b"\nc', Decimal("-1.50"), 0.25, date(2024, 3, 5), WHEN.replace(microsecond=7), True)
NOTHING = (2, *[None] * 6)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in values], COLUMNS)


def changes(operations: str, *values: tuple[Any, ...], **more: Any) -> ChangeRows:
    times = pa.array([WHEN] * len(operations), pa.timestamp("us", tz="UTC"))
    return ChangeRows(pa.array(list(operations), pa.string()), times, rows(*values), **more)


def csv(change_rows: ChangeRows, **names: object) -> str:
    return change_bytes(change_rows, settings_from(names)).decode()


def test_csv_quotes_by_rfc_4180_and_writes_values_as_dms_does() -> None:
    assert csv(changes("ID", ROW, NOTHING), TimestampColumnName="ts") == (
        'I,2024-03-05 10:15:00.000000,1,"a, ""b""\nc",-1.50,0.25,2024-03-05,2024-03-05 10:15:00.000007,true\n'
        "D,2024-03-05 10:15:00.000000,2,NULL,NULL,NULL,NULL,NULL,NULL\n"
    )


def test_csv_quotes_bytes_that_equal_the_null_text() -> None:
    rows = pa.table({"data": pa.array([b"", b"\xcd", None])})
    assert csv_text(rows, settings_from({"CsvNullValue": ""})) == b'""\ncd\n\n'
    assert csv_text(rows, settings_from({"CsvNullValue": "cd"})) == b'\n"cd"\ncd\n'


def test_csv_without_rfc_4180_copies_text_unchanged() -> None:
    assert csv(changes("I", ROW), Rfc4180=False).startswith('I,1,a, "b"\nc,-1.50,')


def test_a_header_line_names_all_columns() -> None:
    content = change_bytes(changes("I", NOTHING), DmsSettings(add_column_name=True, timestamp_column_name="ts"))
    assert content.splitlines()[0] == b"Op,ts,id,name,price,weight,day,at,gift"


def test_gzip_output_is_deterministic() -> None:
    settings_ = settings_from({"CompressionType": "gzip"})
    content = change_bytes(changes("I", ROW), settings_)
    assert content == change_bytes(changes("I", ROW), settings_)
    assert gzip.decompress(content) == change_bytes(changes("I", ROW), DmsSettings())


def test_unlogged_values_have_their_own_text_if_configured() -> None:
    change_rows = changes(
        "UU", NOTHING, NOTHING, unsent={"name": pa.array([True, False]), "gift": pa.array([True, True])}
    )
    assert csv(change_rows, UseCsvNoSupValue="true", CsvNoSupValue="?") == (
        "U,2,?,NULL,NULL,NULL,NULL,?\nU,2,NULL,NULL,NULL,NULL,NULL,?\n"
    )
    assert csv(change_rows) == "U,2,NULL,NULL,NULL,NULL,NULL,NULL\n" * 2


def test_bytes_are_hexadecimal_digits_and_small_decimals_have_no_exponent() -> None:
    table = pa.table(
        {
            "b": pa.array([b"\x00\xff", None]),
            "d": pa.array([Decimal("0.00000001"), None], pa.decimal128(12, 8)),
            "t": pa.array([time(1, 2, 3), None], pa.time64("us")),
        }
    )
    assert full_load_bytes(table, DmsSettings(), WHEN) == b"00ff,0.00000001,01:02:03.000000\nNULL,NULL,NULL\n"


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        ({}, ["I,1", "U,2", "D,3"]),
        ({"CdcInsertsOnly": "true"}, ["1"]),
        ({"CdcInsertsOnly": "true", "IncludeOpForFullLoad": "true"}, ["I,1"]),
        ({"CdcInsertsAndUpdates": "true"}, ["1", "2"]),
        ({"CdcInsertsAndUpdates": "true", "IncludeOpForFullLoad": "true"}, ["I,1", "U,2"]),
    ],
)
def test_only_the_configured_operations_are_sent_with_or_without_op(names: dict[str, str], lines: list[str]) -> None:
    times = pa.array([WHEN] * 3, pa.timestamp("us", tz="UTC"))
    change_rows = ChangeRows(pa.array(["I", "U", "D"]), times, pa.table({"id": [1, 2, 3]}))
    assert csv(change_rows, **names).splitlines() == lines


def test_a_full_load_has_op_if_configured_and_empty_added_columns() -> None:
    settings_ = DmsSettings(include_op_for_full_load=True, timestamp_column_name="ts")
    data = full_load_bytes(pa.table({"id": [1, 2]}), settings_, WHEN, ["AR_H_CHANGE_SEQ", "BI_id"])
    assert data.decode().splitlines() == [f"I,2024-03-05 10:15:00.000000,{i},," for i in (1, 2)]


def test_trailing_padding_fills_columns_of_fixed_length() -> None:
    fields = [pa.field("code", pa.string(), metadata={CHAR_LENGTH: "4"}), pa.field("name", pa.string())]
    table = pa.table([["ab", None], ["x", "y"]], schema=pa.schema(fields))
    padded = DmsSettings(add_trailing_padding_character=True)
    assert full_load_bytes(table, padded, WHEN) == b"ab  ,x\nNULL,y\n"
    assert full_load_bytes(table, DmsSettings(), WHEN) == b"ab,x\nNULL,y\n"


def parquet(data: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(data))


def test_parquet_has_one_row_group_and_only_the_timestamp_column_is_required() -> None:
    names = {"DataFormat": "parquet", "TimestampColumnName": "ts", "EncodingType": "plain", "CompressionType": "gzip"}
    file = parquet(change_bytes(changes("IU", ROW, NOTHING), settings_from(names)))
    assert [field.name for field in file.schema_arrow] == ["Op", "ts", *COLUMNS.names]
    assert [field.name for field in file.schema_arrow if not field.nullable] == ["ts"]
    assert (file.metadata.num_row_groups, file.metadata.metadata, file.metadata.format_version) == (1, None, "1.0")
    column = file.metadata.row_group(0).column(3)
    assert (column.compression, set(column.encodings)) == ("GZIP", {"PLAIN", "RLE"})
    kinds = {file.schema.column(i).name: file.schema.column(i) for i in range(len(file.schema.names))}
    assert kinds["price"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(kinds["at"].logical_type)
    assert file.read()["ts"].to_pylist() == ["2024-03-05 10:15:00.000000"] * 2


def test_parquet_settings_take_effect() -> None:
    names = {
        "DataFormat": "parquet",
        "ParquetVersion": "parquet-2-0",
        "ParquetTimestampInMillisecond": "true",
        "RowGroupLength": "1",
        "EnableStatistics": "false",
    }
    file = parquet(change_bytes(changes("IU", ROW, NOTHING), settings_from(names)))
    assert (file.metadata.num_row_groups, file.metadata.format_version) == (2, "2.6")
    assert file.schema_arrow.field("at").type == pa.timestamp("ms", tz="UTC")
    assert not file.metadata.row_group(0).column(1).is_stats_set


def test_a_transaction_file_has_the_rows_of_all_tables_in_commit_order() -> None:
    first = changes("IU", ROW, NOTHING)
    times = pa.array([WHEN] * 2, pa.timestamp("us", tz="UTC"))
    second = ChangeRows(pa.array(["D", "D"]), times, pa.table({"table": ["x", "y"]}))
    tables = [TableChangeRows(TableName("shop", "orders"), first), TableChangeRows(TableName("hr", "staff"), second)]
    settings_ = settings_from({"PreserveTransactions": "true", "CdcPath": "cdc", "DataFormat": "parquet"})
    assert transaction_bytes(tables, np.array([1, 0, 1, 0]), settings_).decode() == (
        "D,staff,hr,x\n"
        'I,orders,shop,1,"a, ""b""\nc",-1.50,0.25,2024-03-05,2024-03-05 10:15:00.000007,true\n'
        "D,staff,hr,y\n"
        "U,orders,shop,2,NULL,NULL,NULL,NULL,NULL,NULL\n"
    )


def test_attributes_contain_only_values_other_than_the_default() -> None:
    assert attributes_for(settings_from({"DataFormat": "parquet", "CsvDelimiter": ";"}), COLUMNS, ["id"]) == {
        "PrimaryKey": "id",
        "PartitionKey": "null",
    }
    names = {"CsvDelimiter": "\\t", "Rfc4180": False, "TimestampColumnName": "ts", "CsvNullValue": ""}
    columns = pa.schema([("id", pa.uint64()), ("a b", pa.binary())])
    assert attributes_for(settings_from(names), columns, [], ["id"], ["BI_id"]) == {
        "PrimaryKey": "null",
        "PartitionKey": "id",
        "AddColumnName": "false",
        "CsvDelimiter": "\\t",
        "CsvNullValue": "",
        "Rfc4180": "false",
        "Schema": "ts string, id decimal(20,0), `a b` string, BI_id string",
    }
    with pytest.raises(SchemaMismatchError, match="column l"):
        attributes_for(DmsSettings(), pa.schema([("l", pa.list_(pa.int8()))]), [])


TEXTS = st.text(st.sampled_from('ab ",;|\r\n\t\\é🎁N\x01'), max_size=5) | st.sampled_from(["", "NULL", "-"])
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
VALUES = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | TEXTS,
    st.none() | st.decimals(-(10**9), 10**9, places=2),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.dates(),
    st.none() | MOMENTS,
    st.none() | st.booleans(),
)
DIALECTS = st.fixed_dictionaries(
    {
        "DataFormat": st.sampled_from(["csv", "csv", "parquet"]),
        "CompressionType": st.sampled_from(["none", "gzip"]),
        "TimestampColumnName": st.sampled_from(["", "ts"]),
        "IncludeOpForFullLoad": st.booleans(),
        "AddColumnName": st.booleans(),
        "CsvDelimiter": st.sampled_from([",", ";", "|", "\\t", "\x01", "-", "1"]),
        "CsvRowDelimiter": st.sampled_from(["\\n", "\\r\\n", "||\\n", "\x02"]),
        "CsvNullValue": st.sampled_from(["NULL", "", "-", "1"]),
        "HeaderColumns": st.sampled_from([[], ["AR_H_CHANGE_SEQ"]]),
    }
)


def read_back(data: bytes, path: str, item: dict[str, str], cdc_path: str = "") -> ReadBatch:
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), COLUMNS, item)
        if cdc_path:
            target = table.raw / cdc_path / path
            target.parent.mkdir(parents=True)
            target.write_bytes(data)
        else:
            table.put(path, data)
        return table.read(path, cdc_path)


def same(batch: ReadBatch, operations: list[str], expected: pa.Table) -> None:
    assert batch.bad_rows == ()
    assert batch.rows["Op"].to_pylist() == operations
    assert batch.rows.select(COLUMNS.names).to_pylist() == expected.to_pylist()


@examples(thorough=1500, ci=150, test=30)
@given(names=DIALECTS, drawn=st.lists(st.tuples(st.sampled_from("IUD"), VALUES), min_size=1, max_size=5))
def test_cdclake_reads_back_every_file_with_its_attributes(
    names: dict[str, Any], drawn: list[tuple[str, tuple[Any, ...]]]
) -> None:
    assume(names["CsvNullValue"] != names["CsvDelimiter"])
    dms = settings_from(names)
    item = attributes_for(dms, COLUMNS, ["id"], (), dms.header_columns)
    operations, table = [op for op, _ in drawn], rows(*(row for _, row in drawn))
    headers = None
    if dms.header_columns:
        headers = pa.table({"AR_H_CHANGE_SEQ": [f"20240305101500{i:021d}" for i in range(len(drawn))]})
    data = change_bytes(changes("".join(operations), *(row for _, row in drawn), headers=headers), dms)
    batch = read_back(data, change_path(dms, WHEN), item)
    same(batch, operations, table)
    starts = [str(value).partition("|")[0] for value in batch.rows["_cdc_position"].to_pylist()]
    assert starts == (headers.column(0).to_pylist() if headers else ["202403051015000000"] * len(drawn))

    load = full_load_bytes(table, dms, WHEN, dms.header_columns)
    same(read_back(load, full_load_path(dms, 1), item), ["I"] * len(drawn), table)


def test_before_images_and_unlogged_values_are_read_back() -> None:
    before = pa.table({"id": pa.array([None, 1, None], pa.int64())})
    dms = settings_from({"UseCsvNoSupValue": "true", "CsvNoSupValue": "~"})
    unsent = {"name": pa.array([False, False, True])}
    change_rows = changes("IUU", ROW, NOTHING, NOTHING, before=before, unsent=unsent)
    item = attributes_for(dms, COLUMNS, ["id"], (), ["BI_id"])
    batch = read_back(change_bytes(change_rows, dms), change_path(dms, WHEN), item)
    assert list(zip(batch.rows["Op"].to_pylist(), batch.rows["id"].to_pylist(), strict=True)) == [
        ("I", 1),
        ("U", 2),
        ("U", 2),
        ("D", 1),
    ]
    assert batch.rows[UNSENT].to_pylist() == ["", "", "0100000", ""]


def test_rows_of_a_transaction_file_are_read_back_by_table() -> None:
    dms = settings_from({"PreserveTransactions": "true", "CdcPath": "cdc", "TimestampColumnName": "ts"})
    item = attributes_for(dms, COLUMNS, ["id"])
    other = TableChangeRows(TableName("shop", "other"), changes("DD", NOTHING, ROW))
    data = transaction_bytes([TableChangeRows(NAME, changes("IU", ROW, NOTHING)), other], np.array([0, 1, 1, 0]), dms)
    batch = read_back(data, transactions_key(dms, WHEN).rpartition("/")[2], item, "cdc")
    same(batch, ["I", "U"], rows(ROW, NOTHING))
