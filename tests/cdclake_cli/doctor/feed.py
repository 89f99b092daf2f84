"""Writes a table's raw folder as DMS does, with recommended settings by default.

Only the doctor uses it: it writes faulty settings and files, which `tests.cdclake.lake.table.Table` cannot.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.folder import FolderStore
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_cli.dms.attributes import attributes_for
from cdclake_cli.dms.files import BEFORE_PREFIX, ChangeRows, change_bytes, full_load_bytes
from cdclake_cli.dms.names import change_path, full_load_path, table_folder
from cdclake_cli.dms.settings import BeforeImages, DmsSettings, settings_from
from cdclake_cli.doctor.diagnose import Diagnosis, RawBucket, diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = TableName("shop", "orders")
SEQUENCE = "AR_H_CHANGE_SEQ"
START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
GOOD = {"DataFormat": "parquet", "TimestampColumnName": "ts", "HeaderColumns": SEQUENCE, "BeforeImages": "pk-only"}
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(12, 2)), ("day", pa.date32())])

Row = dict[str, Any]


def row(number: int, **values: Any) -> Row:
    """A row of the orders table."""
    return {"id": number, "name": f"name {number}", "price": number, "day": START.date(), **values}


@dataclass
class RawFolder:
    """Writes files of one table, a minute apart.

    Attributes:
        root: Empty folder that stands in for the bucket.
        names: DMS settings, by DMS's names.
        columns: The source's columns.
    """

    root: Path
    names: dict[str, object] = field(default_factory=lambda: dict(GOOD))
    columns: pa.Schema = COLUMNS
    now: datetime = START
    loads: int = 0
    change_row_count: int = 0

    @property
    def settings(self) -> DmsSettings:
        return settings_from(self.names)

    def load(self, rows: Sequence[Row], number: int = 0) -> str:
        """Write the next LOAD file, or the one with this number; returns its key."""
        self.loads = number or self.loads + 1
        table = pa.Table.from_pylist(list(rows), self.columns)
        data = full_load_bytes(table, self.settings, self.now, self._added())
        return self.put(full_load_path(self.settings, self.loads, part=1), data)

    def change(self, *changes: tuple[str, Row], before: Sequence[Row | None] = (), **more: Any) -> str:
        """Write a change file; returns its key.

        Args:
            changes: `Op` and row, in order.
            before: The previous version of each row, with `BeforeImages`.
            more: Further arguments of `ChangeRows`.
        """
        rows = self.changes(*changes, before=before, **more)
        return self.put(change_path(self.settings, self.now), change_bytes(rows, self.settings))

    def changes(self, *changes: tuple[str, Row], before: Sequence[Row | None] = (), **more: Any) -> ChangeRows:
        """The changes that `change` writes."""
        self.now += MINUTE
        times = [self.now - MINUTE / 2 + timedelta(milliseconds=i) for i in range(len(changes))]
        numbers = range(self.change_row_count, self.change_row_count + len(changes))
        self.change_row_count += len(changes)
        rows = pa.Table.from_pylist([values for _, values in changes], self.columns)
        images = None
        if self.settings.before_images is not BeforeImages.NONE:
            keys = pa.schema([self.columns.field("id")])
            padded = [*before, *[None] * (len(changes) - len(before))]
            old_rows = [old or (values if op == "U" else {}) for old, (op, values) in zip(padded, changes, strict=True)]
            images = pa.Table.from_pylist([{"id": old.get("id")} for old in old_rows], keys)
        headers = pa.table({SEQUENCE: [f"{time:%Y%m%d%H%M%S}{0:02d}{n:019d}" for time, n in zip(times, numbers)]})
        return ChangeRows(
            pa.array([op for op, _ in changes], pa.string()),
            pa.array(times, pa.timestamp("us", tz="UTC")),
            rows,
            images,
            headers if self.settings.header_columns else None,
            **more,
        )

    def put(self, path: str, data: bytes, written: datetime | None = None) -> str:
        """Write a file to the table's folder; returns its path in the folder."""
        file = self.root / table_folder(self.settings, NAME) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        seconds = (written or self.now).timestamp()
        os.utime(file, (seconds, seconds))
        return path

    def file(self, path: str) -> Path:
        """The local path of a file in the table's folder."""
        return self.root / table_folder(self.settings, NAME) / path

    def filled(self) -> RawFolder:
        """The folder, after two LOAD files and three change files without faults."""
        self.load([row(i) for i in range(150)])
        self.load([row(i) for i in range(150, 200)])
        for part in range(3):
            base = 1_000 + 100 * part
            inserts = [("I", row(base + i)) for i in range(20)]
            updates = [("U", row(10 * part + i, name="new")) for i in range(10)]
            self.change(*inserts, *updates, ("D", row(150 + part)))
        return self

    def attributes(self, **more: str) -> dict[str, str]:
        """The table's settings."""
        return {**attributes_for(self.settings, self.columns, ["id"], (), self._added()), **more}

    def diagnose(self, item: dict[str, str] | None = None, **more: Any) -> Diagnosis:
        """Run the doctor a day later."""
        state = TableState.new("raw", "shop/", "orders/")
        state = state.with_attributes(**(self.attributes() if item is None else item))
        location = self.root.as_uri()
        raw = RawBucket(
            FolderStore(self.root),
            lake_filesystem(location).open(),
            more.pop("versioned", None),
            more.pop("task", None),
        )
        return diagnose(raw, state, self.now + timedelta(days=1), **more)

    def findings(self, item: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
        """What the doctor saw, by code."""
        return {finding.code.value: finding.seen for finding in self.diagnose(item, **more).findings}

    def _added(self) -> list[str]:
        images = [f"{BEFORE_PREFIX}id"] if self.settings.before_images is not BeforeImages.NONE else []
        return [*self.settings.header_columns, *images]
