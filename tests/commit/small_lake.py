"""A lake table whose data files are a few bytes, changed without any engine."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import KeepAlive, no_lease, publish, roll_forward
from cdclake.commit.undo import UndoPlan, apply_undo, plan_reapply, plan_rollback
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.layout import LakeLayout
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cdclake.adapters.memory import ManualClock
    from cdclake.ports import ObjectStore

LAYOUT = LakeLayout("lake", "", TableName("shop", "orders"))
SCHEMA = Schema((Column("id", "bigint"),))


class SmallLake:
    """A lake table on a store.

    Args:
        content: Gives a data file's bytes for its staged key.

    Attributes:
        token: Fencing token of the runs to come.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: ManualClock,
        content: Callable[[str], bytes] = lambda key: f"rows {key}".encode(),
    ) -> None:
        self.store = store
        self._content = content
        self.clock = clock
        self.log = ChangeLog(store, LAYOUT)
        self.token = 1

    def stage(
        self,
        files: int = 1,
        retired: Sequence[str] = (),
        run_id: str = "",
        *,
        tombstones: int = 0,
        quarantine: bool = False,
    ) -> ChangeRecord:
        """Everything of a change but its commit: `files` new files of 10 rows each in place of the retired ones.

        Args:
            tombstones: Remember that many deletes, in a file that takes the place of those there are.
            quarantine: Put a bad row aside.
        """
        before = self.log.snapshot(self.log.head())
        number = before.change + 1
        run_id = run_id or f"run-{number}"
        staged = [f"{LAYOUT.staging_prefix(number, run_id)}{i}.parquet" for i in range(files)]
        contents = [self._content(key) for key in staged]
        for key, content in zip(staged, contents):
            self.store.put(key, content)
        paths = [LAYOUT.data_path(number, i, (), ()) for i in range(files)]
        new = [DataFile(path, 10, len(content)) for path, content in zip(paths, contents)]
        buried = before.tombstones
        if tombstones:
            key = LAYOUT.tombstones_key(number, run_id) + ".parquet"
            self.store.put(key, b"deletes")
            buried = (TombstoneFile(key, tombstones, f"2024030{number}-000000000", 1, 9),)
        aside: tuple[str, ...] = ()
        if quarantine:
            aside = (LAYOUT.quarantine_prefix(number, run_id) + "rows.jsonl",)
            self.store.put(*aside, b"{}")
        after = replace(
            before,
            change=number,
            schema=SCHEMA,
            primary_key=("id",),
            watermark=f"2024030{number}-000000000.parquet",
            files=(*(file for file in before.files if file.path not in retired), *new),
            tombstones=buried,
        )
        return ChangeRecord(
            change=number,
            kind=ChangeKind.INCREMENTAL,
            created_utc=self.clock().isoformat(timespec="seconds"),
            run_id=run_id,
            fencing_token=self.token,
            raw_files=(after.watermark,),
            books=Books(
                read_insert=10 * files,
                applied=10 * files,
                inserted=10 * files,
                replaced=10 * len(retired),
                rows_before=before.rows,
                rows_after=after.rows,
            ),
            added=tuple(StagedFile(key, path) for key, path in zip(staged, paths)),
            retired=tuple(retired),
            snapshot_key=self.log.write_snapshot(after, run_id),
            quarantine=aside,
        )

    def change(
        self, files: int = 1, retired: Sequence[str] = (), *, tombstones: int = 0, quarantine: bool = False
    ) -> ChangeRecord:
        """Commit and publish a change; see `stage`."""
        roll_forward(self.log)
        record = self.stage(files, retired, tombstones=tombstones, quarantine=quarantine)
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

    def visible(self) -> dict[str, str]:
        """Hash of each file that a reader sees, by relative path."""
        prefix = LAYOUT.table_prefix
        content = {entry.key[len(prefix) :]: self.store.get(entry.key) for entry in self.store.list(prefix)}
        return {path: hashlib.sha256(data or b"").hexdigest() for path, data in content.items()}

    def control_keys(self, folder: str = "") -> list[str]:
        """Keys below a folder of the control area."""
        return [entry.key for entry in self.store.list(LAYOUT.control_prefix + folder)]
