"""Change records and snapshots: what the lake's change log holds.

Both are JSON. A change record is one committed step of a table; the snapshot of the same number is the complete list of
its live data files after that step, with what the next run needs to route change rows without reading the table.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Union

from cdclake.errors import BooksError
from cdclake.model.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1

KeyValue = Union[int, str, None]
"""One key column's bound as JSON holds it: an integer, or text. None: unknown."""


class ChangeKind(Enum):
    """What made a change."""

    FULL_LOAD = "full load"
    INCREMENTAL = "incremental"


@dataclass(frozen=True)
class DataFile:
    """One live Parquet file of a lake table.

    Attributes:
        path: Key relative to the table's folder, partition folders included.
        rows: Number of rows.
        bytes: Size of the object.
        partition: Values of the partition columns as text, in their order; None for null.
        key_min: Smallest value of the first key column; None if unknown, or if the table has no key.
        key_max: Largest value of the first key column.
    """

    path: str
    rows: int
    bytes: int
    partition: tuple[str | None, ...] = ()
    key_min: KeyValue = None
    key_max: KeyValue = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DataFile:
        """Inverse of `dataclasses.asdict`."""
        return cls(**{**data, "partition": tuple(data["partition"])})


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
class Snapshot:
    """The state of a lake table after a change.

    Attributes:
        change: Number of the change; 0 for a table that has none.
        schema: Columns of the table in order, partition columns included, without `Op` and the position.
        primary_key: Key columns; empty if only inserts are taken.
        partition_key: Partition columns.
        order_column: Column that orders change rows; empty if file and row alone do.
        watermark: Relative key of the change file latest in order that was applied; empty if none.
        applied_files: Relative keys of the change files applied, back to the late window, in order.
        floor: Relative key; change files up to it in order are in the full load, and never late. Empty if none is.
        horizon: `yyyymmdd-HHMMSS`; applied files and deletes are remembered back to change files of this time, and
            older ones are too late for good. Empty if nothing was forgotten.
        tombstones: Deletes back to the late window.
        full_load_files: Relative keys of the full-load files the table was last loaded from.
        full_load_utc: When the newest of them was written, `yyyy-mm-dd HH:MM:SS`; empty if none.
        files: The live data files.
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

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(file.rows for file in self.files)

    def to_bytes(self) -> bytes:
        """Gzipped JSON; the same snapshot always gives the same bytes."""
        data = {**asdict(self), "schema": self.schema.to_json(), "format": FORMAT}
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
        for name in ("primary_key", "partition_key", "applied_files", "full_load_files"):
            read[name] = tuple(read[name])
        return cls(**read)


@dataclass(frozen=True)
class Books:
    """The row counts of one change, which must balance.

    `read_*` count rows of raw files by operation (a full-load row counts as an insert). Each row read is applied,
    superseded (an equal or later row of its key is known), ignored (a table without a key takes inserts alone), or put
    into quarantine; `read_unknown` counts those of the last that have no operation to be counted by. What was applied
    inserted, updated or deleted a row, or was `absent`: the delete of a row that is not there. `derived` counts the
    deletes of old keys that updates of keys stand for, beside the rows read. `replaced` counts the rows that a reload
    took away.
    """

    read_insert: int = 0
    read_update: int = 0
    read_delete: int = 0
    read_unknown: int = 0
    derived: int = 0
    applied: int = 0
    superseded: int = 0
    ignored: int = 0
    quarantined: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0
    replaced: int = 0
    rows_before: int = 0
    rows_after: int = 0

    @property
    def read(self) -> int:
        """Rows read."""
        return self.read_insert + self.read_update + self.read_delete + self.read_unknown

    def check(self) -> None:
        """Refuse books that do not balance.

        Raises:
            BooksError: Says which sum is off.
        """
        sums = {
            "rows read + derived = applied + superseded + ignored + quarantined": self.read
            + self.derived
            - (self.applied + self.superseded + self.ignored + self.quarantined),
            "applied = inserted + updated + deleted + absent": self.applied
            - (self.inserted + self.updated + self.deleted + self.absent),
            "rows before - replaced + inserted - deleted = rows after": self.rows_before
            - self.replaced
            + self.inserted
            - self.deleted
            - self.rows_after,
        }
        wrong = [f"{rule} is off by {difference}" for rule, difference in sums.items() if difference]
        if wrong:
            raise BooksError(
                "The books of a change do not balance: " + "; ".join(wrong),
                remedy="Nothing was committed. Keep the raw files and report this with the figures",
                books=asdict(self),
            )


@dataclass(frozen=True)
class StagedFile:
    """A new data file of a change: where it was staged, and the relative path it is published as."""

    staged_key: str
    path: str


@dataclass(frozen=True)
class ChangeRecord:
    """One committed step of a lake table. Writing it, if absent, is the commit.

    Attributes:
        change: 1, 2, 3, ...
        kind: What made it.
        created_utc: ISO 8601.
        run_id: The job run that made it.
        fencing_token: The lease's number under which it was made.
        raw_files: Relative keys of the raw files read.
        books: Row counts.
        added: New data files.
        retired: Relative paths of the data files they replace.
        snapshot_key: Key of the snapshot written for it.
        too_late: Relative keys of change files that came after the late window and were left out.
        quarantine: Keys of the files of bad rows put aside.
        bytes_added: Size of the new data files.
        seconds: Duration of each phase.
    """

    change: int
    kind: ChangeKind
    created_utc: str
    run_id: str
    fencing_token: int
    raw_files: tuple[str, ...]
    books: Books
    added: tuple[StagedFile, ...]
    retired: tuple[str, ...]
    snapshot_key: str
    too_late: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    bytes_added: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """JSON, readable by a person."""
        data = {**asdict(self), "kind": self.kind.value, "format": FORMAT}
        return (json.dumps(data, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeRecord:
        """Inverse of `to_bytes`."""
        read: dict[str, Any] = json.loads(data)
        del read["format"]
        read["kind"] = ChangeKind(read["kind"])
        read["books"] = Books(**read["books"])
        added: list[dict[str, str]] = read["added"]
        read["added"] = tuple(StagedFile(**file) for file in added)
        for name in ("raw_files", "retired", "too_late", "quarantine"):
            read[name] = tuple(read[name])
        return cls(**read)
