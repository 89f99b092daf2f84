"""PostgreSQL: the statements and types of its histories, and a client that runs them."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import psycopg2
from hypothesis import strategies as st

from cdclake_devkit.replicate.postgres.source import WalSource
from tests.databases.columns import PLAIN_TEXTS, ColumnType, decimals, integers
from tests.databases.grammar import Grammar, Statement, TableDraft
from tests.databases.values import (
    BYTES,
    DATE,
    FLOAT,
    NUMBER,
    TEXT,
    TIME,
    TIMESTAMP,
    Column,
    duration,
    single,
    timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_cli.sources.postgres.connection import ConnectionOptions

_INTEGERS = {"smallint": 15, "integer": 31, "bigint": 63}
_DATES = ("0001-01-01", "1582-10-15", "1969-12-31", "1970-01-01", "2000-02-29", "2024-03-05", "9999-12-31")
_TIMES = ("00:00:00", "23:59:59", "12:34:56.789012", "00:00:00.000001", "01:02:03.5", "23:59:59.999999")
_CLOCK_TIMES = [f"{day} {time}" for day in _DATES for time in _TIMES]
_FAR = ["infinity", "-infinity", "0044-03-15 BC", "12024-03-05"]
"""Dates that neither DMS nor Parquet has."""
DATABASE = "histories"
_COLLATION = "any_case"
LARGE = "large"
"""A column of texts of 9,568 characters."""


def quote(text: str) -> str:
    """A text as an SQL literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _quoted(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts).map(quote)


def _integer(name: str) -> ColumnType:
    bits = _INTEGERS[name]
    names = list(_INTEGERS)
    wider = tuple(_integer(other) for other in names[names.index(name) + 1 :])
    wider += (ColumnType("numeric(20,0)", decimals(20, 0), is_number=True),)
    return ColumnType(name, integers(-(2**bits), 2**bits - 1), wider, is_number=True)


def _numeric(precision: int, scale: int, *wider: tuple[int, int]) -> ColumnType:
    types = tuple(_numeric(*parts) for parts in wider)
    return ColumnType(f"numeric({precision},{scale})", decimals(precision, scale), types, is_number=True)


def _bytes(size: int) -> st.SearchStrategy[str]:
    odd = st.sampled_from([b"", b"\x00", b"a ", b"\xff\xfe", b"'\"\\", b"\r\n"])
    return (odd | st.binary(max_size=size)).map(lambda data: f"'\\x{data.hex()}'")


