"""A source database for a test, and its replication to a raw bucket in memory.

Only the replication has a real database as its source.
"""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.parquet as pq

from cdclake.model.raw.files import RawKind, raw_files
from cdclake_cli.dms.settings import BeforeImages, DataFormat, DmsSettings
from cdclake_cli.sources.mysql import connection as mysql
from cdclake_cli.sources.mysql.types import quoted_identifier
from cdclake_cli.sources.postgres import connection as postgres
from cdclake_cli.sources.postgres.types import TypeMapping
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.oracle import ChangeRow, merge
from cdclake_devkit.replicate.mysql.source import BinlogSource
from cdclake_devkit.replicate.postgres.log import wait_until_unused
from cdclake_devkit.replicate.postgres.source import WalSource
from cdclake_devkit.replicate.service import Replication, ReplicationTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.ports import ObjectStore
    from cdclake_devkit.replicate.progress import ReplicationProgress
    from cdclake_devkit.replicate.source import LoggedSource

PARQUET = DmsSettings(data_format=DataFormat.PARQUET, timestamp_column_name="sent", header_columns=("AR_H_CHANGE_SEQ",))
WITH_KEYS = replace(PARQUET, before_images=BeforeImages.PRIMARY_KEY)


class TestDatabase(ABC):
    """A database that exists for the duration of the `with` block.

    Args:
        schema: Schema of tables that are named without one.

    Attributes:
        raw: The raw bucket that `replicate` writes to by default.
    """

    __test__ = False
    engine: ClassVar[str]
    connection: Any
    connection_options: Any

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.raw: ObjectStore = MemoryStore()

    @property
    @abstractmethod
    def source(self) -> LoggedSource:
        """The database, as a source."""

    @abstractmethod
    def connect(self) -> Any:
        """A further connection, with the same default schema."""

    @abstractmethod
    def fill(self, table: str, rows: int) -> None:
        """Insert rows `(n, n)`, from 1 on."""

    def run(self, *statements: str) -> None:
        """Execute statements, each of which is committed at once unless one of them begins a transaction."""
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def query(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())

    def replication(
        self, settings: DmsSettings = WITH_KEYS, *, only: tuple[str, ...] = (), raw: ObjectStore | None = None
    ) -> Replication:
        task = ReplicationTask(only, settings)
        return Replication(task, self.source, self.raw if raw is None else raw, lambda: datetime.now(timezone.utc))

    def replicate(self, settings: DmsSettings = WITH_KEYS, *, only: tuple[str, ...] = ()) -> ReplicationProgress:
        """Run the full load if there was none, then replicate all changes up to now."""
        return self.replication(settings, only=only).run(lambda: False, until_now=True)

    @contextmanager
    def replicating(self, settings: DmsSettings = WITH_KEYS) -> Iterator[None]:
        """Replicate all changes for the duration of the `with` block."""
        stop = threading.Event()
        thread = threading.Thread(target=self.replication(settings).run, args=(stop.is_set,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def replicate_after(
        self, *statements: str, settings: DmsSettings = WITH_KEYS, only: tuple[str, ...] = ()
    ) -> ReplicationProgress:
        """Run statements, then replicate all changes."""
        self.run(*statements)
        return self.replicate(settings, only=only)

    def changes_by(self, *statements: str, table: str = "t") -> list[tuple[Any, ...]]:
        """`Op`, the source's columns and `BI_id` of the changes by statements, after a full load."""
        self.replicate()
        self.replicate_after(*statements)
        return [tuple(row.values()) for row in without(self.changed(table))]

    def loaded(self, table: str) -> list[dict[str, Any]]:
        """Rows of the full load."""
        return [row for file in self._files(table, RawKind.FULL_LOAD) for row in file]

    def change_files(self, table: str) -> list[list[dict[str, Any]]]:
        """Rows of each change file, in order."""
        return self._files(table, RawKind.CHANGE)

    def changed(self, table: str) -> list[dict[str, Any]]:
        """Rows of all change files, in order."""
        return [row for file in self.change_files(table) for row in file]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The current rows of the database, with the types of the raw files."""
        with self.source.snapshot([table]) as now:
            return [row for batch in now.rows(now.tables[0]) for row in batch.to_pylist()]

    def merged(self, table: str) -> list[dict[str, Any]]:
        """The rows that the raw files produce: the full load and all changes by sequence, ordered by key."""
        with self.source.snapshot([table]) as now:
            columns, key = [column.name for column in now.tables[0].columns], now.tables[0].key
        changes = [
            ChangeRow(
                f"{row['AR_H_CHANGE_SEQ']}|{number:09d}",
                row["Op"],
                {name: row.get(name) for name in columns},
                tuple(row[f"BI_{name}"] for name in key) if row["Op"] == "U" else None,
            )
            for number, row in enumerate(self.changed(table))
        ]
        loaded = [{name: row.get(name) for name in columns} for row in self.loaded(table)]
        merged = [dict(row.row) for row in merge(key, loaded, changes, columns)]
        return sorted(merged, key=lambda row: [row[name] for name in key])

    def _files(self, table: str, kind: RawKind) -> list[list[dict[str, Any]]]:
        folder = f"{self.schema}/{table}/"
        loads, changes, *_ = raw_files(self.raw.list(folder), folder)
        files = loads if kind is RawKind.FULL_LOAD else changes
        return [pq.read_table(io.BytesIO(self.raw.get(file.key) or b"")).to_pylist() for file in files]


class MariadbDatabase(TestDatabase):
    """A new database of a MariaDB server."""

    engine = "mysql"

    def __init__(self, connection_options: mysql.ConnectionOptions, schema: str) -> None:
        super().__init__(schema)
        self.connection_options = connection_options

    def __enter__(self) -> MariadbDatabase:
        self.connection = mysql.connect(self.connection_options)
        self.run(f"create database {quoted_identifier(self.schema)}", f"use {quoted_identifier(self.schema)}")
        return self

    def __exit__(self, *_: object) -> None:
        self.run(f"drop database {quoted_identifier(self.schema)}")
        self.connection.close()

    @property
    def source(self) -> BinlogSource:
        return BinlogSource(self.connection_options, self.schema)

    def connect(self) -> Any:
        return mysql.connect(self.connection_options, database=self.schema)

    def fill(self, table: str, rows: int) -> None:
        self.run(f"insert into {table} select seq, seq from seq_1_to_{rows}")


class PostgresDatabase(TestDatabase):
    """A new database of a PostgreSQL server, with its schema `public`.

    Attributes:
        settings: Settings that change types.
    """

    engine = "postgres"

    def __init__(self, connection_options: postgres.ConnectionOptions, database: str) -> None:
        super().__init__("public")
        self.settings = WITH_KEYS
        self.connection_options = connection_options
        self.database = database

    def __enter__(self) -> PostgresDatabase:
        self._on_server(f'create database "{self.database}"')
        self.connection = self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        with closing(postgres.connect(self.connection_options, "postgres")) as connection:
            slots = "select slot_name from pg_replication_slots where database = %s"
            for (slot,) in postgres.query(connection, slots, (self.database,)):
                wait_until_unused(connection, slot)
                postgres.query(connection, "select pg_drop_replication_slot(%s)", (slot,))
        self._on_server(f'drop database "{self.database}" with (force)')

    @property
    def source(self) -> WalSource:
        return WalSource(self.connection_options, self.database, TypeMapping.from_settings(self.settings))

    def connect(self) -> Any:
        connection = postgres.connect(self.connection_options, self.database)
        with connection.cursor() as cursor:
            cursor.execute(f"set search_path = {self.schema}")
        return connection

    def fill(self, table: str, rows: int) -> None:
        self.run(f"insert into {table} select n, n from generate_series(1, {rows}) n")

    def _on_server(self, statement: str) -> None:
        options = self.connection_options
        with closing(postgres.connect(options, "postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(statement)


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows without some columns, by default without those that contain times."""
    excluded = set(names) or {"sent", "AR_H_CHANGE_SEQ"}
    return [{name: value for name, value in row.items() if name not in excluded} for row in rows]
