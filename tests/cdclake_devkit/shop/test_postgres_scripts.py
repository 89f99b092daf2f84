"""The scripts for PostgreSQL run on a real server, and their raw files contain all changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import JobRunError
from cdclake_devkit.shop import shop_database
from cdclake_devkit.shop.data import PRODUCT, PRODUCTORDER, STORE
from cdclake_devkit.shop.shop_database import DATABASE, PostgresqlShop, sql_files
from tests.cdclake_cli.sources.source_database import PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake_devkit.shop.postgresql import PrivatePostgresql

pytestmark = pytest.mark.database

TABLES = ("product", "productorder", "stock", "store")


class Shop(PostgresDatabase):
    """The shop's database, which its own scripts fill."""

    def __init__(self, server: PrivatePostgresql) -> None:
        super().__init__(server.connection_options, DATABASE)
        self._shop = PostgresqlShop(server)
        self.schema = DATABASE

    def __enter__(self) -> Shop:
        self.execute("schema.sql")
        self.connection = self.connect()
        return self

    def execute(self, script: str, **variables: int) -> None:
        self._shop.execute(script, variables)


@pytest.fixture
def shop(postgresql: PrivatePostgresql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    scripts = tmp_path / "postgres"
    scripts.mkdir()
    for script in (sql_files() / "postgres").glob("*.sql"):
        (scripts / script.name).write_text(script.read_text(encoding="utf-8").replace("pg_sleep(4)", "pg_sleep(0)"))
    monkeypatch.setattr(shop_database, "sql_files", lambda: tmp_path)
    with Shop(postgresql) as source:
        yield source


def counts(source: Shop) -> list[int]:
    return [int(source.query(f"select count(*) from {table}")[0][0]) for table in TABLES]


def test_the_raw_files_of_all_scripts_reproduce_the_database(shop: Shop):
    shop.execute("rows.sql")
    assert counts(shop) == [1000, 900, 300, 8]
    shop.replicate()
    shop.execute("changes.sql")
    shop.replicate()
    assert counts(shop) == [999, 900 + 1345, 300, 9]
    shop.execute("untidy.sql")
    shop.replicate()
    for table in TABLES:
        assert repr(shop.merged(table)) == repr(shop.rows(table))  # NaN is not equal to itself
        assert {row["Op"] for row in shop.changed(table)} == {"I", "U", "D"}
    notes = {row["note"] for row in shop.changed("productorder")}
    assert not notes & {"never ordered", "after it", "taken back"}


def test_the_same_number_of_orders_produces_the_same_rows(shop: Shop):
    def rows() -> dict[str, str]:
        shop.run(*(f"delete from {table}" for table in TABLES))
        shop.execute("rows.sql", orders=2500)
        return {table: repr(shop.rows(table)) for table in TABLES}

    first = rows()
    assert first == rows()
    assert counts(shop) == [1000, 2500, 300, 8]
    days = shop.query("select count(*) from productorder group by orderdate")
    assert (len(days), min(days), max(days)) == (90, (27,), (28,))


def test_the_tables_have_the_columns_of_the_shop_in_memory(shop: Shop):
    with shop.source.snapshot() as now:
        columns = {table.name.table: [column.name for column in table.columns] for table in now.tables}
    assert tuple(columns) == TABLES
    for table, schema in {"store": STORE, "product": PRODUCT, "productorder": PRODUCTORDER}.items():
        assert columns[table] == schema.names


def test_a_failing_script_is_an_error(shop: Shop):
    (shop_database.sql_files() / "postgres" / "again.sql").write_text("create schema shop;")
    with pytest.raises(JobRunError, match=r'psql failed.*"shop" already exists.*again.sql'):
        shop.execute("again.sql")
