"""Lake tables are compared with any database that SQLAlchemy knows: exactly, or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlalchemy import types
from sqlalchemy.dialects import mssql, mysql, oracle
from typer.testing import CliRunner

from cdclake.errors import ConfigurationError, RetryableError
from cdclake.lake.read.as_of import TableLocation
from cdclake.model.table.name import TableName
from cdclake_cli.dms.settings import DmsSettings
from cdclake_cli.main import assembled
from cdclake_cli.sources.effort import CHECKSUMS, COUNTS, ROWS, Effort
from cdclake_cli.sources.inspected.columns import InspectedColumn, comparable_type
from cdclake_cli.sources.inspected.connection import Login
from cdclake_cli.sources.inspected.source import InspectedSource
from cdclake_cli.sources.url import open_source
from cdclake_cli.sources.verify import TableVerification, verify
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase

UTC = timezone.utc
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("paid", pa.bool_()),
        ("photo", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
CREATED = (
    "create table orders (id integer primary key, city varchar(20), price decimal(10, 2), ratio real, paid boolean,"
    " photo blob, day date, at datetime)"
)
ROWS_OF_TABLE = (
    (1, "Köln", 1.1, 0.1, True, b"\x00\xff", "2024-03-05", "2024-03-05 06:07:08.000009"),
    (2, "", 12345678.9, 1e300, False, b"", "0044-01-02", "2024-03-05T06:07:08+02:00"),
    (3, None, None, None, None, None, None, None),
)
IN_LAKE = [
    dict(zip(COLUMNS.names, row, strict=True))
    for row in (
        (1, "Köln", Decimal("1.10"), 0.1, True, b"\x00\xff", date(2024, 3, 5), datetime(2024, 3, 5, 6, 7, 8, 9, UTC)),
        (2, "", Decimal("12345678.90"), 1e300, False, b"", date(44, 1, 2), datetime(2024, 3, 5, 4, 7, 8, tzinfo=UTC)),
        (3, None, None, None, None, None, None, None),
    )
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """An SQLite file with the table `orders`."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(CREATED)
        connection.executemany(f"insert into orders values ({', '.join('?' * len(COLUMNS))})", ROWS_OF_TABLE)
    return file


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    """The lake table with the same rows."""
    table = TableOverTime(tmp_path / "lake table", COLUMNS, {"PrimaryKey": "id"})
    table.load(IN_LAKE)
    return table


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def compared(database: Path, table: TableOverTime, effort: Effort | None = None) -> TableVerification:
    source = open_source(f"sqlite:///{database}", DmsSettings(), socket="", option_file=None)
    with source.reading([TableName("main", "orders")]) as now:
        (one,) = now.tables
        return verify(now, one, TableLocation.at(table.location, TABLE), effort)


@pytest.mark.parametrize("by", [CHECKSUMS, ROWS])
def test_every_value_of_a_database_without_own_code_is_compared(database: Path, table: TableOverTime, by: str) -> None:
    result = compared(database, table, Effort(by))
    assert (result.differences, result.compared_by, result.rows_read) == ((), ROWS, 3)
    assert result.why_rows == ("the source computes no checksums" if by == CHECKSUMS else "")
    assert result.is_consistent
    change(database, "update orders set price = 1.11 where id = 1", "delete from orders where id = 3")
    change(database, "insert into orders (id) values (9000000000)")
    result = compared(database, table, Effort(by))
    assert {one.kind: one.key["id"] for one in result.named} == {
        "different": 1,
        "not in the source": 3,
        "missing in the lake": 9_000_000_000,
    }
    assert compared(database, table, Effort(COUNTS)).equal


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "1.5"),
        ("price", "'many'"),
        ("price", "1.005"),
        ("ratio", "'x'"),
        ("paid", "2"),
        ("photo", "'text'"),
        ("day", "20240305"),
        ("at", "'yesterday'"),
        ("at", "'2024-03-05 06:07:08.0000001'"),
        ("at", "1709618828"),
        ("city", "x'00'"),
    ],
)
def test_a_value_without_an_exact_meaning_is_refused_by_its_column(
    database: Path, table: TableOverTime, column: str, value: str
) -> None:
    if column == "id":
        change(database, "drop table orders", CREATED.replace("integer primary key", "integer"))
        change(database, "insert into orders (id) values (1)")
    change(database, f"update orders set {column} = {value} where id = 1")
    with pytest.raises(ConfigurationError, match=f"Column {column} of the source has a value that is no exact"):
        compared(database, table)


def test_a_type_that_cannot_be_compared_stops_its_table_alone_and_may_be_excluded(
    database: Path, table: TableOverTime, tmp_path: Path
) -> None:
    change(database, "alter table orders add column place geometry", "create table tags (tag text primary key)")
    with pytest.raises(ConfigurationError, match="Column place of the source has the type NUMERIC"):
        compared(database, table)
    result = CliRunner().invoke(
        assembled(),
        ["verify", "--source", f"sqlite:///{database}", "--lake-bucket", table.location, "-o", "json"],
        env={"AWS_DEFAULT_REGION": "eu-central-1"},
    )
    assert (result.exit_code, "main.tags" in result.stdout) == (6, True)
    assert "there is no lake table" in result.stdout
    change(database, "update orders set place = 'somewhere'")
    item = {"PrimaryKey": "id", "ColumnPolicy": "exclude place"}
    without = TableOverTime(tmp_path / "without", COLUMNS.append(pa.field("place", pa.string())), item)
    without.load(IN_LAKE)
    assert compared(database, without).equal


