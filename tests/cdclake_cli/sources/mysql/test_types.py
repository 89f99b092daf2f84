"""A full load and the binlog deliver the source's exact values, for every column type."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError, IntegrityError
from cdclake_cli.sources.mysql.source_tables import source_tables
from cdclake_cli.sources.mysql.types import (
    MysqlColumn,
    check_readable,
    time_text,
)
from cdclake_cli.sources.tables import selected_rows
from tests.cdclake_cli.sources.source_database import without

if TYPE_CHECKING:
    from tests.cdclake_cli.sources.source_database import MariadbDatabase


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]  # parts of a time, as many as there are


TYPES: list[tuple[str, pa.DataType, list[tuple[str, Any]]]] = [
    ("tinyint(1)", pa.int8(), [("true", 1), ("-128", -128)]),
    ("tinyint unsigned", pa.uint8(), [("255", 255)]),
    ("smallint", pa.int16(), [("-32768", -32768)]),
    ("smallint unsigned", pa.uint16(), [("65535", 65535)]),
    ("mediumint", pa.int32(), [("-8388608", -8388608)]),
    ("mediumint unsigned", pa.uint32(), [("16777215", 16777215)]),
    ("int", pa.int32(), [("-2147483648", -2147483648)]),
    ("int unsigned", pa.uint32(), [("4294967295", 4294967295)]),
    ("bigint", pa.int64(), [("-9223372036854775808", -9223372036854775808)]),
    ("bigint unsigned", pa.uint64(), [("18446744073709551615", 18446744073709551615)]),
    ("decimal(10,2)", pa.decimal128(10, 2), [("-12.30", Decimal("-12.30")), ("0", Decimal("0.00"))]),
    ("decimal(5)", pa.decimal128(5, 0), [("-99999", Decimal(-99999))]),
    (
        "decimal(38,10)",
        pa.decimal128(38, 10),
        [("-1234567890123456789012345678.0000000009", Decimal("-1234567890123456789012345678.0000000009"))],
    ),
    ("float", pa.float64(), [("0.1", 0.10000000149011612), ("-3.5", -3.5)]),
    ("double", pa.float64(), [("0.1", 0.1), ("-1e300", -1e300)]),
    ("double(10,2)", pa.float64(), [("-0.01", -0.010000000000000009)]),
    ("bit(1)", pa.bool_(), [("1", True), ("0", False)]),
    ("bit(12)", pa.binary(), [("b'101010101010'", b"\x0a\xaa"), ("0", b"\x00\x00")]),
    ("bit(64)", pa.binary(), [("18446744073709551615", b"\xff" * 8)]),
    (
        "date",
        pa.date32(),
        [("'2024-02-29'", date(2024, 2, 29)), ("'9999-12-31'", date(9999, 12, 31)), ("'0000-00-00'", None)],
    ),
    (
        "datetime",
        pa.timestamp("us", "UTC"),
        [("'2024-02-29 23:59:59'", at(2024, 2, 29, 23, 59, 59)), ("'0000-00-00 00:00:00'", None)],
    ),
    ("datetime(3)", pa.timestamp("us", "UTC"), [("'1000-01-01 00:00:00.007'", at(1000, 1, 1, 0, 0, 0, 7000))]),
    (
        "datetime(6)",
        pa.timestamp("us", "UTC"),
        [("'9999-12-31 23:59:59.999999'", at(9999, 12, 31, 23, 59, 59, 999999))],
    ),
    (
        "timestamp null",
        pa.timestamp("us", "UTC"),
        [("'2024-07-01 12:00:00'", at(2024, 7, 1, 12)), ("'0000-00-00 00:00:00'", None)],
    ),
    ("timestamp(6) null", pa.timestamp("us", "UTC"), [("'1970-01-01 00:00:01.000001'", at(1970, 1, 1, 0, 0, 1, 1))]),
    ("time", pa.string(), [("'-01:02:03'", "-01:02:03"), ("'838:59:59'", "838:59:59"), ("'0'", "00:00:00")]),
    ("time(1)", pa.string(), [("'-00:00:01.7'", "-00:00:01.7")]),
    ("time(3)", pa.string(), [("'-100:02:03.250'", "-100:02:03.250"), ("'-00:00:01.001'", "-00:00:01.001")]),
    (
        "time(6)",
        pa.string(),
        [
            ("'-00:00:00.000001'", "-00:00:00.000001"),
            ("'12:00:00.5'", "12:00:00.500000"),
            ("'-838:59:58.999999'", "-838:59:58.999999"),
        ],
    ),
    ("year", pa.int16(), [("1901", 1901), ("2155", 2155), ("0000", 0)]),
    ("char(5)", pa.string(), [("'ab  '", "ab"), ("'é'", "é")]),
    ("char(5) character set latin1", pa.string(), [("'é€'", "é€")]),
    ("varchar(300)", pa.string(), [("'it''s \"🎁\"\\n'", 'it\'s "🎁"\n'), ("''", ""), ("'NULL'", "NULL")]),
    ("varchar(20) character set utf8mb3", pa.string(), [("'日本'", "日本")]),
    ("tinytext", pa.string(), [("'a'", "a")]),
    ("text", pa.string(), [("repeat('ä', 30000)", "ä" * 30000)]),
    ("mediumtext", pa.string(), [("'b'", "b")]),
    ("longtext", pa.string(), [("''", "")]),
    ("json", pa.string(), [('\'{"a": [1, "é"]}\'', '{"a": [1, "é"]}')]),
    ("enum('small','it''s','ü')", pa.string(), [("'it''s'", "it's"), ("'ü'", "ü")]),
    ("set('x','y','z')", pa.string(), [("'z,x'", "x,z"), ("''", "")]),
    ("binary(4)", pa.binary(), [("'a'", b"a\0\0\0"), ("''", b"\0\0\0\0")]),
    ("varbinary(20)", pa.binary(), [("x'00ff00'", b"\x00\xff\x00"), ("''", b"")]),
    ("tinyblob", pa.binary(), [("''", b"")]),
    ("blob", pa.binary(), [("x'ff'", b"\xff")]),
    ("longblob", pa.binary(), [("x'80'", b"\x80")]),
    ("int as (7) stored", pa.int32(), [("default", 7)]),
    ("int as (8) virtual", pa.int32(), [("default", 8)]),
    ("point", pa.binary(), [("point(1,2)", bytes.fromhex("000000000101000000000000000000f03f0000000000000040"))]),
]


def test_full_load_and_binlog_deliver_the_same_values_of_every_type(source: MariadbDatabase):
    """One table has a column of each type; its rows are inserted before the full load and again after it."""
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(TYPES))
    source.run(f"create table t (id int primary key, {columns})", "set session sql_mode = ''")
    max_values = max(len(values) for *_, values in TYPES)
    literals = [[*(text for text, _ in values), *["null"] * max_values] for *_, values in TYPES]
    for first in (1, 101):
        for row in range(max_values + 1):
            # A generated column accepts no value, not even null.
            kinds = [kind for kind, *_ in TYPES]
            values = ["default" if "as (" in kind else of[row] for kind, of in zip(kinds, literals, strict=True)]
            source.run(f"insert into t values ({first + row}, {', '.join(values)})")
        source.replicate()

    expected = [
        {f"c{n}": (values[0][1] if "as (" in kind else values[row][1] if row < len(values) else None)
         for n, (kind, _, values) in enumerate(TYPES)}
        for row in range(max_values + 1)
    ]  # fmt: skip
    assert without(source.loaded("t"), "id", "sent", "AR_H_CHANGE_SEQ", "BI_id") == expected
    assert without(source.changed("t"), "Op", "id", "sent", "AR_H_CHANGE_SEQ", "BI_id") == expected


def test_every_column_has_the_type_that_dms_delivers(source: MariadbDatabase):
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(TYPES))
    source.run(f"create table t (id int primary key, {columns})")
    (table,) = source_tables(source.connection, source.schema)
    assert [(kind, field.type) for (kind, *_), field in zip(TYPES, list(table.schema)[1:], strict=True)] == [
        (kind, arrow) for kind, arrow, _ in TYPES
    ]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("u uuid", "has the type uuid"),
        ("d decimal(39,2)", r"has the type decimal\(39,2\)"),
        ("v varchar(10) character set utf16", "has the character set utf16"),
        ("e enum('ä') character set latin1", "values other than ASCII"),
        ("v text compressed", "has the type text compressed"),
        ("op int", "the name of a column that the DMS settings add"),
        ("Sent int", "the name of a column that the DMS settings add"),
        ("ar_h_change_seq int", "the name of a column that the DMS settings add"),
        ("bi_id int", "the name of a column that the DMS settings add"),
    ],
)
def test_an_unsupported_column_is_refused_at_the_start(source: MariadbDatabase, column: str, reason: str):
    with pytest.raises(ConfigurationError, match=reason):
        source.replicate_after(f"create table t (id int primary key, {column})")
    assert list(source.raw.list("")) == []


def test_an_unsupported_column_is_refused_when_it_is_added(source: MariadbDatabase):
    source.replicate_after("create table t (id int primary key)")
    source.run("alter table t add column v varchar(10) character set utf16", "insert into t values (1, 'a')")
    with pytest.raises(ConfigurationError, match="Column v of the source has the character set utf16"):
        source.replicate()
    assert source.changed("t") == []


@pytest.mark.parametrize(
    ("column", "error", "reason"),
    [
        ("v text compressed", IntegrityError, "an event that cannot be read"),
        ("Op text", ConfigurationError, "the name of a column that the DMS settings add"),
    ],
)
def test_an_unreadable_or_ambiguous_column_is_refused_when_it_is_added(
    source: MariadbDatabase, column: str, error: type[Exception], reason: str
):
    source.replicate_after("create table t (id int primary key)")
    with pytest.raises(error, match=reason):
        source.replicate_after(f"alter table t add column {column}", "insert into t values (1, 'a')")
    assert source.changed("t") == []


def test_text_that_is_invalid_in_its_character_set_is_an_error(source: MariadbDatabase):
    source.replicate_after("create table t (id int primary key, v varchar(10) character set latin1)")
    source.run("insert into t values (1, x'81')")  # undefined in Windows-1252, which MySQL calls latin1
    with pytest.raises(IntegrityError, match="invalid in its column's character set"):
        source.replicate()


def test_a_mysql_json_document_is_formatted_as_mysql_does():
    column = MysqlColumn("j", "json")
    document = {b"a": [1, "é", None, True, {"b": 1.5}], "long": "x"}
    assert column.logged([document, None]).to_pylist() == ['{"a": [1, "é", null, true, {"b": 1.5}], "long": "x"}', None]


def test_an_empty_select_is_an_empty_table_with_all_columns():
    rows = selected_rows([MysqlColumn("a", "int"), MysqlColumn("b", "varchar")], [])
    assert rows.schema == pa.schema([("a", pa.int32()), ("b", pa.string())])


def test_an_unknown_type_is_refused():
    with pytest.raises(ConfigurationError, match="has the type vector, which DMS does not support"):
        check_readable([MysqlColumn("v", "vector")])


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (timedelta(0), 0, "00:00:00"),
        (timedelta(hours=838, minutes=59, seconds=59), 0, "838:59:59"),
        (-timedelta(milliseconds=1), 3, "-00:00:00.001"),
        (timedelta(microseconds=120_000), 2, "00:00:00.12"),
    ],
)
def test_a_time_is_formatted_as_mysql_does(value: timedelta, digits: int, text: str):
    assert time_text(value, digits) == text
