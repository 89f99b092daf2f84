"""A lake table whose changes are committed an hour apart, in a folder or in a bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import store
from cdclake.commit.log import ChangeLog
from cdclake.commit.undo import apply_undo, plan_rollback
from tests.lake.table import RAW_PREFIX, Table

if TYPE_CHECKING:
    from cdclake.lake.table_run import TableRun

START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
TABLE = "shop.orders"


@dataclass
class TableOverTime(Table):
    """A table whose change N is committed N hours after `START`.

    Attributes:
        bucket: Bucket of the lake; empty: it is in a folder.
    """

    bucket: str = ""

    @property
    def location(self) -> str:
        return self.bucket or self.lake.as_uri()

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(store(self.location), self.layout)

    def next_time(self) -> datetime:
        return START + timedelta(hours=self.log.head() + 1)

    def run(self) -> TableRun:
        run = replace(super().run(), clock=self.next_time)
        return replace(run, log=self.log, lake_fs=lake_filesystem(self.bucket)) if self.bucket else run

    def apply(self, *changes: tuple[str, dict[str, Any]], schema: pa.Schema | None = None) -> int:
        """Write one change file and apply it; returns the number of the change.

        Args:
            schema: The file's columns, if they are not the table's.
        """
        columns = (schema or self.columns).insert(0, pa.field("Op", pa.string()))
        rows = pa.Table.from_pylist([{"Op": op, **row} for op, row in changes], columns)
        pq.write_table(rows, self.raw / RAW_PREFIX / f"20240305-10{self.log.head():02}00000.parquet")
        change: int = self.load_incremental()["change"]
        return change

    def load(self, rows: list[dict[str, Any]]) -> int:
        self.write_load(rows)
        change: int = self.load_initial()["change"]
        return change

    def roll_back(self, to: int) -> int:
        log = self.log
        return apply_undo(log, plan_rollback(log, to), "by hand", self.runs, self.next_time).change

    def hashes(self) -> dict[str, str]:
        """What a reader of the table's folder finds, by relative path."""
        prefix, lake = self.layout.table_prefix, store(self.location)
        return {entry.key[len(prefix) :]: digest(lake.get(entry.key)) for entry in lake.list(prefix)}


def digest(content: bytes | None) -> str:
    assert content is not None
    return sha256(content).hexdigest()
