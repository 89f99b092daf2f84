"""Independent readers find the same rows by every type of column, inside and outside the partition columns."""

from __future__ import annotations

import operator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, LessThan, LessThanOrEqual

from tests.cdclake.lake.iceberg.readers import IcebergReaders, connection
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
NUMBERS = range(-2, 9)
DECIMALS = [Decimal(number).quantize(Decimal("0.01")) for number in NUMBERS]
DAY = date(1969, 12, 25)
MOMENT = datetime(1969, 12, 31, 23, 59, 55, 500, tzinfo=timezone.utc)
LONG = "x" * 40
KINDS: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "boolean": (pa.bool_(), [True, False], "boolean"),
    "tinyint": (pa.int8(), [*NUMBERS], "int"),
    "smallint": (pa.int16(), [*NUMBERS], "int"),
    "bigint": (pa.int64(), [*NUMBERS], "bigint"),
    "float": (pa.float32(), [number / 2 for number in NUMBERS], "float"),
    "double": (pa.float64(), [number / 2 for number in NUMBERS], "double"),
    "decimal(4,2)": (pa.decimal128(4, 2), DECIMALS, "decimal(4,2)"),
    "decimal(18,2)": (pa.decimal128(18, 2), DECIMALS, "decimal(18,2)"),
    "decimal(19,2)": (pa.decimal128(19, 2), DECIMALS, "decimal(19,2)"),
    "decimal(38,2)": (pa.decimal128(38, 2), DECIMALS, "decimal(38,2)"),
    "date": (pa.date32(), [DAY + timedelta(days=number) for number in range(11)], "date"),
    "timestamp": (pa.timestamp("us", tz="UTC"), [MOMENT + timedelta(seconds=one) for one in range(11)], "timestamptz"),
    "string": (pa.string(), ["", " ", "a", "a/b", "b", LONG, LONG + "y", "zz", "é", "\U0001f600" * 20], "varchar"),
    "binary": (pa.binary(), [b"a", b"b", b"x" * 40, b"x" * 39 + b"z", b"\x00"], "blob"),
}
OPERATORS = {
    "<": (LessThan, operator.lt),
    "<=": (LessThanOrEqual, operator.le),
    "=": (EqualTo, operator.eq),
    ">": (GreaterThan, operator.gt),
}


@pytest.mark.sampled(test=6, ci=15)
@pytest.mark.parametrize("partition_key", ["null", "v"])
@pytest.mark.parametrize("kind", KINDS)
def test_readers_find_the_rows(tmp_path: Path, kind: str, partition_key: str) -> None:
    arrow_type, values, sql_type = KINDS[kind]
    item = {"PrimaryKey": "id", "Readers": "iceberg", "PartitionKey": partition_key, "TargetFileBytes": "1"}
    table = Table(tmp_path, pa.schema([("id", pa.int64()), ("v", arrow_type)]), item)
    rows = list(enumerate([*values, None]))
    table.load([{"id": number, "v": value} for number, value in rows])
    readers = IcebergReaders(table.lake, table.layout)
    for value in values:
        literal = value.isoformat() if isinstance(value, date) else value
        for sign, (expression, compare) in OPERATORS.items():
            expected = [number for number, one in rows if one is not None and compare(one, value)]
            scan = readers.table.scan(row_filter=expression("v", literal), selected_fields=("id",))
            assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, (sign, value)
            query = f"SELECT id FROM iceberg_scan('{readers.folder}') WHERE v {sign} ?::{sql_type} ORDER BY id"
            assert [one for (one,) in connection().execute(query, [value]).fetchall()] == expected, (sign, value)
    nulls = readers.table.scan(row_filter="v IS NULL", selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert nulls == [len(values)]
    assert readers.rows("v IS NULL", ("id",)) == [{"id": len(values)}]
