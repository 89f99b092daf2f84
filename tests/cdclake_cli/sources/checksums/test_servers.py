"""Checksums of real servers are those of equal lake rows, and lead to exactly the rows that differ."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.errors import RetryableError
from cdclake.lake.read.as_of import TableLocation
from cdclake_cli.sources.effort import CHECKSUMS, ROWS, Effort, Pace
from cdclake_cli.sources.verify import TableVerification, verify
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase, TestDatabase

pytestmark = pytest.mark.database

SERVERS = ["mariadb_database", "postgres"]
DOUBLES = [
    *("1e15", "1e14", "123456789012345", "1234567890123456", "1e16", "1e-5", "1e-14", "1e-15", "1.5e-15", "1e-16"),
    *("1.2345678901234567e-10", "0.1", "0.3333333333333333", "1e300", "-0.0", "5e-324", "-12345678901234567890"),
    *("100000", "1.7976931348623157e308", "123456.78901234567", "-2.5"),
]
MARIADB = {
    "tiny tinyint unsigned": ["0", "255"],
    "small smallint zerofill": ["7"],
    "whole int": ["-2147483648", "0", "2147483647"],
    "big bigint unsigned": ["18446744073709551615", "0"],
    "price decimal(12,2)": ["-0.01", "1234567890.10", "0"],
    "fine decimal(20,15)": ["0.000000000000001", "-99999.5", "12"],
    "filled decimal(9,2) zerofill": ["1.5"],
    "flag bit(1)": ["1", "0"],
    "born year": ["0000", "2155", "1999"],
    "number double": [*DOUBLES],
    "ratio float": ["0.1", "16777217", "-3.4e38", "1e-30"],
    "word char(9)": ["'a  '", "''", "'ß'"],
    "note varchar(99)": ["''", "' a '", "'1:x-'", "'Ünï ☃ 😀'", "'-'", "concat('a', char(0), 'b')"],
    "old varchar(20) character set latin1": ["'é€'", "'Ã©'"],
    "cased varchar(9) collate utf8mb4_general_ci": ["'A'", "'a'"],
    "kind enum('x','é') character set utf8mb4": ["'é'"],
    "tags set('x','y')": ["'x,y'", "''"],
    "body longtext": ["repeat('né', 5000)"],
    "bytes varbinary(9)": ["x'00ff'", "''"],
    "fixed binary(3)": ["x'01'"],
    "photo blob": ["x'deadbeef'", "''"],
    "day date": ["'0044-01-02'", "'9999-12-31'", "'0000-00-00'"],
    "at datetime(6)": ["'2024-03-05 06:07:08.000009'", "'1000-01-01'", "'0000-00-00'"],
    "at_second datetime": ["'2024-03-05 06:07:08'"],
    "stamp timestamp(3) null": ["'2024-03-05 06:07:08.120'"],
    "wait time(2)": ["'-101:00:02.5'", "'838:59:59'", "'00:00:00'"],
}
POSTGRESQL = {
    "small smallint": ["-32768", "7"],
    "whole integer": ["-2147483648", "2147483647"],
    "big bigint": ["9223372036854775807", "0"],
    "price numeric(12,2)": ["-0.01", "1234567890.10", "0", "'NaN'"],
    "fine numeric(20,15)": ["0.000000000000001", "-99999.5"],
    "coarse numeric(5,-2)": ["12345"],
    "any_number numeric": ["0.0000005", "-0.0000005", "1.23456789", "123456789012345678901"],
    "long_number numeric(60,3)": ["1e50", "0.5"],
    "flag boolean": ["true", "false"],
    "ratio real": ["0.1", "16777217", "'NaN'", "'-Infinity'", "1e-30"],
    "number double precision": [*DOUBLES, "'NaN'", "'Infinity'"],
    "word char(9)": ["'a  '", "''"],
    "note text": ["''", "' a '", "'1:x-'", "'Ünï ☃ 😀'", "'-'"],
    "code varchar(9)": ["'%s %'", "'A'", "'a'"],
    "bytes bytea": ["'\\x00ff'", "''"],
    "day date": ["'0044-01-02'", "'9999-12-31'", "'infinity'", "'0044-03-15 BC'", "'10000-01-01'"],
    "at timestamp": ["'2024-03-05 06:07:08.000009'", "'1000-01-01'", "'-infinity'", "'0044-03-15 01:02:03 BC'"],
    "stamp timestamptz": ["'2024-03-05 06:07:08.12+05:30'", "'infinity'"],
    "wait time": ["'06:07:08.5'", "'24:00'", "'00:00'"],
    "id_of uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "data json": ["'{\"a\" : 1}'"],
    "data2 jsonb": ['\'{"b":1,"a":2}\''],
    "list integer[]": ["'{1,null}'", "'{}'"],
    "flags boolean[]": ["'{t,f}'"],
    "address inet": ["'10.0.0.1'", "'10.0.0.0/8'"],
    "span interval": ["'1 day 02:00'"],
}
WITHOUT_TEXT = {"mariadb_database": "place point", "postgres": "cost money"}
"""A column of which the server has no text that is certain to be that of the lake."""


@pytest.fixture(params=SERVERS)
def database(request: pytest.FixtureRequest) -> MariadbDatabase | PostgresDatabase:
    database: MariadbDatabase | PostgresDatabase = request.getfixturevalue(request.param)
    if request.param == "mariadb_database":
        database.run("set session sql_mode = ''")
    else:
        database.schema = "shop"
        database.run("create schema shop", "set search_path = shop")
    return database


def copied(database: TestDatabase, folder: Path, key: str, item: dict[str, str] | None = None) -> TableOverTime:
    """A lake table with the rows of the source's table `orders`."""
    with database.source.snapshot(["orders"]) as now:
        rows = pa.concat_tables(now.rows(now.tables[0]))
    table = TableOverTime(folder, rows.schema, {"PrimaryKey": key, **(item or {})})
    table.load(rows.to_pylist())
    return table


