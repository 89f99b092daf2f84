"""A source database of a test, and its replication into a raw bucket in memory."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from cdclake.adapters.memory import MemoryStore
from cdclake.devkit.dms.settings import BeforeImages, DataFormat, DmsSettings
from cdclake.devkit.replicate.connection import connect
from cdclake.devkit.replicate.mysql_types import quoted
from cdclake.devkit.replicate.service import Replication, Task
from cdclake.devkit.replicate.snapshot import snapshot
from cdclake.model.rawfiles import RawKind, raw_files
from cdclake.oracle import ChangeRow, merge

if TYPE_CHECKING:
    from cdclake.devkit.replicate.connection import Account
    from cdclake.devkit.replicate.position import Progress
    from cdclake.ports import ObjectStore

PARQUET = DmsSettings(data_format=DataFormat.PARQUET, timestamp_column_name="sent", header_columns=("AR_H_CHANGE_SEQ",))
WITH_KEYS = replace(PARQUET, before_images=BeforeImages.PRIMARY_KEY)


class Source:
    """A database, for as long as the `with` block lasts.

    Attributes:
        raw: The raw bucket that `replicate` writes to, unless it is given another one.
    """

    def __init__(self, account: Account, schema: str) -> None:
        self.account = account
        self.schema = schema
        self.raw: ObjectStore = MemoryStore()

    def __enter__(self) -> Source:
        self.connection = connect(self.account)
        self.run(f"create database {quoted(self.schema)}", f"use {quoted(self.schema)}")
        return self

    def __exit__(self, *_: object) -> None:
        self.run(f"drop database {quoted(self.schema)}")
        self.connection.close()

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def query(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            found: tuple[tuple[Any, ...], ...] = cursor.fetchall()
        return found

    def replication(
        self, settings: DmsSettings = WITH_KEYS, *, only: tuple[str, ...] = (), raw: ObjectStore | None = None
    ) -> Replication:
        task = Task(self.schema, only, settings)
        return Replication(task, self.account, self.raw if raw is None else raw, lambda: datetime.now(timezone.utc))

    def replicate(self, settings: DmsSettings = WITH_KEYS, *, only: tuple[str, ...] = ()) -> Progress:
        """Full load if there was none, then all changes up to now."""
        return self.replication(settings, only=only).run(lambda: False, until_now=True)

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
        """What the database holds now, in the types of the raw files."""
        with snapshot(self.account, self.schema, [table]) as now:
            return [row for piece in now.rows(now.tables[0]) for row in piece.to_pylist()]

    def merged(self, table: str) -> list[dict[str, Any]]:
        """What the raw files say the database holds: full load and all changes by their sequence, by key."""
        with snapshot(self.account, self.schema, [table]) as now:
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
        found = [dict(row.row) for row in merge(key, loaded, changes, columns)]
        return sorted(found, key=lambda row: [row[name] for name in key])

    def _files(self, table: str, kind: RawKind) -> list[list[dict[str, Any]]]:
        folder = f"{self.schema}/{table}/"
        loads, changes = raw_files(self.raw.list(folder), folder)
        files = loads if kind is RawKind.FULL_LOAD else changes
        return [pq.read_table(io.BytesIO(self.raw.get(file.key) or b"")).to_pylist() for file in files]


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows without some columns, by default without those that tell times."""
    left_out = set(names) or {"sent", "AR_H_CHANGE_SEQ"}
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]
