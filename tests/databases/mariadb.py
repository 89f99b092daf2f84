"""MariaDB: the statements and types of its histories, and a client that runs them."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pymysql
from hypothesis import strategies as st

from cdclake_cli.sources.mysql.connection import connect
from cdclake_devkit.replicate.mysql.source import BinlogSource
from tests.databases.columns import PLAIN_TEXTS, ColumnType, decimals, integers
from tests.databases.grammar import TOUCHED, Grammar, Statement, TableDraft
from tests.databases.values import BOOLEAN, BYTES, DATE, FLOAT, NUMBER, TEXT, TIME, TIMESTAMP, Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_cli.sources.mysql.connection import ConnectionOptions

_INTEGERS = {"tinyint": 7, "smallint": 15, "mediumint": 23, "int": 31, "bigint": 63}
_DATES = (
    "1000-01-01",
    "1582-10-15",
    "1900-02-28",
    "1969-12-31",
    "1970-01-01",
    "2000-02-29",
    "2024-03-05",
    "9999-12-31",
)
_TIMES = ("00:00:00", "23:59:59", "12:34:56.789012", "00:00:00.000001", "01:02:03.5", "23:59:59.999999")


def quote(text: str) -> str:
    """A text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\x00", "\\0").replace("\x1a", "\\Z")
    return f"'{escaped}'"


def _unsigned(name: str) -> ColumnType:
    bits = _INTEGERS[name] + 1
    return ColumnType(f"{name} unsigned", integers(0, 2**bits - 1))


def _signed(name: str) -> ColumnType:
    bits = _INTEGERS[name]
    names = list(_INTEGERS)
    wider = tuple(_signed(other) for other in names[names.index(name) + 1 :])
    if name in {"int", "smallint"}:
        wider += (ColumnType("decimal(20,0)", decimals(20, 0), is_number=True),)
    return ColumnType(name, integers(-(2**bits), 2**bits - 1), wider, is_number=True)


def _decimal(precision: int, scale: int, *wider: tuple[int, int]) -> ColumnType:
    types = tuple(_decimal(*parts) for parts in wider)
    return ColumnType(f"decimal({precision},{scale})", decimals(precision, scale), types, is_number=True)


def _bytes(size: int) -> st.SearchStrategy[str]:
    odd = st.sampled_from([b"", b"\x00", b"a ", b"\xff\xfe", b"'\"\\", b"\r\n"]).map(lambda data: data[:size])
    return (odd | st.binary(max_size=min(size, 6))).map(lambda data: f"x'{data.hex()}'")


_TIMESTAMPS = st.sampled_from(
    ["1970-01-01 00:00:01", "2038-01-19 03:14:07", "2000-02-29 12:00:00", "2024-03-31 02:30:00"]
)