def test_the_database_is_only_read(database: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="readonly"),
        Login(f"sqlite:///{database}").connection() as connection,
    ):
        connection.exec_driver_sql("delete from orders")
    with pytest.raises(ConfigurationError), InspectedSource(Login(f"sqlite:///{tmp_path}/none.db")).reading(()):
        pass
    assert not (tmp_path / "none.db").exists()


def test_a_table_that_is_missing_and_a_limit_that_sqlite_has_not_are_refused(database: Path) -> None:
    source = InspectedSource(Login(f"sqlite:///{database}"))
    with (
        pytest.raises(ConfigurationError, match="no such table") as refused,
        source.reading([TableName("main", "order")]),
    ):
        pass
    assert "Did you mean orders?" in refused.value.remedy
    with source.reading(()) as now, pytest.raises(ConfigurationError, match="sqlite"):
        now.limit_statements(5)


@pytest.mark.parametrize(
    ("kind", "dialect", "expected"),
    [
        (types.BIGINT(), "db2", "bigint"),
        (types.SMALLINT(), "db2", "bigint"),
        (mysql.BIGINT(unsigned=True), "mysql", "decimal(20,0)"),
        (types.NUMERIC(12, 2), "db2", "decimal(12,2)"),
        (types.NUMERIC(), "db2", None),
        (types.NUMERIC(60, 2), "db2", None),
        (types.DOUBLE(), "db2", "double"),
        (types.REAL(), "db2", None),
        (types.REAL(), "sqlite", "double"),
        (mysql.DOUBLE(10, 2), "mysql", None),
        (mysql.FLOAT(), "mysql", None),
        (types.TIMESTAMP(timezone=True), "postgresql", "timestamp"),
        (types.TIMESTAMP(), "mariadb", None),
        (types.TIME(), "db2", None),
        (types.JSON(), "postgresql", None),
        (types.UUID(), "postgresql", None),
        (mssql.TINYINT(), "mssql", "smallint"),
        (mssql.MONEY(), "mssql", "decimal(19,4)"),
        (mssql.UNIQUEIDENTIFIER(), "mssql", None),
        (mssql.DATETIMEOFFSET(), "mssql", None),
        (mssql.TIME(), "mssql", None),
        (oracle.NUMBER(12, 2), "oracle", "decimal(12,2)"),
        (oracle.DATE(), "oracle", "timestamp"),
        (oracle.TIMESTAMP(timezone=True), "oracle", None),
        (types.DOUBLE_PRECISION(), "oracle", None),
        (oracle.BINARY_DOUBLE(), "oracle", "double"),
    ],
)
def test_types_that_can_be_compared_exactly(kind: Any, dialect: str, expected: str | None) -> None:
    assert comparable_type(kind, dialect) == expected


def test_values_of_drivers() -> None:
    def values(kind: str, *given: Any, is_padded: bool = False) -> list[Any]:
        array: list[Any] = InspectedColumn("v", "V", kind, is_padded).selected(given).to_pylist()
        return array

    east = timezone(timedelta(hours=2))
    assert values("timestamp", datetime(2024, 3, 5, 6, tzinfo=east)) == [datetime(2024, 3, 5, 4, tzinfo=timezone.utc)]
    assert values("string", "a  ", None, is_padded=True) == ["a", None]
    assert values("binary", memoryview(b"x"), bytearray(b"y")) == [b"x", b"y"]
    assert values("decimal(20,2)", 5, Decimal("1.5")) == [Decimal("5.00"), Decimal("1.50")]
    assert values("float", 0.5, float("inf")) == [0.5, float("inf")]
    for kind, value in (("decimal(20,2)", 1.5), ("decimal(4,2)", Decimal("123.45")), ("float", 0.1), ("int", True)):
        with pytest.raises(ConfigurationError, match="no exact"):
            values(kind, value)


@pytest.mark.database
@pytest.mark.parametrize("engine", ["mariadb", "postgresql"])
def test_rows_are_those_of_the_code_for_one_database(engine: str, request: pytest.FixtureRequest) -> None:
    fixture = {"mariadb": "mariadb_database", "postgresql": "postgres"}[engine]
    database: MariadbDatabase | PostgresDatabase = request.getfixturevalue(fixture)
    binary, at = {"mariadb": ("blob", "datetime(6)"), "postgresql": ("bytea", "timestamptz")}[engine]
    database.run(
        f"create table orders (id bigint primary key, price decimal(9, 2), ratio double precision, word char(5),"
        f" note varchar(20), photo {binary}, day date, at {at})",
        "insert into orders (id) values (1)",
        "insert into orders values (2, 1.5, 0.1, 'é', '', 'x', '2024-03-05', '2024-03-05 06:07:08.000009')",
    )
    options = database.connection_options
    where = f"unix_socket={options.socket}" if engine == "mariadb" else f"host={options.socket}&port={options.port}"
    driver = {"mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg2"}[engine]
    login = Login(
        f"{driver}://{options.user}@/{getattr(database, 'database', database.schema)}?{where}", options.password
    )
    with database.source.snapshot(["orders"]) as own:
        expected = pa.concat_tables(own.rows(own.tables[0])).to_pylist()
    slow = {"mariadb": "sleep(30)", "postgresql": "length(pg_sleep(30)::text)"}[engine]
    database.run(f"create view slow as select {slow} as id")
    names = [TableName(database.schema, name) for name in ("orders", "slow")]
    with InspectedSource(login).reading(names) as now:
        one, stopped = now.tables
        database.run("delete from orders")
        assert pa.concat_tables(now.rows(one, 1)).to_pylist() == expected
        assert (now.is_consistent, now.count(one)) == (True, 2)
        now.limit_statements(1)
        with pytest.raises(RetryableError):
            list(now.rows(stopped))
