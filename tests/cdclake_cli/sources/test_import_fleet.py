"""Tables of three schemas in two databases become lake tables with the settings that `cdclake import` proposes."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from itertools import product
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.folder import FolderStore
from cdclake.model.names import STATE_TABLE
from cdclake_cli.dms.settings import DataFormat
from cdclake_cli.doctor.dms.recommended import table_mappings
from cdclake_devkit.replicate.service import Replication, ReplicationTask
from tests.builders import LAKE, RAW, FolderInstallation
from tests.cdclake_cli.sources.source_database import WITH_KEYS, MariadbDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_devkit.replicate.source import LoggedSource
    from tests.cdclake_cli.sources.source_database import PostgresDatabase, TestDatabase

    Cdclake = Any

BUCKETS = (("raw-bucket", RAW), ("lake-bucket", LAKE))

pytestmark = [pytest.mark.database, pytest.mark.aws, pytest.mark.long]

TABLES_OF_A_SCHEMA = 10
REVIEWED = "  ActiveFlag: true\n  FullLoadQuietMinutes: 0\n"
KEYS = ("primary key (id)", "primary key (id, line)", "primary key (code, id)", "constraint {}_key unique (code)")
COLUMNS = "id int not null, line smallint not null, code varchar(9) not null, note text not null, price decimal(9, 2)"
IDENTITY = "alter table {0}.{1} replica identity using index {1}_key"


def created(schemas: list[str], after: str = "") -> Iterator[str]:
    """Statements that create the tables.

    Args:
        after: A further statement for tables without a primary key.
    """
    rows = ", ".join(f"({row}, {row % 3}, 'c{row}', 'n,{row}', {row}.5)" for row in range(9))
    for schema, number in product(schemas, range(TABLES_OF_A_SCHEMA)):
        name, key = f"t{number:02d}", KEYS[number % len(KEYS)]
        yield f"create table {schema}.{name} ({COLUMNS}, {key.format(name)})"
        yield f"insert into {schema}.{name} values {rows}"
        if after and "unique" in key:
            yield after.format(schema, name)


def changed(schemas: list[str]) -> Iterator[str]:
    for schema, number in product(schemas, range(TABLES_OF_A_SCHEMA)):
        table = f"{schema}.t{number:02d}"
        yield f"update {table} set price = null where id = 3"
        yield f"delete from {table} where id = 4"
        yield f"update {table} set id = 90 where id = 5"


class Lake:
    """A raw bucket and a lake in folders, with their state table in DynamoDB.

    Args:
        database: The server's login, as `cdclake` takes it.
    """

    def __init__(self, cdclake: Cdclake, root: Path, database: TestDatabase) -> None:
        self.cdclake, self.root, self.options = cdclake, root, database.connection_options
        self.installation = FolderInstallation(root)
        client = boto3.client("dynamodb")
        create_state_table(client, STATE_TABLE)
        states = DynamoState(client, STATE_TABLE)
        self.installation.states = states  # type: ignore[assignment] # any state store will do
        self.raw, self.lake = ((f"--{kind}", (root / name).as_uri()) for kind, name in BUCKETS)

    def replicate(self, settings: DmsSettings, *sources: LoggedSource) -> None:
        for source in sources:
            replication = Replication(ReplicationTask((), settings), source, FolderStore(self.root / RAW), utc_now)
            replication.run(lambda: False, until_now=True)

    def load(self, url: str, schemas: list[str], *arguments: str) -> None:
        """Load all tables of schemas with the settings that are proposed, none of which is to judge."""
        file = self.root / "cdclake.yml"
        patterns = [f"{schema}.*" for schema in schemas]
        source = ("--source", url, "--socket", self.options.socket)
        proposed = self.records("import", *patterns, *source, *self.raw, *arguments, "--to", str(file))
        assert len(proposed) == len(schemas) * TABLES_OF_A_SCHEMA
        assert [one for one in proposed if one["unsure"] or one["remarks"]] == []
        file.write_text(file.read_text().replace("defaults:\n", f"defaults:\n{REVIEWED}"))
        applied = ("apply", str(file), "--register", "--unchecked", "--yes")
        self.cdclake.ok(*applied, "--raw-bucket", RAW)
        self.installation.run_controller()

    def differing(self, url: str, *patterns: str) -> list[str]:
        """The tables of a database that differ from it, all of which are compared by checksums."""
        source = ("--source", url, "--socket", self.options.socket)
        compared = self.records("verify", *source, *patterns, "--raw-bucket", RAW, *self.lake)
        assert {one["compared_by"] for one in compared} == {"checksums"}
        return [one["table"] for one in compared if not one["equal"]]

    def records(self, *arguments: str) -> Any:
        return self.cdclake.records(*arguments, CDCLAKE_SOURCE_PASSWORD=self.options.password or "")


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def test_parquet_files_of_mariadb(
    cdclake: Cdclake, aws: Any, mariadb_database: MariadbDatabase, tmp_path: Path
) -> None:
    lake, options = Lake(cdclake, tmp_path, mariadb_database), mariadb_database.connection_options
    with ExitStack() as stack:
        others = [stack.enter_context(MariadbDatabase(options, f"{mariadb_database.schema}{one}")) for one in "ab"]
        databases = [mariadb_database, *others]
        schemas = [one.schema for one in databases]
        for statements in (created, changed):
            mariadb_database.run(*statements(schemas))
            lake.replicate(WITH_KEYS, *(one.source for one in databases))
        url = f"mysql://{options.user}@/"
        lake.load(url, schemas)
        assert [lake.differing(f"{url}{schema}", f"{schema}.*") for schema in schemas] == [[], [], []]


def test_csv_files_of_postgresql(cdclake: Cdclake, aws: Any, postgres: PostgresDatabase, tmp_path: Path) -> None:
    lake, options = Lake(cdclake, tmp_path, postgres), postgres.connection_options
    schemas, settings = ["hr", "sales", "stock"], replace(WITH_KEYS, data_format=DataFormat.CSV)
    postgres.run(*(f"create schema {schema}" for schema in schemas))
    for statements in (created(schemas, IDENTITY), changed(schemas)):
        postgres.run(*statements)
        lake.replicate(settings, postgres.source)
    mappings = tmp_path / "mappings.json"
    mappings.write_text(json.dumps(table_mappings("%")))
    dms = ("--mappings", str(mappings), "--set", f"TimestampColumnName={settings.timestamp_column_name}")
    url = f"postgresql://{options.user}@:{options.port}/{postgres.database}"
    lake.load(url, schemas, *dms)
    assert lake.differing(url) == []