_DOUBLES = ("0", "'-0'", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1.7976931348623157e308", "5e-324")
_FLOATS = ("0", "'-0'", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235e38", "1e-45")


class PostgresGrammar(Grammar):
    """Draws statements of PostgreSQL."""

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def key_types(self) -> dict[str, ColumnType]:
        texts = self.tellable.key_texts
        small = ColumnType("integer", integers(-5, 5), _integer("integer").wider, is_number=True)
        kinds = {
            "integer": small,
            "integer again": small,
            "bigint": _integer("bigint"),
            "numeric": _numeric(9, 2, (12, 2), (12, 4), (38, 10)),
            "date": ColumnType("date", _quoted(*_DATES)),
            "timestamptz": ColumnType("timestamp with time zone", _quoted(*(f"{day} 10:00:00+00" for day in _DATES))),
            "uuid": ColumnType("uuid", _quoted(*(f"{digit * 8}-0000-4000-8000-{digit * 12}" for digit in "0a9f"))),
            "plain text": ColumnType("varchar(10)", texts.among(PLAIN_TEXTS)),
        }
        if self.tellable.lobs:
            can_be_empty = "" not in self.tellable.key_texts.unusable
            kinds["bytea"] = ColumnType("bytea", _bytes(3).filter(lambda sql: can_be_empty or sql != "'\\x'"))
            kinds["text"] = ColumnType("text", texts.literals(10))
        if self.tellable.old_keys:  # equal keys may be written differently, so that writing one again updates it
            cased = texts.among(["a", "A", "b", "B", "é", "É", "ab c"])
            kinds["cased text"] = ColumnType(f"varchar(9) collate {_COLLATION}", cased)
            kinds["double"] = ColumnType("double precision", st.sampled_from(["0", "'-0'", "1.5", "'NaN'", "-1e300"]))
        return kinds

    def value_types(self) -> list[ColumnType]:
        texts = self.tellable.texts
        long_text = ColumnType("text", texts.literals(300))
        wide = ColumnType("varchar(300)", texts.literals(300), (long_text,))
        exact = ColumnType("timestamp", _quoted(*_CLOCK_TIMES, *_FAR))
        zoned = ColumnType("timestamp with time zone", _quoted(*(f"{text}+00" for text in _CLOCK_TIMES), "infinity"))
        double = ColumnType("double precision", st.sampled_from(_DOUBLES) | st.floats().map(lambda f: f"'{f!r}'"))
        documents = ["{}", "null", '{"a": [1, "é", null], "a": 2}', "[]", '"\\u0001"', "1e400", '{"b":1,  "a":2}']
        return [
            *(_integer(name) for name in _INTEGERS),
            _numeric(5, 2, (10, 2), (12, 4), (38, 10)),
            _numeric(38, 0),
            _numeric(38, 38),
            ColumnType("numeric", decimals(20, 6) | st.sampled_from(["'NaN'", "0.0000005", "-1.2345675", "1e20"])),
            ColumnType("numeric(50,5)", decimals(50, 5)),
            ColumnType("real", st.sampled_from(_FLOATS)),
            double,
            ColumnType("boolean", st.sampled_from(["true", "false"])),
            ColumnType("uuid", _quoted("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff")),
            ColumnType("date", _quoted(*_DATES, *_FAR)),
            ColumnType("timestamp(0)", _quoted(*_CLOCK_TIMES), (exact,)),
            exact,
            zoned,
            ColumnType("time", _quoted(*_TIMES)),
            ColumnType("interval", _quoted("1 year 2 mons", "-3 days 04:05:06.789", "0", "178000000 years")),
            ColumnType("char(5)", texts.literals(5)),
            ColumnType("varchar(20)", texts.literals(20), (wide, long_text)),
            wide,
            long_text,
            ColumnType("bytea", _bytes(9)),
            ColumnType("json", texts.among(documents)),
            ColumnType("jsonb", texts.among([text for text in documents if "u0001" not in text])),
            ColumnType("integer[]", texts.among(["{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[0:1]={5,6}"])),
            ColumnType("text[]", texts.among(["{}", '{"a,b","",NULL,"NULL","\\"q\\\\"}', "{é}"])),
            ColumnType("inet", _quoted("10.0.0.1", "::1/64")),
            ColumnType("cidr", _quoted("10.0.0.0/8", "::1/128")),
            ColumnType("bit(5)", st.sampled_from(["B'00000'", "B'10101'"])),
            ColumnType("int4range", texts.among(["empty", "[1,5)", "(,3]"])),
        ]

    def part_types(self) -> list[ColumnType]:
        return [
            ColumnType("smallint", integers(0, 3)),
            ColumnType("date", _quoted(*_DATES[-3:])),
            ColumnType("varchar(9)", self.tellable.texts.among(["a", "A", "a/b", "x=y", "é", "%41", "a b", "{", "1"])),
            _numeric(5, 2),
        ]

    def create(self) -> list[str]:
        collation = f"create collation {_COLLATION} (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        created = super().create()
        # A deferrable key is no replica identity: PostgreSQL logs no old keys without FULL.
        full = [table.name for table in self.tables if table.is_deferrable or self.chance(3)]
        has_large = [table for table in self.tables if not self.tellable.old_keys or self.chance(3)]
        large = [sql for table in has_large for sql in self.add_large(table, table.name in full)]
        unique = [sql for table in self.tables if table.is_deferrable for sql in self.refuse_used_keys(table)]
        return [collation, *created, *(f"alter table {name} replica identity full" for name in full), *large, *unique]

    def refuse_used_keys(self, table: TableDraft) -> list[str]:
        """Let each insert check its key at once, as the change files cannot tell such a row from one sent again."""
        used = " and ".join(f"{self.quoted(name)} = new.{self.quoted(name)}" for name in table.key)
        body = (
            f"begin if exists (select from {table.name} where {used}) then raise unique_violation; end if;"
            " return new; end"
        )
        return [
            f"create function refuse_{table.name}() returns trigger language plpgsql as $${body}$$",
            f"create trigger refuse before insert on {table.name} for each row execute function refuse_{table.name}()",
        ]

    def add_large(self, table: TableDraft, is_full: bool) -> list[str]:
        """Add a column whose values are stored outside of their row.

        Without a full replica identity, updates that leave such a value alone do not send it.
        """
        if not is_full:
            if self.tellable.old_keys:
                return []  # an update of the key would not tell the value either
            table.attributes["NullMeansUnsent"] = LARGE
            self.is_in_order = True
        text = "(select string_agg(md5(n::text || '{}'), '') from generate_series(1, 299) n)"
        texts = st.sampled_from([text.format(seed) for seed in "abc"])
        table.values[LARGE] = ColumnType("text", texts, is_nulled=False)
        table.fixed.add(LARGE)
        kind = "external" if self.chance(2) else "extended"
        return [
            f"alter table {table.name} add column {LARGE} text",
            f"alter table {table.name} alter column {LARGE} set storage {kind}",
        ]

    def create_options(self, table: TableDraft) -> tuple[str, str]:
        if not self.tellable.old_keys or not self.chance(3):
            return "", ""
        table.is_deferrable = True
        return f" deferrable initially {self.one_of(['immediate', 'deferred'])}", ""

    def retyped(self, table: TableDraft, name: str, kind: ColumnType) -> str:
        return f"alter table {table.name} alter column {self.quoted(name)} type {kind.sql}"

    def own_statements(self) -> list[Statement]:
        kinds: list[Statement] = [self.on_conflict, self.on_conflict, self.merge, self.delete_returning]
        if len(self.tables) > 1:
            kinds += [self.update_from, self.delete_using, self.move_rows]
        return [*kinds, self.shift_keys, self.swap_two] if self.tellable.old_keys else kinds

    def fill(self, table: TableDraft) -> str:
        return f"{super().fill(table)}{'' if table.is_deferrable else ' on conflict do nothing'}"

    def on_conflict(self, table: TableDraft) -> list[str]:
        insert = self.insert(table)[0]
        if table.is_deferrable:
            return [insert]
        if self.chance(4):
            return [f"{insert} on conflict do nothing"]
        names = [name for name in table.values if self.quoted(name) in insert.partition("(")[2].partition(")")[0]]
        sets = [f"{self.quoted(name)} = excluded.{self.quoted(name)}" for name in names]
        if self.tellable.old_keys and self.chance(4):
            sets += [f"{self.quoted(n)} = {text}" for n, text in zip(table.key, self.key_of(table), strict=True)]
        key = ", ".join(map(self.quoted, table.key))
        return [f"{insert} on conflict ({key}) do update set {', '.join(sets)}"]

    def merge(self, table: TableDraft) -> list[str]:
        """MERGE with rows of the same table or of another."""
        other = self.one_of(self.tables)
        name = self.one_of(list(table.values))
        value = self.value(table.values[name])
        matched = self.one_of(["delete", f"update set {self.quoted(name)} = {value}"])
        using = f"(select * from {other.name}{self.where(other)}) o"
        join = " and ".join(f"t.{self.quoted(key)} = o.{self.quoted(key)}" for key in table.key)
        return [f"merge into {table.name} t using {using} on {join} when matched then {matched}"]

    def delete_returning(self, table: TableDraft) -> list[str]:
        """Delete rows, and count them in the same statement."""
        return [f"with gone as (delete from {table.name}{self.where(table)} returning 1) select count(*) from gone"]

    def update_from(self, table: TableDraft) -> list[str]:
        other = self.one_of(self.tables)
        join = " and ".join(f"{table.name}.{self.quoted(key)} = o.{self.quoted(key)}" for key in table.key)
        return [f"update {table.name} set {self.assignments(table)} from {other.name} o where {join}"]

    def delete_using(self, table: TableDraft) -> list[str]:
        other = self.one_of(self.tables)
        join = " and ".join(f"{table.name}.{self.quoted(key)} = o.{self.quoted(key)}" for key in table.key)
        return [f"delete from {table.name} using {other.name} o where {join}"]

    def move_rows(self, table: TableDraft) -> list[str]:
        """Move rows between tables, in one statement."""
        first, second = self.tables
        key = ", ".join(map(self.quoted, first.key))
        gone = f"delete from {first.name}{self.where(first)} returning {key}"
        return [f"with gone as ({gone}) insert into {second.name} ({key}) select {key} from gone"]

    def may_drop(self, kind: ColumnType) -> bool:
        """The log does not tell the precision of a NUMERIC that was dropped since."""
        return not kind.sql.startswith("numeric")

    def shift_keys(self, table: TableDraft) -> list[str]:
        """Shift keys in one statement. If the key is deferrable, a row may take a key that another still has."""
        name = next((name for name, kind in table.key.items() if kind.is_number), None)
        if name is None:
            return self.move_key(table)
        column, by = self.quoted(name), self.one_of(["+ 1", "- 1", "+ 2"])
        return [f"update {table.name} set {column} = {column} {by}{self.where(table)}"]

    def swap_two(self, table: TableDraft) -> list[str]:
        """Swap two keys in one statement, which only a deferrable key allows."""
        one, other = self.key_of(table), self.key_of(table)
        sets = []
        for index, name in enumerate(table.key):
            is_one = self.is_key(table, one)
            kind = table.key[name].sql.partition(" collate")[0]
            sets.append(
                f"{self.quoted(name)} = case when {is_one} then {other[index]}::{kind} else {one[index]}::{kind} end"
            )
        where = f"({self.is_key(table, one)}) or ({self.is_key(table, other)})"
        return [f"update {table.name} set {', '.join(sets)} where {where}"]


class PostgresDatabase:
    """A schema of a history, which exists for the duration of the `with` block."""

    def __init__(self, options: ConnectionOptions, schema: str) -> None:
        self._options, self.schema = options, schema
        self._is_open = False

    def __enter__(self) -> PostgresDatabase:
        self._connection = self._connect()
        for sql in (f"create schema {self.schema}", f"set search_path = {self.schema}"):
            assert not self.run(sql)
        return self

    def __exit__(self, *_: object) -> None:
        self.run("rollback")
        self._connection.close()
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"drop schema {self.schema} cascade")
            # A slot stays active for a moment after its reader has gone.
            cursor.execute("select pg_terminate_backend(active_pid) from pg_replication_slots where active")
            while _count(cursor, "select count(*) from pg_replication_slots where active"):
                time.sleep(0.01)
            cursor.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")

    def _connect(self) -> Any:
        connection = psycopg2.connect(**self._options.settings(), dbname=DATABASE)
        connection.autocommit = True
        return connection

    @property
    def source(self) -> WalSource:
        return WalSource(self._options, DATABASE)

    def run(self, sql: str) -> str:
        """Run a statement; returns why the database refused it, or nothing.

        In a transaction, a statement that fails is undone alone, with a savepoint of its own.
        """
        word = sql.split()[0]
        guarded = self._is_open and word not in {"begin", "commit", "rollback", "savepoint"}
        with self._connection.cursor() as cursor:
            try:
                if guarded:
                    cursor.execute("savepoint guard")
                cursor.execute(sql)
                if guarded:
                    cursor.execute("release savepoint guard")
            except psycopg2.Error as error:
                if guarded:
                    cursor.execute("rollback to savepoint guard")
                self._is_open = self._is_open and word != "commit"
                return str(error)
        if word in {"begin", "commit"} or sql == "rollback":
            self._is_open = word == "begin"
        return ""

    def columns(self, table: str) -> list[Column]:
        """The columns of a table, from its catalog."""
        query = """
            select attname, format_type(atttypid, atttypmod) from pg_attribute
            where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
        """
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(query, (f"{self.schema}.{table}",))
            return [_column(name, kind) for name, kind in cursor.fetchall()]

    def rows(self, table: str, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """All rows, as values: see `tests.databases.values`."""
        # A cast of an inet to text adds the length of its network, which its output leaves out.
        names = ", ".join(
            f"nullif(format('%s', \"{c.name}\"), '')" if c.declared == "inet" else f'"{c.name}"::text' for c in columns
        )
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("set bytea_output = hex; set extra_float_digits = 3; set timezone = UTC")
            cursor.execute(f"select {names} from {self.schema}.{table}")
            rows = cursor.fetchall()
        return [tuple(_value(c, text) for c, text in zip(columns, row, strict=True)) for row in rows]


def _count(cursor: Any, query: str) -> int:
    cursor.execute(query)
    return int(cursor.fetchone()[0])


_KINDS = {
    **dict.fromkeys(["smallint", "integer", "bigint"], NUMBER),
    **dict.fromkeys(["real", "double precision"], FLOAT),
    **dict.fromkeys(["timestamp without time zone", "timestamp with time zone"], TIMESTAMP),
    "timestamp(0) without time zone": TIMESTAMP,
    "time without time zone": TIME,
    "date": DATE,
    "bytea": BYTES,
}
_MAX_DIGITS = 38
"""DMS sends a NUMERIC of more digits as text."""


def _column(name: str, declared: str) -> Column:
    kind = _KINDS.get(declared, TEXT)
    if declared.startswith("numeric"):
        digits = int(declared[8:].partition(",")[0]) if declared != "numeric" else 0
        kind = NUMBER if digits <= _MAX_DIGITS else TEXT
    pad = int(declared[10:-1]) if declared.startswith("character(") else 0
    return Column(name, kind, pad, declared)


def _value(column: Column, text: str | None) -> Any:
    """A value in PostgreSQL's text form as the value that DMS sends for it."""
    if text is None:
        return None
    if column.kind == NUMBER:
        number = Decimal(text)
        if not number.is_finite():
            return None
        # DMS sends a NUMERIC without precision as NUMERIC(28,6).
        return number.quantize(Decimal("0.000001"), ROUND_HALF_UP) if column.declared == "numeric" else number
    if column.kind == FLOAT:
        value = float(text)
        return single(value) if column.declared == "real" else value
    if column.kind in {DATE, TIMESTAMP}:
        text = text.removesuffix("+00")
        if "infinity" in text or "BC" in text or text.index("-") != 4:
            return None
        return date.fromisoformat(text) if column.kind == DATE else timestamp(text)
    if column.kind == TIME:
        return duration(text)
    if column.kind == BYTES:
        return bytes.fromhex(text[2:])
    return text
