"""The sample database's scripts run on real servers, and their raw files contain all changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import JobRunError
from cdclake_devkit.shop import shop_database
from cdclake_devkit.shop.data import PRODUCT, PRODUCTORDER, STORE
from cdclake_devkit.shop.shop_database import DATABASE, MariadbShop, PostgresqlShop, sql_files
from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake_devkit.shop.mariadb import PrivateMariadb
    from cdclake_devkit.shop.postgresql import PrivatePostgresql

pytestmark = pytest.mark.database

TABLES = ("product", "productorder", "stock", "store")


class ShopInMariadb(MariadbDatabase):
    """The shop's database, which its own scripts fill."""

    def __init__(self, server: PrivateMariadb) -> None:
        super().__init__(server.connection_options, DATABASE)
        self.execute = MariadbShop(server).execute

    def __enter__(self) -> ShopInMariadb:
        super().__enter__()
        self.execute("schema.sql")
        return self


class ShopInPostgres(PostgresDatabase):
    """The shop's database, which its own scripts fill."""

    def __init__(self, server: PrivatePostgresql) -> None:
        super().__init__(server.connection_options, DATABASE)
        self.execute = PostgresqlShop(server).execute
        self.schema = DATABASE

    def __enter__(self) -> ShopInPostgres:
        self.execute("schema.sql")
        self.connection = self.connect()
        return self


Shop = ShopInMariadb | ShopInPostgres


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the scripts, which do not pause."""
    for script in sql_files().rglob("*.sql"):
        copy = tmp_path / script.relative_to(sql_files())
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(script.read_text(encoding="utf-8").replace("sleep(4)", "sleep(0)"))
    monkeypatch.setattr(shop_database, "sql_files", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def mariadb_shop(mariadb: PrivateMariadb, scripts: Path) -> Iterator[ShopInMariadb]:
    with ShopInMariadb(mariadb) as shop:
        yield shop


@pytest.fixture
def postgres_shop(postgresql: PrivatePostgresql, scripts: Path) -> Iterator[ShopInPostgres]:
    with ShopInPostgres(postgresql) as shop:
        yield shop


@pytest.fixture(params=["mariadb_shop", "postgres_shop"])
def shop(request: pytest.FixtureRequest) -> Shop:
    shop: Shop = request.getfixturevalue(request.param)
    return shop


def counts(shop: Shop) -> list[int]:
    return [int(shop.query(f"select count(*) from {table}")[0][0]) for table in TABLES]


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
        shop.execute("rows.sql", {"orders": 2500})
        return {table: repr(shop.rows(table)) for table in TABLES}

    first = rows()
    assert first == rows()
    assert counts(shop) == [1000, 2500, 300, 8]
    days = shop.query("select count(*) from productorder group by orderdate")
    assert (len(days), min(days), max(days)) == (90, (27,), (28,))


def test_the_changes_script_makes_the_changes_of_the_walkthrough(mariadb_shop: ShopInMariadb):
    mariadb_shop.execute("rows.sql")
    mariadb_shop.replicate()
    mariadb_shop.execute("changes.sql")
    mariadb_shop.replicate()
    product = [(row["Op"], row["id"], row["name"]) for row in mariadb_shop.changed("product")]
    assert product == [("U", 1001, "Sample Product"), ("D", 1002, "Product 1002")]
    assert [tuple(row.values())[2:8] for row in mariadb_shop.changed("store")] == [
        (1009, "125 Technology Dr.", "Irvine", "CA", "US", "92618")
    ]
    orders = mariadb_shop.changed("productorder")
    assert len(orders) == 1345
    assert {row["Op"] for row in orders} == {"I"}
    ((today,),) = mariadb_shop.query("select current_date")
    assert {row["orderdate"] for row in orders} == {today}


def test_the_procedure_appends_the_requested_number_of_orders(mariadb_shop: ShopInMariadb):
    for count, day in ((1, 1), (0, 1), (2001, 2)):
        mariadb_shop.run(f"call loadorders({count}, '2024-01-0{day}')")
    assert mariadb_shop.query("select count(*), min(id), max(id), count(distinct orderdate) from productorder") == (
        (2002, 1, 2002, 2),
    )


def test_the_tables_have_the_columns_of_the_shop_in_memory(postgres_shop: ShopInPostgres):
    with postgres_shop.source.snapshot() as now:
        columns = {table.name.table: [column.name for column in table.columns] for table in now.tables}
    assert tuple(columns) == TABLES
    for table, schema in {"store": STORE, "product": PRODUCT, "productorder": PRODUCTORDER}.items():
        assert columns[table] == schema.names


def test_a_failing_script_is_an_error(postgres_shop: ShopInPostgres, scripts: Path):
    (scripts / "postgres" / "again.sql").write_text("create schema shop;")
    with pytest.raises(JobRunError, match=r'psql failed.*"shop" already exists.*again.sql'):
        postgres_shop.execute("again.sql")
