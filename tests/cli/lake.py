"""A lake table with a few changes, made without Spark: its data files are any bytes of the right length."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from cdclake.commit.publish import publish
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog

FIRST_CHANGE_UTC = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
SCHEMA = Schema((Column("id", "bigint"),))


class SampleTable:
    """Appends changes to a table's log, an hour apart."""

    def __init__(self, log: ChangeLog) -> None:
        self.log = log

    def apply(
        self,
        rows: int,
        retired: tuple[str, ...] = (),
        kind: ChangeKind = ChangeKind.INCREMENTAL,
        reason: str = "",
        made_by: str = "",
    ) -> ChangeRecord:
        """Commit and publish a change that adds a file of so many rows and retires others; returns its record."""
        before = self.log.snapshot(self.log.head())
        number = before.change + 1
        staged = self.log.layout.staging_prefix(number, "run") + "0.parquet"
        data = f"{rows} rows of change {number}".encode()
        self.log.store.put(staged, data)
        path = self.log.layout.data_path(number, 1, (), ())
        raw = f"20240305-10{number:02d}00000.parquet"
        kept = tuple(file for file in before.files if file.path not in retired)
        after = replace(
            before,
            change=number,
            schema=SCHEMA,
            primary_key=("id",),
            watermark=raw,
            files=(*kept, DataFile(path, rows, len(data))),
        )
        replaced = before.rows - sum(file.rows for file in kept)
        record = ChangeRecord(
            change=number,
            kind=kind,
            created_utc=(FIRST_CHANGE_UTC + timedelta(hours=number - 1)).isoformat(timespec="seconds"),
            run_id=f"jr_{number}",
            fencing_token=self.log.fencing_token(before.change),
            raw_files=(raw,),
            books=Books(
                read_insert=rows,
                applied=rows,
                inserted=rows,
                replaced=replaced,
                rows_before=before.rows,
                rows_after=after.rows,
            ),
            added=(StagedFile(staged, path),),
            retired=retired,
            snapshot_key=self.log.write_snapshot(after, "run"),
            too_late=("20240101-000000000.parquet",) if number == 2 else (),
            quarantine=(self.log.layout.quarantine_prefix(number, "run") + "0.json",) if number == 2 else (),
            reason=reason,
            made_by=made_by,
            bytes_added=len(data),
            seconds={"read": 0.25, "rewrite": 1.5},
        )
        self.log.commit(record)
        publish(self.log, record)
        return record

    def visible(self) -> dict[str, bytes | None]:
        """What readers see, by relative path."""
        prefix = self.log.layout.table_prefix
        return {entry.key[len(prefix) :]: self.log.store.get(entry.key) for entry in self.log.store.list(prefix)}
