"""Lake tables are compared with a real database, by every value or by row counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.table.name import TableName
from cdclake_cli.main import assembled
from cdclake_cli.sources.effort import CHECKSUMS, COUNTS, ROWS, Effort
from cdclake_cli.sources.options import PASSWORD_VARIABLE
from cdclake_cli.sources.tables import SourceTable
from cdclake_cli.sources.verify import TableVerification, verify
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase, TestDatabase

COLUMNS = pa.schema([("id", pa.int32()), ("city", pa.string()), ("price", pa.decimal128(10, 2))])
ITEM = {"PrimaryKey": "id", "PartitionKey": "city"}


def row(number: int, city: str | None = "Ulm", price: str = "1.50") -> dict[str, Any]:
    return {"id": number, "city": city, "price": pa.scalar(price).cast(pa.decimal128(10, 2)).as_py()}


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    """The lake table `shop.orders`."""
    table = TableOverTime(tmp_path, COLUMNS, dict(ITEM))
    table.load([row(1), row(2, None), row(3, "Köln")])
    table.apply(("U", row(3, "Bonn", "2.50")), ("D", row(1)))
    return table


@pytest.fixture
def orders(source: MariadbDatabase) -> MariadbDatabase:
    """A database with the same rows in its table `orders`."""
    source.run("create table orders (id int primary key, city varchar(50), price decimal(10,2))")
    source.run("insert into orders values (2, null, 1.50), (3, 'Bonn', 2.50)")
    return source


def compared(
    source: MariadbDatabase, table: TableOverTime, effort: Effort | None = None, **options: Any
) -> TableVerification:
    def location_of(name: TableName) -> TableLocation:
        assert str(name) == f"{source.schema}.orders"
        return TableLocation.at(table.location, TABLE)

    with source.source.snapshot(["orders"]) as now:
        (one,) = now.tables
        return verify(now, one, location_of(one.name), effort, **options)


def command(source: TestDatabase, table: TableOverTime, *more: str) -> Any:
    """The result of the command for all tables of a database."""
    options = source.connection_options
    scheme = {"mysql": "mysql", "postgres": "postgresql"}[source.engine]
    port = f":{options.port}" if options.port else ""
    url = f"{scheme}://{options.user}@localhost{port}/{source.source.database}"
    place = ("--socket", options.socket, "--lake-bucket", table.location, "-o", "json")
    environment = {PASSWORD_VARIABLE: options.password, "AWS_DEFAULT_REGION": "eu-central-1"}
    return CliRunner().invoke(assembled(), ["verify", "--source", url, *place, *more], env=environment)


def test_equal_tables_are_equal(orders: MariadbDatabase, table: TableOverTime) -> None:
    result = compared(orders, table)
    assert (result.equal, result.change, result.lake_rows, result.source_rows) == (True, 2, 2, 2)
    assert compared(orders, table, Effort(COUNTS)).equal


def test_each_kind_of_difference_is_found(orders: MariadbDatabase, table: TableOverTime) -> None:
    orders.run("update orders set price = 2.51 where id = 3")
    orders.run("insert into orders values (4, 'Rom', 1.00)")
    result = compared(orders, table)
    assert not result.equal
    assert {"1 rows missing", "1 rows different"} <= set(result.differences)
    assert any("2.51" in difference for difference in result.differences)
    counted = compared(orders, table, Effort(COUNTS))
    assert counted.differences == ("2 rows in the lake, 3 in the source",)


def test_a_table_of_many_parts_is_compared_part_by_part(
    orders: MariadbDatabase, table: TableOverTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdclake_cli.sources.verify.number_of_parts", lambda *_: 4)
    progress: list[tuple[str, int, int]] = []
    for by in (ROWS, CHECKSUMS):
        assert compared(orders, table, Effort(by), report=lambda *step: progress.append(step)).equal
        assert progress[-1] == (f"{orders.schema}.orders", 4, 4)
    orders.run("update orders set price = 2.51 where id = 3")
    for by in (ROWS, CHECKSUMS):
        assert "1 rows different" in compared(orders, table, Effort(by)).differences


def test_columns_only_in_the_lake_are_listed_but_are_no_difference(
    orders: MariadbDatabase, table: TableOverTime
) -> None:
    orders.run("alter table orders drop column price")
    result = compared(orders, table)
    assert (result.equal, result.only_in_lake) == (True, ("price",))


def test_soft_deleted_rows_are_not_compared(orders: MariadbDatabase, table: TableOverTime) -> None:
    table.item["DeleteMode"] = "soft"
    table.apply(("D", row(2, None)))
    orders.run("delete from orders where id = 2")
    assert compared(orders, table).equal


def test_a_table_that_is_not_in_the_lake_is_reported(orders: MariadbDatabase, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    location = TableLocation.at((tmp_path / "nothing").as_uri(), TABLE)
    with orders.source.snapshot() as now:
        (result,) = [verify(now, one, location) for one in now.tables]
    assert (result.change, result.source_rows, result.differences) == (None, 2, ("there is no lake table",))


def test_the_command_exits_with_status_6_if_a_table_differs(orders: MariadbDatabase, table: TableOverTime) -> None:
    result = command(orders, table)
    assert result.exit_code == 6, result.output
    (line,) = result.stdout.splitlines()
    record = json.loads(line)
    assert (record["table"], record["equal"], record["change"]) == (f"{orders.schema}.orders", False, None)
    assert "1 of 1 tables differ from their source" in result.stderr


def test_expected_counts_need_no_database(table: TableOverTime) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(assembled(), ["verify", "--lake-bucket", table.location, *arguments])

    assert run("--expect", f"{TABLE}=2").exit_code == 0
    different = run("--expect", f"{TABLE}=3")
    assert (different.exit_code, "2 rows in the lake, 3 expected" in different.output) == (6, True)
    assert run("--expect", TABLE).exit_code == 2
    assert "no changes of shop.a=b" in run("--expect", "shop.a=b=2").output
    assert run().exit_code == 2
    assert run("--expect", f"{TABLE}=2", TABLE).exit_code == 2


def test_a_table_of_postgresql_is_compared_with_the_types_of_its_settings(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.run("create schema shop", "create table shop.orders (id int primary key, paid boolean)")
    postgres.run("insert into shop.orders values (1, true), (2, null)")
    table = TableOverTime(tmp_path, pa.schema([("id", pa.int32()), ("paid", pa.bool_())]), {"PrimaryKey": "id"})
    table.load([{"id": 1, "paid": True}, {"id": 2, "paid": None}])
    as_boolean = command(postgres, table, "--set", "MapBooleanAsBoolean=true")
    assert json.loads(as_boolean.stdout)["equal"]
    difference = json.loads(command(postgres, table).stdout)["difference"]
    assert difference == "column paid is boolean in the lake and string in the source"


@dataclass
class RowsOfSource:
    """A source with one table of these rows."""

    all_rows: pa.Table
    is_consistent: bool = True
    integers_alike: bool = False

    @property
    def table(self) -> SourceTable:
        columns: Any = tuple(Column(one) for one in self.all_rows.schema)
        return SourceTable(TableName("shop", "orders"), columns, ("id",), "", ("",) * len(columns), "")

    def count(self, _table: object) -> int:
        return int(self.all_rows.num_rows)

    def rows(self, table: SourceTable, _batch_rows: int) -> Iterator[pa.Table]:
        yield self.all_rows.select(table.schema.names)


class Column(NamedTuple):
    """A column of such a source."""

    field: pa.Field

    @property
    def name(self) -> str:
        return str(self.field.name)


def test_the_source_is_compared_as_a_column_policy_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv(HASH_SECRET_VARIABLE, secret)
    item = {"PrimaryKey": "id", "ColumnPolicy": "hash id, exclude city, truncate price 3"}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(1), row(2, None), row(3, "Köln", "2.55")])

    def differences(*rows: dict[str, Any]) -> tuple[str, ...]:
        source: Any = RowsOfSource(pa.Table.from_pylist(list(rows), COLUMNS))
        location = TableLocation.at(table.location, TABLE)
        result = verify(source, source.table, location, secret=secret.encode())
        assert (result.compared_by, result.rows_read) == (ROWS, len(rows))
        return result.differences

    assert differences(row(1, "Rom"), row(2), row(3, price="2.59")) == ()
    assert any("1 rows missing" in one for one in differences(row(1), row(2), row(4, price="2.55")))
    assert any("1 rows different" in one for one in differences(row(1), row(2), row(3, price="2.65")))
    with pytest.raises(ConfigurationError, match="another secret"):
        secret = secret[::-1]
        differences(row(1))
