"""Builds change records and lake tables for tests, without an engine."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import KeepAlive, no_lease, publish, roll_forward
from cdclake.commit.undo import UndoPlan, apply_undo, plan_reapply, plan_rollback
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.layout import LakeLayout
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cdclake.ports import Clock, ObjectStore

FIRST_CHANGE_UTC = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
LAYOUT = LakeLayout("lake", "", TableName("shop", "orders"))
SCHEMA = Schema((Column("id", "bigint"),))


def change_record(change: int = 1, **fields: Any) -> ChangeRecord:
    """A record of an incremental change that changed nothing, with some fields set."""
    defaults: dict[str, Any] = {
        "kind": ChangeKind.INCREMENTAL,
        "created_utc": FIRST_CHANGE_UTC.isoformat(timespec="seconds"),
        "run_id": "run",
        "fencing_token": 1,
        "raw_files": (),
        "books": Books(),
        "added": (),
        "retired": (),
        "snapshot_key": "snapshot",
    }
    return ChangeRecord(change=change, **{**defaults, **fields})


class LakeBuilder:
    """Changes a lake table whose data files are a few bytes.

    Args:
        log: The table's change log, or a store for that of `LAYOUT`.
        clock: Returns the time of a change; None: change N is committed N - 1 hours after `FIRST_CHANGE_UTC`.
        content: Returns a data file's bytes for its staged key.
        schema: The table's columns; the first is the key.

    Attributes:
        token: Fencing token of the changes to come.
    """

    def __init__(
        self,
        log: ChangeLog | ObjectStore,
        clock: Clock | None = None,
        content: Callable[[str], bytes] = lambda key: f"rows {key}".encode(),
        schema: Schema = SCHEMA,
    ) -> None:
        self.log = log if isinstance(log, ChangeLog) else ChangeLog(log, LAYOUT)
        self.store, self.layout = self.log.store, self.log.layout
        self.clock: Any = clock or self._hourly
        self._content = content
        self._schema = schema
        self.token = 1

    def _hourly(self) -> datetime:
        return FIRST_CHANGE_UTC + timedelta(hours=self.log.head())

    def stage(
        self,
        files: int = 1,
        retired: Sequence[str] = (),
        run_id: str = "",
        *,
        rows: int | Sequence[int] = 10,
        tombstones: int = 0,
        bad_rows: bytes = b"",
        books: Mapping[str, int] | None = None,
        snapshot: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> ChangeRecord:
        """Do everything of a change but its commit: new data files take the place of the retired ones.

        Args:
            files: How many new files.
            retired: Relative paths of files to retire.
            rows: How many rows each new file has, or how many all have.
            tombstones: Remember that many deletes, in a file that replaces those there are.
            bad_rows: Content of a file of quarantined rows.
            books: Counts that differ from those of rows that were all inserted.
            snapshot: Fields of the snapshot that differ from the snapshot before.
            fields: Fields of the change record that differ from what follows from the rest.
        """
        before = self.log.snapshot(self.log.head())
        number = before.change + 1
        run_id = run_id or f"run-{number}"
        staged = [f"{self.layout.staging_prefix(number, run_id)}{i}.parquet" for i in range(files)]
        contents = [self._content(key) for key in staged]
        for key, content in zip(staged, contents):
            self.store.put(key, content)
        paths = [self.layout.data_path(number, i + 1, (), ()) for i in range(files)]
        sizes = [rows] * files if isinstance(rows, int) else rows
        new = [DataFile(path, size, len(content)) for path, size, content in zip(paths, sizes, contents)]
        known = before.tombstones
        if tombstones:
            key = self.layout.tombstones_key(number, run_id) + ".parquet"
            self.store.put(key, b"deletes")
            known = (TombstoneFile(key, tombstones, f"2024030{number}-000000000", 1, 9),)
        quarantine = (self.layout.quarantine_prefix(number, run_id) + "rows.jsonl",) if bad_rows else ()
        for key in quarantine:
            self.store.put(key, bad_rows)
        after = replace(
            before,
            change=number,
            schema=self._schema,
            primary_key=(self._schema.columns[0].name,),
            watermark=f"2024030{number}-000000000.parquet",
            files=(*(file for file in before.files if file.path not in retired), *new),
            tombstones=known,
        )
        after = replace(after, **(snapshot or {}))
        inserted = sum(file.rows for file in new)
        counts = Books(
            read_insert=inserted,
            applied=inserted,
            inserted=inserted,
            replaced=before.rows + inserted - after.rows,
            rows_before=before.rows,
            rows_after=after.rows,
        )
        derived = {
            "created_utc": self.clock().isoformat(timespec="seconds"),
            "run_id": run_id,
            "fencing_token": self.token,
            "raw_files": (after.watermark,),
            "books": replace(counts, **(books or {})),
            "added": tuple(StagedFile(key, path) for key, path in zip(staged, paths)),
            "retired": tuple(retired),
            "snapshot_key": self.log.write_snapshot(after, run_id),
            "quarantine": quarantine,
            "bytes_added": sum(file.bytes for file in new),
        }
        return change_record(number, **{**derived, **fields})

    def change(self, files: int = 1, retired: Sequence[str] = (), **more: Any) -> ChangeRecord:
        """Commit and publish a change; see `stage`."""
        roll_forward(self.log)
        record = self.stage(files, retired, **more)
        self.log.commit(record)
        publish(self.log, record)
        return record

    def rollback(self, to: int | None = None) -> ChangeRecord:
        return self.apply(plan_rollback(self.log, to))

    def reapply(self) -> ChangeRecord:
        return self.apply(plan_reapply(self.log))

    def apply(self, plan: UndoPlan, keep_alive: KeepAlive = no_lease) -> ChangeRecord:
        return apply_undo(self.log, plan, "by-hand", self.token, self.clock, keep_alive=keep_alive)

    @property
    def snapshot(self) -> Snapshot:
        return self.log.snapshot(self.log.head())

    def contents(self) -> dict[str, bytes]:
        """What readers see, by relative path."""
        prefix = self.layout.table_prefix
        return {entry.key[len(prefix) :]: self.store.get(entry.key) or b"" for entry in self.store.list(prefix)}

    def visible(self) -> dict[str, str]:
        """Hash of each file that readers see, by relative path."""
        return {path: hashlib.sha256(content).hexdigest() for path, content in self.contents().items()}

    def control_keys(self, folder: str = "") -> list[str]:
        """Keys below a folder of the control area."""
        return [entry.key for entry in self.store.list(self.layout.control_prefix + folder)]
