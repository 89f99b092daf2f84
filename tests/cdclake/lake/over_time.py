"""A lake table whose changes are committed an hour apart, in a folder or in a bucket.

Shared by the tests of reads, erasures and releases, whose results depend on the times of changes.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.log import ChangeLog
from cdclake.commit.undo import apply_undo, plan_reapply, plan_rollback
from cdclake.control.catalog.sync import sync_tables
from cdclake.model.table.state import TableState
from cdclake_devkit.local import EmbeddedAws
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.model.catalog import CatalogName
    from cdclake.ports import Catalog

START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
TABLE = "shop.orders"


@dataclass
class TableOverTime(Table):
    """A table whose change N is committed N hours after `START`.

    Attributes:
        bucket: Bucket of the lake; empty if the lake is a folder.
        clock_is_late: By how much the clock is late.
    """

    bucket: str = ""
    clock_is_late: timedelta = timedelta()

    @property
    def location(self) -> str:
        return self.bucket or self.lake.as_uri()

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(open_store(self.location), self.layout)

    def next_time(self) -> datetime:
        return START + timedelta(hours=self.log.head() + 1) - self.clock_is_late

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
        written = START + timedelta(minutes=self.log.head())
        change: int = self.apply_file(f"{written:%Y%m%d-%H%M%S}000.parquet", rows)["change"]
        return change

    def roll_back(self, to: int, *, for_good: bool = False) -> int:
        """Roll back to a change; for good without the change files, which the next change would apply again."""
        log = self.log
        change = apply_undo(log, plan_rollback(log, to), "by hand", self.runs, self.next_time).change
        for undone in self.raw_path("").glob("2024*.parquet") if for_good else ():
            undone.unlink()
        return change

    def reapply(self) -> int:
        return apply_undo(self.log, plan_reapply(self.log), "again", self.runs, self.next_time).change

    def clean_up(
        self, retention: timedelta, later: timedelta = timedelta(), keep_every: timedelta | None = None
    ) -> int:
        """Clean up some time after the newest change, when all files are old; returns how many are deleted."""
        now = self.next_time() + later
        for path in self.lake.rglob("*"):
            os.utime(path, ((now - timedelta(hours=3)).timestamp(),) * 2)
        plan = plan_clean_up(self.log, retention, now, keep_every=keep_every)
        clean_up(self.log, plan)
        return plan.count

    def show_in(self, catalog: Catalog, change: int = 0, **item: str) -> CatalogName | None:
        """Let a catalog show the table as of the newest change, or an earlier one, with other settings."""
        state = TableState({**TableState.new("raw", "shop/", f"{self.layout.name.table}/").item, **self.item, **item})
        return sync_tables(catalog, state, self.layout, self.log.snapshot(change or self.log.head()), lambda: None)

    def hashes(self) -> dict[str, str]:
        """Hashes of all files in the table's folder, by relative path."""
        prefix, lake = self.layout.table_prefix, open_store(self.location)
        return {entry.key[len(prefix) :]: digest(lake.get(entry.key)) for entry in lake.list(prefix)}


def digest(content: bytes | None) -> str:
    assert content is not None
    return sha256(content).hexdigest()


@contextmanager
def versioned_bucket(monkeypatch: pytest.MonkeyPatch, name: str, *others: str) -> Iterator[None]:
    """A versioned bucket, and others without versions, in an embedded AWS that the environment points to."""
    with EmbeddedAws(region="us-east-1") as aws:
        for variable, value in aws.environment().items():
            if variable.startswith("AWS_"):
                monkeypatch.setenv(variable, value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        client = aws_clients.client("s3")
        for bucket in (name, *others):
            client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        yield
