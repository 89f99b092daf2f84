"""Catalogs of source databases tell keys, unique indexes, types and comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.dms.settings import DmsSettings
from cdclake_cli.sources.catalog import UniqueIndex, is_chosen
from cdclake_cli.sources.mysql.catalog import MysqlCatalog
from cdclake_cli.sources.postgres.catalog import PostgresCatalog
from cdclake_cli.sources.url import open_catalog, open_source

if TYPE_CHECKING:
    from cdclake_cli.sources.catalog import CatalogTable
    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase


def types(table: CatalogTable) -> dict[str, str | None]:
    return {column.name: column.type for column in table.columns}


def nullable(table: CatalogTable) -> set[str]:
    return {column.name for column in table.columns if column.nullable}


def test_mariadb_tells_keys_types_and_comments(mariadb_database: MariadbDatabase) -> None:
    schema = mariadb_database.schema
    mariadb_database.run(
        "create table orders (nr int unsigned, line smallint, at datetime(6) comment 'when placed', doc json,"
        " price decimal(12, 2), raw varbinary(9), wide decimal(40, 2), primary key (line, nr)) comment 'all orders'",
        "create table tags (tag varchar(20) not null, place int, unique by_tag (tag), unique by_place (place, tag))",
        "create view seen as select nr from orders",
    )
    orders, tags = MysqlCatalog(mariadb_database.connection_options, schema).tables()
    assert (orders.name, orders.key, orders.comment) == (TableName(schema, "orders"), ("line", "nr"), "all orders")
    assert types(orders) == {
        "nr": "bigint",
        "line": "smallint",
        "at": "timestamp",
        "doc": "string",
        "price": "decimal(12,2)",
        "raw": "binary",
        "wide": None,
    }
    assert orders.unique == ()
    assert orders.unique_checks == "immediate"
    assert {column.name: column.comment for column in orders.columns}["at"] == "when placed"
    assert (tags.key, nullable(tags)) == ((), {"place"})
    assert set(tags.unique) == {UniqueIndex("by_tag", ("tag",)), UniqueIndex("by_place", ("place", "tag"))}
    assert [index.name for index in tags.usable_indexes] == ["by_tag"]
    chosen = MysqlCatalog(mariadb_database.connection_options).tables([f"{schema}.t*"])
    assert [str(table.name) for table in chosen] == [f"{schema}.tags"]


def test_postgresql_tells_keys_identities_and_values_that_its_log_lacks(postgres: PostgresDatabase) -> None:
    postgres.run(
        "create table orders (id bigint primary key, note text not null, more text, code varchar(9) not null,"
        " amount numeric, done boolean)",
        "comment on table orders is 'all orders'",
        "comment on column orders.note is 'free text'",
        "create table later (id int primary key deferrable, whole text not null)",
        "alter table later replica identity full",
        "create table tags (tag text not null, place int, gone bool)",
        "create unique index by_tag on tags (tag) include (place)",
        "create unique index by_place on tags (place)",
        "create unique index partly on tags (tag) where not gone",
        "create unique index computed on tags (lower(tag))",
        "alter table tags replica identity using index by_tag",
        "create table loose (id int)",
        "create schema other",
        "create table other.orders (id int primary key)",
    )
    catalog = PostgresCatalog(postgres.connection_options, postgres.database)
    later, loose, orders, tags = catalog.tables(["public.*"])
    assert (orders.key, orders.comment, orders.unique_checks) == (("id",), "all orders", "immediate")
    assert types(orders) == {
        "id": "bigint",
        "note": "string",
        "more": "string",
        "code": "string",
        "amount": "decimal(28,6)",
        "done": "string",
    }
    assert nullable(orders) == {"more", "amount", "done"}
    assert {column.name for column in orders.columns if column.may_be_unsent} == {"note", "more"}
    assert orders.notes == ("DMS sends amount, a numeric without precision, as decimal(28,6), and cuts more digits",)
    assert (later.key, later.unique_checks) == (("id",), "deferred")
    assert not any(column.may_be_unsent for column in later.columns)
    assert set(tags.unique) == {UniqueIndex("by_place", ("place",)), UniqueIndex("by_tag", ("tag",), identifies=True)}
    assert tags.notes == ()
    assert "give it a primary key" in loose.notes[0]
    assert [str(table.name) for table in catalog.tables(["o*.*"])] == ["other.orders"]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [((), True), (("shop.orders",), True), (("shop.*", "x.y"), True), (("*.items",), False), (("Shop.*",), False)],
)
def test_patterns_choose_tables(patterns: tuple[str, ...], chosen: bool) -> None:
    assert is_chosen(TableName("shop", "orders"), patterns) is chosen


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://reader:secret@db/shop", "has a password"),
        ("oracle+oracledb://reader:secret@db/", "has a password"),
        ("postgresql://reader:secret@db:x/shop", "not a URL"),
        ("shop", "not a URL"),
        ("postgresql://reader@db", "names no database"),
    ],
)
def test_urls_that_are_refused_do_not_show_in_the_error(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        open_catalog(url, socket="", option_file=None)
    assert "secret" not in f"{refused.value} {refused.value.__cause__} {refused.value.details}"


def test_a_url_names_user_server_and_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCLAKE_SOURCE_PASSWORD", "secret")
    catalog = open_catalog("mysql://re%40der@db.example.com:3307/shop", socket="", option_file=None)
    assert isinstance(catalog, MysqlCatalog)
    options = catalog.options
    assert (options.user, options.host, options.port, options.password) == ("re@der", "db.example.com", 3307, "secret")
    assert catalog.schema == "shop"
    assert "secret" not in repr(catalog)


def test_a_source_to_compare_with_is_one_database() -> None:
    def opened(url: str) -> Any:
        return open_source(url, DmsSettings(), socket="", option_file=None)

    with pytest.raises(ConfigurationError, match="names no database"):
        opened("mysql://reader@localhost")
    with pytest.raises(ConfigurationError, match=r"shop has no table hr\.people"):
        opened("mysql://reader@localhost/shop").reading([TableName("hr", "people"), TableName("shop", "orders")])
    assert opened("postgresql://reader@localhost/shop").database == "shop"
    with pytest.raises(ConfigurationError, match="--socket"):
        open_source("sqlite:///shop.db", DmsSettings(), socket="/run/s", option_file=None)