def compared(database: TestDatabase, table: TableOverTime, effort: Effort | None = None) -> TableVerification:
    with database.source.snapshot(["orders"]) as now:
        (one,) = now.tables
        return verify(now, one, TableLocation.at(table.location, TABLE), effort)  # type: ignore[arg-type]


def create(database: TestDatabase, columns: dict[str, list[str]]) -> None:
    """A table with a row for each value of each column, one with all first values, and one of nulls."""
    names = [column.split()[0] for column in columns]
    database.run(f"create table orders (id int primary key, {', '.join(columns)})")
    rows = [["null"] * len(columns), [values[0] for values in columns.values()]]
    for place, values in enumerate(columns.values()):
        rows += [["null"] * place + [value] + ["null"] * (len(columns) - place - 1) for value in values]
    for number, row in enumerate(rows):
        database.run(f"insert into orders (id, {', '.join(names)}) values ({number}, {', '.join(row)})")


def test_equal_values_of_each_type_have_equal_checksums(database: TestDatabase, tmp_path: Path) -> None:
    columns = MARIADB if database.engine == "mysql" else POSTGRESQL
    create(database, columns)
    table = copied(database, tmp_path, "id")
    assert compared(database, table, Effort(ROWS)).equal
    result = compared(database, table, Effort(bucket_rows=1))
    assert (result.compared_by, result.why_rows, result.differences) == (CHECKSUMS, "", ())
    assert result.rows_read == 0


ROWS_OF_TABLE = 3_000
BUCKET_ROWS = 20
KEYS = {"integer": ["id"], "text": ["part", "id"]}


def fill(database: TestDatabase, key: str) -> None:
    database.run(
        f"create table orders (part varchar(9) not null, id int not null, note varchar(20), price decimal(9,2),"
        f" at timestamp null, primary key ({', '.join(KEYS[key])}))"
    )
    parts = ["a", "A", "b "]
    rows = [
        f"('{parts[number % 3]}', {number * 3 - 4_000}, 'n{number}', {number % 90}.5, '2024-03-05 06:07:08')"
        for number in range(ROWS_OF_TABLE)
    ]
    database.run(f"insert into orders values {', '.join(rows)}")


def planted(database: TestDatabase, seed: int, number: int = 50) -> dict[str, set[int]]:
    """Differences at random places: the `id` of each, by kind."""
    chosen = random.Random(seed)
    expected: dict[str, set[int]] = {kind: set() for kind in ("missing in the lake", "not in the source", "different")}
    places = chosen.sample(range(ROWS_OF_TABLE), number)
    values = {"note": ["'x'", "null", "''", "concat(note, ' ')"], "price": ["price + 0.01", "null"], "at": ["null"]}
    for place in places:
        row = place * 3 - 4_000
        kind = chosen.choice(list(expected))
        if kind == "different":
            column = chosen.choice(list(values))
            database.run(f"update orders set {column} = {chosen.choice(values[column])} where id = {row}")
        elif kind == "not in the source":
            database.run(f"delete from orders where id = {row}")
        else:
            row += 1
            database.run(f"insert into orders values ('new', {row}, 'n', 1, null)")
        expected[kind].add(row)
    return expected