class MariadbGrammar(Grammar):
    """Draws statements of MariaDB."""

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def key_types(self) -> dict[str, ColumnType]:
        texts = self.tellable.key_texts
        small = ColumnType("int", integers(-5, 5), _signed("int").wider, is_number=True)
        kinds = {
            "int": small,
            "int again": small,
            "bigint": ColumnType("bigint", integers(-(2**63), 2**63 - 1), _signed("bigint").wider, is_number=True),
            "bigint unsigned": _unsigned("bigint"),
            "decimal": _decimal(9, 2, (12, 2), (12, 4), (38, 10)),
            "date": ColumnType("date", st.sampled_from(_DATES).map(quote)),
            "datetime": ColumnType("datetime", st.sampled_from(_DATES).map(lambda day: quote(f"{day} 10:00:00"))),
            "binary": ColumnType("binary(3)", _bytes(3)),
            "plain text": ColumnType("varchar(10) collate utf8mb4_bin", texts.among(PLAIN_TEXTS)),
        }
        if self.tellable.old_keys:  # equal keys may be written differently, so that writing one again updates it
            kinds["text"] = ColumnType("varchar(10)", texts.literals(10))
            kinds["cased text"] = ColumnType("varchar(4)", texts.among(["a", "A", "b", "B", "é", "E", "a "]))
            kinds["char"] = ColumnType("char(4) character set latin1", texts.among(["a", "A", "é", "É", "ab c"]))
            kinds["exact text"] = ColumnType("varchar(10) collate utf8mb4_nopad_bin", texts.literals(10))
            kinds["double"] = ColumnType("double", st.sampled_from(["0e0", "-0e0", "1.5", "-1e300"]))
        return kinds

    def value_types(self) -> list[ColumnType]:
        texts = self.tellable.texts
        long_text = ColumnType("longtext", texts.literals(300), has_default=False)
        wide = ColumnType("varchar(300)", texts.literals(300), (long_text,))
        clock_times = [f"{day} {time}" for day in _DATES for time in _TIMES]
        exact = ColumnType("datetime(6)", st.sampled_from(clock_times).map(quote))
        spans = ["-838:59:59", "838:59:59", "-00:00:00.5", "-12:34:56.789012", *_TIMES]
        return [
            *(_signed(name) for name in _INTEGERS),
            *(_unsigned(name) for name in _INTEGERS),
            _decimal(5, 2, (10, 2), (12, 4), (38, 10)),
            _decimal(38, 0),
            _decimal(38, 38),
            _decimal(20, 6, (30, 10)),
            ColumnType("float", st.sampled_from(["0", "0.1", "-1.5", "3.4028234e38", "1.2e-38", "16777217", "-0e0"])),
            ColumnType(
                "double", st.sampled_from(["0", "0.1", "-2e-308", "1.7976931348623157e308", "-0e0"]) | _floats()
            ),
            ColumnType("boolean", st.sampled_from(["0", "1", "-128"])),
            ColumnType("bit(1)", st.sampled_from(["b'0'", "b'1'"])),
            ColumnType("bit(13)", st.sampled_from(["b'0'", "b'1'", "b'1111111111111'"])),
            ColumnType("bit(64)", st.sampled_from(["b'0'", f"b'{'1' * 64}'"])),
            ColumnType("date", st.sampled_from([*_DATES, "0000-00-00"]).map(quote)),
            ColumnType("datetime", st.sampled_from([*clock_times, "0000-00-00 00:00:00"]).map(quote), (exact,)),
            ColumnType("datetime(3)", st.sampled_from(clock_times).map(quote), (exact,)),
            exact,
            ColumnType("timestamp", _TIMESTAMPS.map(quote)),
            ColumnType("timestamp(6)", _TIMESTAMPS.map(lambda text: quote(f"{text}.000001"))),
            ColumnType("time", st.sampled_from(spans).map(quote)),
            ColumnType("time(3)", st.sampled_from(spans).map(quote)),
            ColumnType("time(6)", st.sampled_from(spans).map(quote)),
            ColumnType("year", st.sampled_from(["0", "1901", "2024", "2155"])),
            ColumnType("char(5)", texts.literals(5)),
            ColumnType("varchar(20)", texts.literals(20), (wide, long_text)),
            ColumnType("varchar(20) character set latin1", texts.among(["", "é", "ÿ", "a", "A ", "'", "\\", "\n"])),
            wide,
            ColumnType("text", texts.literals(300), (long_text,), has_default=False),
            ColumnType("text", texts.among(["x" * 20_000, "é" * 9_999, "short"]), has_default=False),
            ColumnType("enum('a','B','c d')", texts.among(["a", "B", "c d"])),
            ColumnType("set('a','B','c d')", texts.among(["", "a", "a,B", "a,B,c d"])),
            ColumnType("json", texts.among(["{}", "null", '{"a": [1, "é", null]}', "[]", '"\\u0000"', "1e400"])),
            ColumnType("binary(4)", _bytes(4)),
            ColumnType("varbinary(9)", _bytes(9), (ColumnType("blob", _bytes(300), has_default=False),)),
            ColumnType("blob", _bytes(300), has_default=False),
        ]

    def part_types(self) -> list[ColumnType]:
        return [
            ColumnType("tinyint", integers(0, 3)),
            ColumnType("date", st.sampled_from(_DATES[-3:]).map(quote)),
            ColumnType("varchar(9)", self.tellable.texts.among(["a", "A", "a/b", "x=y", "é", "%41", "a b", "{", "1"])),
            _decimal(5, 2),
        ]

    def create_options(self, table: TableDraft) -> tuple[str, str]:
        inside = ""
        # REPLACE may turn the row that holds the unique value into the new one, which is an update of its key.
        first = next((name for name, kind in table.values.items() if kind.sql in {"int", "bigint", "date"}), None)
        if first is not None and self.tellable.old_keys:
            inside = f", unique key ({self.quoted(first)})"
        return inside, ""

    def place(self, table: TableDraft) -> str:
        kind = self.number(0, 3)
        name = self.quoted(self.one_of([*table.key, TOUCHED]))
        return f" after {name}" if kind == 2 else " first" if kind == 3 else ""

    def retyped(self, table: TableDraft, name: str, kind: ColumnType) -> str:
        null = "not null" if name in table.key else "null"
        return f"alter table {table.name} modify column {self.quoted(name)} {kind.sql} {null}"

    def own_statements(self) -> list[Statement]:
        kinds: list[Statement] = [self.replace, self.on_duplicate_key, self.insert_ignore, self.delete_some]
        kinds += [self.wait, self.insert_set]
        if len(self.tables) > 1:
            kinds += [self.update_both, self.delete_both]
        return [*kinds, self.shift_keys, self.shift_keys] if self.tellable.old_keys else kinds

    def wait(self, table: TableDraft) -> list[str]:
        """Let time pass at the source: all statements of this connection until the next one."""
        return [f"set timestamp = {1_709_632_800 + self.number(0, 600)}", *self.update(table)]

    def replace(self, table: TableDraft) -> list[str]:
        names = self.some_columns(table)
        columns = ", ".join(map(self.quoted, [*table.key, *names]))
        return [f"replace into {table.name} ({columns}) values {self.rows(table, names)}"]

    def on_duplicate_key(self, table: TableDraft) -> list[str]:
        names = self.some_columns(table)
        sets = [f"{self.quoted(name)} = values({self.quoted(name)})" for name in names]
        if self.tellable.old_keys and self.chance(4):
            new = self.key_of(table)
            sets += [f"{self.quoted(name)} = {text}" for name, text in zip(table.key, new, strict=True)]
        return [f"{self.insert(table)[0]} on duplicate key update {', '.join(sets)}"] if sets else self.insert(table)

    def insert_ignore(self, table: TableDraft) -> list[str]:
        return [self.insert(table)[0].replace("insert into", "insert ignore into", 1)]

    def fill(self, table: TableDraft) -> str:
        return super().fill(table).replace("insert into", "insert ignore into", 1)

    def insert_set(self, table: TableDraft) -> list[str]:
        key = ", ".join(f"{self.quoted(n)} = {t}" for n, t in zip(table.key, self.key_of(table), strict=True))
        return [f"insert into {table.name} set {key}, {self.assignments(table)}"]

    def delete_some(self, table: TableDraft) -> list[str]:
        first = self.quoted(next(iter(table.key)))
        order = self.one_of(["", " desc"])
        return [f"delete from {table.name}{self.where(table)} order by {first}{order} limit {self.number(1, 2)}"]

    def shift_keys(self, table: TableDraft) -> list[str]:
        """Shift all keys, in an order in which none meets another."""
        name = next((name for name, kind in table.key.items() if kind.is_number), None)
        if name is None:
            return self.move_key(table)
        sign, order = self.one_of([("+", "desc"), ("-", "asc")])
        column = self.quoted(name)
        by = self.number(1, 2)
        return [f"update {table.name} set {column} = {column} {sign} {by}{self.where(table)} order by {column} {order}"]

    def update_both(self, table: TableDraft) -> list[str]:
        first, second = self.tables
        join = self._join(first, second)
        sets = [f"a.{self.quoted(n)} = {self.value(first.values[n])}" for n in self.some_columns(first)]
        sets += [f"b.{self.quoted(n)} = {self.value(second.values[n])}" for n in self.some_columns(second)]
        return [f"update {first.name} a join {second.name} b on {join} set {', '.join(sets)}"]

    def delete_both(self, table: TableDraft) -> list[str]:
        first, second = self.tables
        where = self.is_key(first, self.key_of(first), "a.")
        join = f"{first.name} a left join {second.name} b on {self._join(first, second)}"
        return [f"delete a, b from {join} where {where}"]

    def _join(self, first: TableDraft, second: TableDraft) -> str:
        names = [name for name in first.key if name in second.key]
        return " and ".join(f"a.{self.quoted(name)} = b.{self.quoted(name)}" for name in names)


