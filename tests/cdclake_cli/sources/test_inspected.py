"""SQLAlchemy reads the catalogs of databases that cdclake has no code for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.sources.catalog import CatalogColumn, UniqueIndex
from cdclake_cli.sources.inspected.catalog import InspectedCatalog, read_tables, sent_type
from cdclake_cli.sources.inspected.connection import Login
from cdclake_cli.sources.url import open_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase

sqlalchemy = pytest.importorskip("sqlalchemy")


def test_a_catalog_has_keys_unique_indexes_and_types(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with sqlalchemy.create_engine(url).begin() as connection:
        for statement in (
            "create table items (nr bigint, line smallint, price decimal(9, 2), odd geometry, primary key (line, nr))",
            "create table tags (tag varchar(9) not null, place integer, constraint by_place unique (place))",
            "create unique index by_tag on tags (tag)",
            "create unique index partly on tags (tag) where place > 1",
            "create unique index computed on tags (lower(tag))",
            "create view seen as select nr from items",
        ):
            connection.exec_driver_sql(statement)
    catalog = open_catalog(url, socket="", option_file=None)
    items, tags = catalog.tables(["main.*"])
    assert (items.name, items.key, items.unique_checks) == (TableName("main", "items"), ("line", "nr"), "")
    assert items.columns[0] == CatalogColumn("nr", "BIGINT", "bigint", nullable=False)
    assert [column.type for column in items.columns] == ["bigint", "smallint", "decimal(9,2)", None]
    assert set(tags.unique) == {UniqueIndex("by_place", ("place",)), UniqueIndex("by_tag", ("tag",))}
    assert [index.name for index in tags.usable_indexes] == ["by_tag"]
    assert [one.name.table for one in catalog.tables()] == ["items", "tags"]
    assert catalog.tables(["other.*"]) == ()


@pytest.mark.database
@pytest.mark.parametrize("engine", ["mariadb", "postgresql"])
def test_it_reads_the_same_as_the_code_for_one_database(engine: str, request: pytest.FixtureRequest) -> None:
    fixture = {"mariadb": "mariadb_database", "postgresql": "postgres"}[engine]
    database: MariadbDatabase | PostgresDatabase = request.getfixturevalue(fixture)
    database.run(
        "create table orders (line smallint, id bigint, price decimal(9, 2), note varchar(20), primary key (id, line))",
        "create table tags (tag varchar(9) not null)",
        "create unique index by_tag on tags (tag)",
    )
    options = database.connection_options
    where = f"unix_socket={options.socket}" if engine == "mariadb" else f"host={options.socket}&port={options.port}"
    driver = {"mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg2"}[engine]
    name = getattr(database, "database", database.schema)
    inspected = InspectedCatalog(Login(f"{driver}://{options.user}@/{name}?{where}", options.password))
    own: Any = database.source
    for ours, theirs in zip(own.catalog.tables(), inspected.tables([f"{database.schema}.*"]), strict=True):
        assert (ours.name, ours.key, ours.unique) == (theirs.name, theirs.key, theirs.unique)
        assert [(c.name, c.type, c.nullable) for c in ours.columns] == [
            (c.name, c.type, c.nullable) for c in theirs.columns
        ]


class OracleInspector:
    """What SQLAlchemy's inspector answers for tables `SHOP.ORDERS` and `SHOP."Tags"` of Oracle."""

    default_schema_name = "reader"

    def __init__(self) -> None:
        self.dialect = import_module("sqlalchemy.dialects.oracle").dialect()

    def get_schema_names(self) -> list[str]:
        return ["hr", "reader", "shop"]

    def get_table_names(self, schema: str) -> list[str]:
        return ["orders", "Tags"] if schema == "shop" else []

    def get_multi_columns(self, **chosen: Any) -> dict[Any, Any]:
        types = import_module("sqlalchemy.dialects.oracle")
        number, text = types.NUMBER(12, 0), types.VARCHAR(20)
        orders = [
            {"name": "id", "type": number, "nullable": False, "comment": "counts"},
            {"name": "Note", "type": text, "nullable": True},
        ]
        tags = [{"name": "tag", "type": text, "nullable": False}]
        return self.chosen(chosen, orders=orders, Tags=tags)

    def get_multi_pk_constraint(self, **chosen: Any) -> dict[Any, Any]:
        return self.chosen(chosen, orders={"constrained_columns": ["id"]}, Tags={"constrained_columns": []})

    def get_multi_indexes(self, **chosen: Any) -> dict[Any, Any]:
        computed = {"name": "computed", "column_names": [None], "expressions": ["upper(tag)"], "unique": True}
        by_tag = {
            "name": "by_tag",
            "column_names": ["tag"],
            "unique": True,
            "dialect_options": {"oracle_bitmap": False},
        }
        slow = {"name": "slow", "column_names": ["tag"], "unique": False}
        return self.chosen(chosen, orders=[], Tags=[computed, slow, by_tag])

    def get_multi_unique_constraints(self, **chosen: Any) -> dict[Any, Any]:
        return self.chosen(chosen, orders=[], Tags=[])

    def get_multi_table_comment(self, **chosen: Any) -> dict[Any, Any]:
        return self.chosen(chosen, orders={"text": "what was sold"}, Tags={"text": None})

    def chosen(self, chosen: dict[str, Any], **tables: Any) -> dict[Any, Any]:
        return {(chosen["schema"], name): tables[name] for name in chosen["filter_names"]}


