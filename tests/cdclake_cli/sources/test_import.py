"""`cdclake import` proposes the configuration of real databases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cdclake.adapters.folder import FolderStore
from cdclake.model.table.name import TableName
from cdclake_cli.config.read import read_config
from cdclake_cli.doctor.dms.setting import Source
from cdclake_cli.doctor.dms.templates import Choices
from tests.cdclake_cli.sources.source_database import WITH_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase

    Cdclake = Any


def import_of(cdclake: Cdclake, database: Any, raw: Path, file: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Import the tables of a database and its raw files; returns their settings by name."""
    options = database.connection_options
    url = f"{database.engine}://{options.user}@:{options.port or 3306}/{getattr(database, 'database', database.schema)}"
    where = ("--source", url, "--socket", options.socket, "--raw-bucket", raw.as_uri(), "--to", str(file))
    environment = {"CDCLAKE_SOURCE_PASSWORD": options.password or ""}
    names = [record["table"] for record in cdclake.records("import", *where, *arguments, **environment)]
    config = read_config(file, {})
    return {name: config.settings_of(TableName.parse(name)) or {} for name in names}


def test_a_mariadb_database_gives_keys_and_its_raw_files_the_rest(
    cdclake: Cdclake, mariadb_database: MariadbDatabase, tmp_path: Path
) -> None:
    mariadb_database.run(
        "create table orders (nr int, line int, at datetime, primary key (nr, line)) comment 'what was sold'",
        "insert into orders values (1, 1, '2024-03-05 10:00:00'), (1, 2, null)",
        "create table tags (tag varchar(9), n int, unique by_tag (tag))",
        "insert into tags values ('a', 1), ('b', 1)",
    )
    raw, file = tmp_path / "raw", tmp_path / "cdclake.yml"
    raw.mkdir()
    mariadb_database.replication(WITH_KEYS, raw=FolderStore(raw)).run(lambda: False, until_now=True)
    imported = import_of(cdclake, mariadb_database, raw, file)
    schema = mariadb_database.schema
    assert imported[f"{schema}.orders"] == {"UniqueChecks": "immediate", "PrimaryKey": "nr,line"}
    assert imported[f"{schema}.tags"] == {"UniqueChecks": "immediate"}
    text = file.read_text()
    assert "# what was sold" in text
    assert "# no primary key; unique index by_tag; tag may be null\n    # PrimaryKey: tag\n" in text


def test_a_postgresql_database_gives_what_its_log_lacks_and_types_of_csv_files(
    cdclake: Cdclake, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.run(
        "create table orders (id bigint primary key, note text not null, price numeric(9, 2), raw bytea)",
        "insert into orders values (1, 'first', 9.5, '\\x00'), (2, 'second', null, null)",
    )
    mappings = tmp_path / "mappings.json"
    mappings.write_text(json.dumps(Choices(Source.POSTGRES, schema="public").cli_files["table-mappings.json"]))
    arguments = ("--no-files", "--mappings", str(mappings), "--set", "TimestampColumnName=ts")
    imported = import_of(cdclake, postgres, tmp_path, tmp_path / "cdclake.yml", *arguments)
    assert imported["public.orders"] == {
        "PrimaryKey": "id",
        "UniqueChecks": "immediate",
        "NullMeansUnsent": "note",
        "AddColumnName": "false",
        "Schema": "ts string, id bigint, note string, price decimal(9,2), raw string, AR_H_CHANGE_SEQ string,"
        " BI_id string",
    }
