"""A full load and decoded changes deliver the source's values as DMS does, for every column type."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.dms.settings import DmsSettings
from cdclake_cli.sources.postgres.types import PostgresColumn, TypeMapping
from tests.cdclake_cli.sources.source_database import WITH_KEYS

if TYPE_CHECKING:
    from tests.cdclake_cli.sources.source_database import PostgresDatabase

INFINITY = float("inf")


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]  # parts of a time, as many as there are


TIMESTAMP = pa.timestamp("us", "UTC")
TYPES: list[tuple[str, pa.DataType, list[tuple[str, Any]]]] = [
    ("smallint", pa.int16(), [("-32768", -32768)]),
    ("integer", pa.int32(), [("2147483647", 2147483647)]),
    ("bigint", pa.int64(), [("-9223372036854775808", -9223372036854775808)]),
    ("oid", pa.int64(), [("4294967295", 4294967295)]),
    ("numeric(10,2)", pa.decimal128(10, 2), [("-12.3", Decimal("-12.30")), ("0", Decimal("0.00")), ("'NaN'", None)]),
    ("numeric(5)", pa.decimal128(5, 0), [("-99999", Decimal(-99999))]),
    ("numeric(5,-2)", pa.decimal128(7, 0), [("1234567", Decimal(1234600))]),
    ("numeric(2,5)", pa.decimal128(5, 5), [("0.00012", Decimal("0.00012"))]),
    ("numeric(38,10)", pa.decimal128(38, 10), [(f"-{'9' * 28}.0000000009", Decimal(f"-{'9' * 28}.0000000009"))]),
    ("numeric(39,2)", pa.string(), [(f"{'9' * 37}.10", f"{'9' * 37}.10"), ("'NaN'", "NaN")]),
    (
        "numeric",
        pa.decimal128(28, 6),
        [
            ("0.611111104488373", Decimal("0.611111")),
            ("2.5e-6", Decimal("0.000003")),
            ("-2.5e-6", Decimal("-0.000003")),
            ("'NaN'", None),
            ("'-Infinity'", None),
        ],
    ),
    (
        "money",
        pa.decimal128(38, 4),
        [("-92233720368547758.08", Decimal("-92233720368547758.08")), ("1234.5", Decimal("1234.5"))],
    ),
    (
        "real",
        pa.float32(),
        [("0.1", 0.10000000149011612), ("'-Infinity'", -INFINITY), ("3.4028235e38", 3.4028234663852886e38)],
    ),
    (
        "double precision",
        pa.float64(),
        [
            ("0.1", 0.1),
            ("-1.7976931348623157e308", -1.7976931348623157e308),
            ("5e-324", 5e-324),
            ("'Infinity'", INFINITY),
        ],
    ),
    ("boolean", pa.string(), [("true", "true"), ("false", "false")]),
    ("char(5)", pa.string(), [("'ab  '", "ab"), ("''", ""), ("'é'", "é")]),
    ("varchar(20)", pa.string(), [("'ab  '", "ab  "), ("''", ""), ("'NULL'", "NULL"), ("'null'", "null")]),
    ("text", pa.string(), [("E'it''s \"🎁\"\\n\\\\'", 'it\'s "🎁"\n\\'), ("repeat('ä', 30000)", "ä" * 30000)]),
    ('"char"', pa.string(), [("'x'", "x")]),
    ("name", pa.string(), [("'n'", "n")]),
    ("bytea", pa.binary(), [(r"'\x00ff27'", b"\x00\xff'"), ("''", b"")]),
    (
        "date",
        pa.date32(),
        [
            ("'2024-02-29'", date(2024, 2, 29)),
            ("'0001-01-01'", date(1, 1, 1)),
            ("'9999-12-31'", date(9999, 12, 31)),
            ("'infinity'", None),
            ("'0044-03-15 BC'", None),
            ("'10000-01-01'", None),
        ],
    ),
    (
        "timestamp",
        TIMESTAMP,
        [
            ("'2024-02-29 23:59:59.1'", at(2024, 2, 29, 23, 59, 59, 100000)),
            ("'9999-12-31 23:59:59.999999'", at(9999, 12, 31, 23, 59, 59, 999999)),
            ("'0001-01-01'", at(1, 1, 1)),
            ("'-infinity'", None),
            ("'0044-03-15 12:00:00 BC'", None),
            ("'294276-12-31 23:59:59.999999'", None),
        ],
    ),
    (
        "timestamptz",
        TIMESTAMP,
        [
            ("'2024-07-01 12:00:00.000001+02'", at(2024, 7, 1, 10, 0, 0, 1)),
            ("'infinity'", None),
            ("'0001-01-01 00:00:00+00'", at(1, 1, 1)),
        ],
    ),
    (
        "time",
        pa.time64("us"),
        [("'23:59:59.999999'", time(23, 59, 59, 999999)), ("'00:00'", time()), ("'24:00'", None)],
    ),
    ("timetz", pa.time64("us"), [("'10:00:00.5+02:30'", time(7, 30, 0, 500000)), ("'01:00+02'", time(23))]),
    ("interval", pa.string(), [("'1 year 2 mons 3 days -04:05:06.5'", "1 year 2 mons 3 days -04:05:06.5")]),
    ("uuid", pa.string(), [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    ("json", pa.string(), [('\'{"b": 1,  "a":[null]}\'', '{"b": 1,  "a":[null]}'), ("'null'", "null")]),
    ("jsonb", pa.string(), [('\'{"b": 1,  "a":["é"]}\'', '{"a": ["é"], "b": 1}'), ("'null'", "null")]),
    ("xml", pa.string(), [("'<a>b</a>'", "<a>b</a>")]),
    ("integer[]", pa.string(), [("'{{1,2},{3,NULL}}'", "{{1,2},{3,NULL}}"), ("'{}'", "{}")]),
    ("text[]", pa.string(), [("array['a,b', 'it''s', 'null', null]", '{"a,b",it\'s,"null",NULL}')]),
    ("bit(4)", pa.string(), [("b'1010'", "1010")]),
    ("varbit", pa.string(), [("b'1'", "1"), ("b''", "")]),
    ("inet", pa.string(), [("'10.0.0.1/8'", "10.0.0.1/8"), ("'10.0.0.1'", "10.0.0.1")]),
    ("cidr", pa.string(), [("'10.0.0.0/8'", "10.0.0.0/8")]),
    ("macaddr", pa.string(), [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")]),
    ("tsvector", pa.string(), [("'b a'", "'a' 'b'")]),
    ("point", pa.string(), [("'(1,2.5)'", "(1,2.5)")]),
    ("int4range", pa.string(), [("'[1,5)'", "[1,5)")]),
    ("mood", pa.string(), [("'it''s'", "it's"), ("'größer'", "größer")]),
    ("pair", pa.string(), [("row(1, 'x y')", '(1,"x y")')]),
    ("price", pa.decimal128(8, 3), [("1.5", Decimal("1.500"))]),
    ("cheap", pa.decimal128(8, 3), [("2.5", Decimal("2.500"))]),
    ("yes", pa.string(), [("true", "true")]),
    ('"Odd ]:\'type"', pa.string(), [("'x'", "x")]),
    ("int generated always as (7) stored", pa.int32(), [("default", 7)]),
]
OWN_TYPES = (
    "create type mood as enum ('it''s', 'größer')",
    "create type pair as (a int, b text)",
    "create domain price as numeric(8,3)",
    "create domain cheap as price check (value < 10)",
    "create domain yes as boolean",
    "create type \"Odd ]:'type\" as enum ('x')",
)


def create_table(source: PostgresDatabase) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(TYPES))
    source.run(*OWN_TYPES, f"create table t (id int primary key, {columns})")


def test_full_load_and_log_deliver_the_same_values_of_every_type(postgres: PostgresDatabase):
    """One table has a column of each type; its rows are inserted before the full load and again after it."""
    create_table(postgres)
    rows = 1 + max(len(values) for *_, values in TYPES)
    literals = [[*(text for text, _ in values), *["null"] * rows] for *_, values in TYPES]
    for first in (1, 101):
        for row in range(rows):
            # A generated column accepts no value, not even null.
            kinds = [kind for kind, *_ in TYPES]
            values = ["default" if "as (" in kind else of[row] for kind, of in zip(kinds, literals, strict=True)]
            postgres.run(f"insert into t values ({first + row}, {', '.join(values)})")
        postgres.replicate()

    loaded, changed = postgres.loaded("t"), postgres.changed("t")
    for number, (kind, _, pairs) in enumerate(TYPES):
        expected = [value for _, value in pairs] + [None] * (rows - len(pairs))
        expected = [pairs[0][1]] * rows if "as (" in kind else expected
        assert (kind, [row[f"c{number}"] for row in loaded]) == (kind, expected)
        assert (kind, [row[f"c{number}"] for row in changed]) == (kind, expected)


def test_every_column_has_the_type_that_dms_delivers(postgres: PostgresDatabase):
    create_table(postgres)
    with postgres.source.snapshot() as now:
        (table,) = now.tables
    assert [(kind, field.type) for (kind, *_), field in zip(TYPES, list(table.schema)[1:], strict=True)] == [
        (kind, arrow) for kind, arrow, _ in TYPES
    ]


def test_settings_of_the_source_endpoint_change_types(postgres: PostgresDatabase):
    settings = replace(WITH_KEYS, map_boolean_as_boolean=True, map_unbounded_numeric_as_string=True)
    postgres.settings = settings
    postgres.run("create table t (id int primary key, b boolean, n numeric)", "insert into t values (1, true, 1e30)")
    postgres.replicate(settings)
    postgres.replicate_after("insert into t values (2, false, 0.1234567), (3, null, 'NaN')", settings=settings)
    assert [(row["b"], row["n"]) for row in [*postgres.loaded("t"), *postgres.changed("t")]] == [
        (True, f"1{'0' * 30}"),
        (False, "0.1234567"),
        (None, "NaN"),
    ]


def test_a_number_that_dms_has_no_room_for_is_an_error(postgres: PostgresDatabase):
    postgres.replicate_after("create table t (id int primary key, n numeric)")
    with pytest.raises(ConfigurationError, match=r"too large for DMS's NUMERIC.*MapUnboundedNumericAsString") as error:
        postgres.replicate_after("insert into t values (1, 1e22)")
    assert error.value.details["column"] == "n"


def test_values_that_become_null_are_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, logger="cdclake_cli"):
        assert PostgresColumn("seen", "date").selected(["infinity", None, "2024-01-01"]).null_count == 2
        assert PostgresColumn("kept", "date").selected([None, "2024-01-01"]).null_count == 1
    assert caplog.messages == ["Column seen: 1 values that its type in DMS cannot represent are null"]


@pytest.mark.parametrize(
    ("text", "decimals", "amount"),
    [
        ("-$1,234.50", 2, "-1234.50"),
        ("($1.00)", 2, "-1.00"),
        ("1.234,50 €", 2, "1234.50"),
        ("￥1,234", 0, "1234"),
        ("-1.234,567 TND", 3, "-1234.567"),
    ],
)
def test_money_is_read_in_any_locale(text: str, decimals: int, amount: str):
    column = PostgresColumn("m", "money", scale=decimals)
    assert column.selected([text, None]).to_pylist() == [Decimal(amount), None]


def test_large_objects_are_those_of_dms():
    kinds = {"text": True, "jsonb": True, "bytea": True, "integer[]": True, "character varying": False, "uuid": False}
    assert {kind: PostgresColumn("c", kind).is_lob for kind in kinds} == kinds
    assert PostgresColumn("c", "shop.pair", is_composite=True).is_lob


def test_a_char_is_padded_if_the_settings_say_so():
    (length,) = PostgresColumn("c", "character", length=5).field.metadata.values()
    assert length == b"5"


def test_the_settings_of_the_task_give_the_mapping():
    assert TypeMapping.from_settings(DmsSettings(map_boolean_as_boolean=True)) == TypeMapping(boolean_as_boolean=True)