def test_names_of_oracle_are_as_the_database_and_dms_spell_them() -> None:
    inspector: Any = OracleInspector()
    tags, orders = sorted(read_tables(inspector, ["SHOP.*"]), key=lambda table: len(table.columns))
    assert (orders.name, orders.key, orders.comment) == (TableName("SHOP", "ORDERS"), ("ID",), "what was sold")
    assert [(column.name, column.type) for column in orders.columns] == [("ID", "decimal(12,0)"), ("Note", "string")]
    assert (tags.name, tags.unique, tags.unique_checks) == (
        TableName("SHOP", "Tags"),
        (UniqueIndex("by_tag", ("TAG",)),),
        "deferred",
    )
    assert [str(one.name) for one in read_tables(inspector, ["*.ORD*"])] == ["SHOP.ORDERS"]
    assert read_tables(inspector, []) == ()  # of the user's own schema


def type_of(dialect: str, name: str, *arguments: Any, **named: Any) -> str | None:
    types = import_module(f"sqlalchemy.dialects.{dialect}")
    return sent_type(getattr(types, name)(*arguments, **named), dialect)


@pytest.mark.parametrize(
    ("kind", "arguments", "named", "expected"),
    [
        ("NUMBER", (12, 2), {}, "decimal(12,2)"),
        ("NUMBER", (9, 0), {}, "decimal(9,0)"),
        ("NUMBER", (), {}, None),
        ("NUMBER", (5, -2), {}, None),
        ("DATE", (), {}, "timestamp"),
        ("TIMESTAMP", (), {}, "timestamp"),
        ("TIMESTAMP", (), {"timezone": True}, "string"),
        ("TIMESTAMP", (), {"local_timezone": True}, None),
        ("VARCHAR", (20,), {}, "string"),
        ("RAW", (16,), {}, "binary"),
        ("CLOB", (), {}, "string"),
        ("BINARY_FLOAT", (), {}, "float"),
        ("BFILE", (), {}, None),
    ],
)
def test_types_of_oracle(kind: str, arguments: tuple[Any, ...], named: dict[str, Any], expected: str | None) -> None:
    assert type_of("oracle", kind, *arguments, **named) == expected


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("TINYINT", (), "smallint"),
        ("BIT", (), "boolean"),
        ("MONEY", (), "decimal(19,4)"),
        ("DATETIME2", (), "timestamp"),
        ("DATETIMEOFFSET", (), "string"),
        ("UNIQUEIDENTIFIER", (), "string"),
        ("DECIMAL", (38, 10), "decimal(38,10)"),
        ("DATE", (), "date"),
        ("SQL_VARIANT", (), None),
    ],
)
def test_types_of_sql_server(kind: str, arguments: tuple[Any, ...], expected: str | None) -> None:
    assert type_of("mssql", kind, *arguments) == expected


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCLAKE_SOURCE_PASSWORD", "secret")
    for url in ("oracle+oracledb://reader@db/?service_name=shop", "nosuch://reader@db/"):
        with pytest.raises(ConfigurationError, match="driver") as refused:
            open_catalog(url, socket="", option_file=None).tables()
        assert "secret" not in str(refused.value)


def test_an_error_of_the_database_has_no_password(tmp_path: Path) -> None:
    catalog = InspectedCatalog(Login(f"sqlite:///{tmp_path}/secret/shop.db", "secret"))
    with pytest.raises(ConfigurationError) as refused:
        catalog.tables()
    assert "secret" not in str(refused.value)