def _floats() -> st.SearchStrategy[str]:
    return st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value!r}")


class MariadbDatabase:
    """A database of a history, which exists for the duration of the `with` block."""

    def __init__(self, options: ConnectionOptions, schema: str) -> None:
        self._options, self.schema = options, schema

    def __enter__(self) -> MariadbDatabase:
        self._connection = connect(self._options)
        self.run(f"create database {self.schema}")
        self.run(f"use {self.schema}")
        return self

    def __exit__(self, *_: object) -> None:
        self.run("rollback")
        self.run(f"drop database {self.schema}")
        self._connection.close()

    @property
    def source(self) -> BinlogSource:
        return BinlogSource(self._options, self.schema)

    def run(self, sql: str) -> str:
        """Run a statement; returns why the database refused it, or nothing."""
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except pymysql.MySQLError as error:
                return str(error)
        return ""

    def columns(self, table: str) -> list[Column]:
        """The columns of a table, from its catalog."""
        query = "select column_name, data_type, column_type, character_maximum_length from information_schema.columns"
        where = " where table_schema = %s and table_name = %s order by ordinal_position"
        with closing(connect(self._options)) as connection, connection.cursor() as cursor:
            cursor.execute(query + where, (self.schema, table))
            return [_column(*map(str, row)) for row in cursor.fetchall()]

    def rows(self, table: str, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """All rows, as tagged values: see `tests.databases.values`."""
        # Otherwise a FLOAT is rounded to six digits.
        names = [f"`{c.name}` + 0e0" if c.kind == FLOAT else f"`{c.name}`" for c in columns]
        with closing(connect(self._options)) as connection, connection.cursor() as cursor:
            cursor.execute(f"select {', '.join(names)} from {self.schema}.{table}")
            rows = cursor.fetchall()
        return [tuple(_value(c, value) for c, value in zip(columns, row, strict=True)) for row in rows]


_KINDS = {
    **dict.fromkeys(["tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"], NUMBER),
    **dict.fromkeys(["float", "double"], FLOAT),
    **dict.fromkeys(["datetime", "timestamp"], TIMESTAMP),
    **dict.fromkeys(["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"], BYTES),
    "date": DATE,
    "time": TIME,
}


def _column(name: str, data_type: str, column_type: str, length: str) -> Column:
    kind = BOOLEAN if column_type == "bit(1)" else _KINDS.get(data_type, TEXT)
    return Column(name, kind, pad=int(length) if data_type == "char" else 0)


def _value(column: Column, value: Any) -> Any:
    """A value of PyMySQL as the value that it means."""
    if value is None or (column.kind in {DATE, TIMESTAMP} and isinstance(value, str)):
        return None  # DMS sends null for a zero date, which PyMySQL returns as text
    if column.kind == BOOLEAN:
        return value == b"\x01"
    expected = {NUMBER: (int, Decimal), FLOAT: (float,), DATE: (date,), TIMESTAMP: (datetime,)}.get(column.kind)
    assert expected is None or isinstance(value, expected), (column, value)
    return value
