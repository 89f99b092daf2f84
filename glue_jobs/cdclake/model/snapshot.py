"""Snapshots: what a lake table is after a change.

A snapshot is the complete list of the live data files, with what the next run needs to route change rows without
reading the table. It is kept as gzipped JSON.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Union

from cdclake.model.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1

KeyValue = Union[int, str, None]
"""One key column's bound as JSON holds it: an integer, or text. None: unknown."""


@dataclass(frozen=True)
class DataFile:
    """One live Parquet file of a lake table.

    Attributes:
        path: Key relative to the table's folder, partition folders included.
        rows: Number of rows, all of them.
        bytes: Size of the object.
        partition: Values of the partition columns as text, in their order; None for null.
        key_min: Smallest value of the first key column; None if unknown, or if the table has no key.
        key_max: Largest value of the first key column.
        deleted: Of the rows, how many were deleted softly.
    """

    path: str
    rows: int
    bytes: int
    partition: tuple[str | None, ...] = ()
    key_min: KeyValue = None
    key_max: KeyValue = None
    deleted: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DataFile:
        """Inverse of `dataclasses.asdict`."""
        return cls(**{**data, "partition": tuple(data["partition"])})

    @property
    def live_rows(self) -> int:
        """Rows that were not deleted."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class TombstoneFile:
    """One file of remembered deletes, in the control area.

    Attributes:
        key: Key in the lake bucket.
        rows: Number of deletes.
        newest: Greatest `file_order` of the change files that they came from.
        key_min: Smallest value of the first key column.
        key_max: Largest.
    """

    key: str
    rows: int
    newest: str
    key_min: KeyValue
    key_max: KeyValue


@dataclass(frozen=True)
class History:
    """The versions of a table's rows, see `cdclake.lake.scd2.versions`.

    Attributes:
        open: Data files of the newest version of each key. Paths are as `cdclake.model.layout.HISTORY` says.
        closed: Data files of all earlier versions.
        schema: Columns of the source in it.
        primary_key: Key columns that its versions are told apart by.
        loads: Numbers of the full loads in it, ascending: positions are comparable from one to the next.
        since: Number of the change from which on every change is in it, without a gap; None while it is not kept.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    open: tuple[DataFile, ...] = ()
    closed: tuple[DataFile, ...] = ()
    loads: tuple[int, ...] = ()
    since: int | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All its data files, those of open versions first."""
        return (*self.open, *self.closed)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_json`."""
        opened, closed = (tuple(DataFile.from_json(file) for file in data[name]) for name in ("open", "closed"))
        schema = Schema.from_json(data["schema"])
        return cls(schema, tuple(data["primary_key"]), opened, closed, tuple(data["loads"]), data["since"])

    def to_json(self) -> dict[str, Any]:
        """Good for JSON."""
        return {**asdict(self), "schema": self.schema.to_json()}


@dataclass(frozen=True)
class Snapshot:
    """The state of a lake table after a change.

    Attributes:
        change: Number of the change; 0 for a table that has none.
        schema: Columns of the table in order, partition columns included, without `Op` and the position.
        primary_key: Key columns; empty if only inserts are taken.
        partition_key: Partition columns.
        order_column: Column that orders change rows; empty if file and row alone do.
        watermark: Relative key of the change file latest in order that was applied; empty if none.
        applied_files: Relative keys of the change files applied, back to the late window, in order; after an erasure
            that took rows out of older ones, those too.
        floor: Relative key; change files up to it in order are in the full load, and never late. Empty if none is.
        horizon: `yyyymmdd-HHMMSS`; applied files and deletes are remembered back to change files of this time, and
            older ones are too late for good. Empty if nothing was forgotten.
        tombstones: Deletes back to the late window.
        full_load_files: Relative keys of the full-load files the table was last loaded from.
        full_load_utc: When the newest of them was written, `yyyy-mm-dd HH:MM:SS`; empty if none.
        files: The live data files.
        history: The history; None if there never was one.
    """

    change: int = 0
    schema: Schema = field(default_factory=Schema)
    primary_key: tuple[str, ...] = ()
    partition_key: tuple[str, ...] = ()
    order_column: str = ""
    watermark: str = ""
    applied_files: tuple[str, ...] = ()
    floor: str = ""
    horizon: str = ""
    tombstones: tuple[TombstoneFile, ...] = ()
    full_load_files: tuple[str, ...] = ()
    full_load_utc: str = ""
    files: tuple[DataFile, ...] = ()
    history: History | None = None

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The live data files of the table and of its history."""
        return (*self.files, *(self.history.files if self.history else ()))

    @property
    def exists(self) -> bool:
        """Whether there is a table: it was loaded or fed, and that was not undone."""
        return len(self.schema) > 0

    @property
    def rows(self) -> int:
        """Rows of the table, without those that were deleted softly."""
        return sum(file.live_rows for file in self.files)

    @property
    def deleted_rows(self) -> int:
        """Rows that were deleted softly, and are still in the files."""
        return sum(file.deleted for file in self.files)

    def to_bytes(self) -> bytes:
        """Gzipped JSON; the same snapshot always gives the same bytes."""
        history = self.history.to_json() if self.history else None
        data = {**asdict(self), "schema": self.schema.to_json(), "history": history, "format": FORMAT}
        text = json.dumps(data, separators=(",", ":"), sort_keys=True)
        return gzip.compress(text.encode(), mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Inverse of `to_bytes`."""
        read: dict[str, Any] = json.loads(gzip.decompress(data))
        del read["format"]
        read["schema"] = Schema.from_json(read["schema"])
        read["files"] = tuple(DataFile.from_json(file) for file in read["files"])
        read["tombstones"] = tuple(TombstoneFile(**file) for file in read["tombstones"])
        history = read.get("history")
        read["history"] = History.from_json(history) if history else None
        for name in ("primary_key", "partition_key", "applied_files", "full_load_files"):
            read[name] = tuple(read[name])
        return cls(**read)
