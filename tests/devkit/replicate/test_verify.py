"""Lake tables are held against a real database, every value of every row, or counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.lake.over_time import TABLE, TableOverTime
from typer.testing import CliRunner

from cdclake.cli.main import app
from cdclake.cli.source_database import PASSWORD_VARIABLE
from cdclake.devkit.replicate import compare_parts
from cdclake.devkit.replicate.verify import Verified, verify
from cdclake.lake.read.as_of import TableLocation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.devkit.replicate.source import Source

    from cdclake.model.table import TableName

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
def orders(source: Source) -> Source:
    """A database with the same rows in its table `orders`."""
    source.run("create table orders (id int primary key, city varchar(50), price decimal(10,2))")
    source.run("insert into orders values (2, null, 1.50), (3, 'Bonn', 2.50)")
    return source


def compared(source: Source, table: TableOverTime, **options: Any) -> Verified:
    def place_of(name: TableName) -> TableLocation:
        assert str(name) == f"{source.schema}.orders"
        return TableLocation.at(table.location, TABLE)

    (found,) = verify(source.account, source.schema, place_of, ["orders"], **options)
    return found


def test_equal_tables_are_equal(orders: Source, table: TableOverTime) -> None:
    found = compared(orders, table)
    assert (found.equal, found.change, found.lake_rows, found.source_rows) == (True, 2, 2, 2)
    assert compared(orders, table, counts_only=True).equal


def test_each_kind_of_difference_is_found(orders: Source, table: TableOverTime) -> None:
    orders.run("update orders set price = 2.51 where id = 3")
    orders.run("insert into orders values (4, 'Rom', 1.00)")
    found = compared(orders, table)
    assert not found.equal
    assert {"1 rows missing", "1 rows different"} <= set(found.differences)
    assert any("2.51" in difference for difference in found.differences)
    counted = compared(orders, table, counts_only=True)
    assert counted.differences == ("2 rows in the lake, 3 in the source",)


def test_a_table_of_many_parts_is_compared_part_by_part(
    orders: Source, table: TableOverTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_parts, "PART_ROWS", 1)
    told: list[tuple[str, int, int]] = []
    assert compared(orders, table, told=lambda *step: told.append(step)).equal
    assert told[-1] == (f"{orders.schema}.orders", 4, 4)
    orders.run("update orders set price = 2.51 where id = 3")
    assert "1 rows different" in compared(orders, table).differences


def test_columns_that_only_the_lake_has_are_named_and_no_difference(orders: Source, table: TableOverTime) -> None:
    orders.run("alter table orders drop column price")
    found = compared(orders, table)
    assert (found.equal, found.only_in_lake) == (True, ("price",))


def test_rows_that_were_deleted_softly_do_not_count(orders: Source, table: TableOverTime) -> None:
    table.item["DeleteMode"] = "soft"
    table.apply(("D", row(2, None)))
    orders.run("delete from orders where id = 2")
    assert compared(orders, table).equal


def test_a_table_that_is_not_in_the_lake_is_told(orders: Source, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    place = TableLocation.at((tmp_path / "nothing").as_uri(), TABLE)
    (found,) = verify(orders.account, orders.schema, lambda _: place)
    assert (found.change, found.source_rows, found.differences) == (None, 2, ("there is no lake table",))


def test_the_command_ends_with_6_if_something_differs(orders: Source, table: TableOverTime) -> None:
    account = orders.account
    arguments = ["verify", orders.schema, "--user", str(account.user), "--socket", account.socket]
    arguments += ["--lake-bucket", table.location, "-o", "json"]
    environment = {PASSWORD_VARIABLE: account.password, "AWS_DEFAULT_REGION": "eu-central-1"}
    result = CliRunner().invoke(app, arguments, env=environment)
    assert result.exit_code == 6, result.output
    (line,) = result.stdout.splitlines()
    told = json.loads(line)
    assert (told["table"], told["equal"], told["change"]) == (f"{orders.schema}.orders", False, None)
    assert "1 of 1 tables are not equal to their source" in result.stderr


def test_expected_counts_need_no_database(table: TableOverTime) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["verify", "--lake-bucket", table.location, *arguments])

    assert run("--expect", f"{TABLE}=2").exit_code == 0
    different = run("--expect", f"{TABLE}=3")
    assert (different.exit_code, "2 rows in the lake, 3 expected" in different.output) == (6, True)
    assert run("--expect", TABLE).exit_code == 2
    assert "no changes of shop.a=b" in run("--expect", "shop.a=b=2").output
    assert run().exit_code == 2