@pytest.mark.parametrize("key", KEYS)
def test_planted_differences_are_all_found_with_their_keys_and_no_others(
    database: TestDatabase, tmp_path: Path, key: str
) -> None:
    fill(database, key)
    table = copied(database, tmp_path, ",".join(KEYS[key]))
    expected = planted(database, seed=len(key))
    result = compared(database, table, Effort(bucket_rows=BUCKET_ROWS))
    found: dict[str, set[int]] = {kind: set() for kind in expected}
    for one in result.named:
        assert list(one.key) == KEYS[key]
        found[one.kind].add(one.key["id"])
    assert found == expected
    assert (result.compared_by, result.differing_rows) == (CHECKSUMS, 50)
    assert result.source_rows == database.query("select count(*) from orders")[0][0]
    assert 50 <= result.rows_read < ROWS_OF_TABLE * 0.7
    by_rows = compared(database, table, Effort(ROWS))
    assert set(by_rows.differences) == set(result.differences)
    assert by_rows.rows_read == result.source_rows


@pytest.mark.parametrize("key", KEYS)
def test_one_row_that_differs_costs_the_rows_of_its_bucket(database: TestDatabase, tmp_path: Path, key: str) -> None:
    fill(database, key)
    table = copied(database, tmp_path, ",".join(KEYS[key]))
    assert compared(database, table, Effort(bucket_rows=BUCKET_ROWS)).rows_read == 0
    database.run("update orders set note = 'N7' where note = 'n7'")
    result = compared(database, table, Effort(bucket_rows=BUCKET_ROWS))
    assert (result.differing_rows, [one.key["id"] for one in result.named]) == (1, [7 * 3 - 4_000])
    assert result.rows_read == BUCKET_ROWS if key == "integer" else result.rows_read < 3 * BUCKET_ROWS


def test_tables_without_a_key_and_without_rows_are_compared_by_checksums(
    database: TestDatabase, tmp_path: Path
) -> None:
    database.run("create table orders (a varchar(9), b int)")
    database.run("insert into orders values ('x', 1), ('x', 1), ('y', null), (null, null)")
    table = copied(database, tmp_path, "null")
    assert compared(database, table).equal
    database.run("insert into orders values ('x', 1)")
    result = compared(database, table)
    assert (result.compared_by, result.differing_rows, result.named[0].key) == (CHECKSUMS, 1, {"a": "x", "b": 1})
    database.run("delete from orders")
    assert (compared(database, table).differing_rows, compared(database, table).source_rows) == (4, 0)


def test_a_column_without_a_certain_text_has_its_rows_read(database: TestDatabase, tmp_path: Path) -> None:
    column = WITHOUT_TEXT["mariadb_database" if database.engine == "mysql" else "postgres"]
    database.run(f"create table orders (id int primary key, {column})", "insert into orders (id) values (1), (2)")
    table = copied(database, tmp_path, "id")
    result = compared(database, table)
    name = column.split()[0]
    assert (result.equal, result.compared_by, result.rows_read) == (True, ROWS, 2)
    assert result.why_rows == f"the source has no exact text for column {name}"


def test_a_bounded_pace_pauses_between_ranges_and_reads_rows_where_there_are_none(
    database: TestDatabase, tmp_path: Path
) -> None:
    fill(database, "integer")
    table = copied(database, tmp_path, "id")
    pauses: list[float] = []
    pace = Pace(1_000, clock=lambda: sum(pauses), sleep=pauses.append)
    assert compared(database, table, Effort(pace=pace)).compared_by == CHECKSUMS
    assert pauses == [1.0, 1.0, 1.0]
    primary_key = "primary key" if database.engine == "mysql" else "constraint orders_pkey"
    database.run(f"alter table orders drop {primary_key}")
    database.run("alter table orders add primary key (part, id)")
    pauses.clear()
    result = compared(database, table, Effort(pace=Pace(1_000, clock=lambda: sum(pauses), sleep=pauses.append)))
    assert (result.compared_by, result.rows_read, sum(pauses)) == (ROWS, ROWS_OF_TABLE, 3)
    assert result.why_rows == "the key does not begin with an integer, so checksums have no pauses"


def test_the_server_stops_statements_that_take_too_long(database: TestDatabase) -> None:
    database.run("create table orders (id int primary key)", "insert into orders values (1)")
    slow = "select sleep(30)" if database.engine == "mysql" else "select pg_sleep(30)"
    with database.source.snapshot(["orders"]) as now:
        now.limit_statements(1)  # type: ignore[attr-defined]
        with pytest.raises(RetryableError):
            now.select(slow)  # type: ignore[attr-defined]
        assert now.count(now.tables[0]) == 1
        with pytest.raises(RetryableError):
            now.select(slow)  # type: ignore[attr-defined]
