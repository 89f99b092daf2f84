"""The sample database's scripts run on a real server, and their raw files contain all changes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from pymysql.constants import CLIENT

from cdclake_cli.sources.mysql.connection import connect
from cdclake_devkit.shop.shop_database import DATABASE, sql_files
from tests.cdclake_cli.sources.source_database import MariadbDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_devkit.shop.mariadb import PrivateMariadb

pytestmark = pytest.mark.database

TABLES = ("product", "productorder", "stock", "store")


@pytest.fixture
def shop(mariadb: PrivateMariadb) -> Iterator[MariadbDatabase]:
    with MariadbDatabase(mariadb.connection_options, DATABASE) as source:
        execute(source, "schema.sql")
        yield source


def execute(source: MariadbDatabase, script: str, before: str = "") -> None:
    text = (sql_files() / script).read_text(encoding="utf-8").replace("do sleep(4);", "")
    connection = connect(source.connection_options, client_flag=CLIENT.MULTI_STATEMENTS, database=source.schema)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(before + text)
        while cursor.nextset():
            pass


def counts(source: MariadbDatabase) -> list[int]:
    return [int(source.query(f"select count(*) from {table}")[0][0]) for table in TABLES]


def test_the_raw_files_of_all_scripts_reproduce_the_database(shop: MariadbDatabase):
    execute(shop, "rows.sql")
    assert counts(shop) == [1000, 900, 300, 8]
    shop.replicate()
    execute(shop, "changes.sql")
    shop.replicate()
    assert counts(shop) == [999, 900 + 1345, 300, 9]
    execute(shop, "untidy.sql")
    shop.replicate()
    for table in TABLES:
        assert shop.merged(table) == shop.rows(table)
        assert {row["Op"] for row in shop.changed(table)} == {"I", "U", "D"}
    assert not [
        row for row in shop.changed("productorder") if row["note"] in ("never ordered", "after it", "taken back")
    ]


def test_the_changes_script_makes_the_changes_of_the_walkthrough(shop: MariadbDatabase):
    execute(shop, "rows.sql")
    shop.replicate()
    execute(shop, "changes.sql")
    shop.replicate()
    product = [(row["Op"], row["id"], row["name"]) for row in shop.changed("product")]
    assert product == [("U", 1001, "Sample Product"), ("D", 1002, "Product 1002")]
    assert [tuple(row.values())[2:8] for row in shop.changed("store")] == [
        (1009, "125 Technology Dr.", "Irvine", "CA", "US", "92618")
    ]
    orders = shop.changed("productorder")
    assert len(orders) == 1345
    assert {row["Op"] for row in orders} == {"I"}
    ((today,),) = shop.query("select current_date")
    assert {row["orderdate"] for row in orders} == {today}


def test_the_same_number_of_orders_produces_the_same_rows(shop: MariadbDatabase):
    def rows() -> dict[str, list[object]]:
        shop.run(*(f"delete from {table}" for table in TABLES))
        execute(shop, "rows.sql", "set @orders = 2500;")
        with shop.source.snapshot() as now:
            return {table.name.table: [batch.to_pylist() for batch in now.rows(table)] for table in now.tables}

    first = rows()
    assert first == rows()
    assert counts(shop) == [1000, 2500, 300, 8]
    days = shop.query("select count(*) from productorder group by orderdate")
    assert (len(days), min(days), max(days)) == (90, (27,), (28,))


def test_the_procedure_appends_the_requested_number_of_orders(shop: MariadbDatabase):
    shop.run(
        "call loadorders(1, '2024-01-01')", "call loadorders(0, '2024-01-01')", "call loadorders(2001, '2024-01-02')"
    )
    assert shop.query("select count(*), min(id), max(id), count(distinct orderdate) from productorder") == (
        (2002, 1, 2002, 2),
    )
