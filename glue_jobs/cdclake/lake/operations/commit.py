"""From staged files to a committed, visible change."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from cdclake.commit.publish import publish
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.layout import HISTORY
from cdclake.model.versions import MONTH, YEAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.engine import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.snapshot import DataFile, History, Snapshot


def snapshot_after(
    run: TableRun, before: Snapshot, shape: TableShape, result: Result, kept: tuple[DataFile, ...]
) -> Snapshot:
    """The table after a change that is staged.

    Args:
        before: The table before it, with watermark and the like as they are to be.
        shape: Its rows.
        result: What was staged; new files still carry their staged key as path.
        kept: Live files that stay.
    """
    return replace(
        before,
        change=before.change + 1,
        schema=shape.schema,
        primary_key=shape.primary_key,
        partition_key=shape.partition_key,
        order_column=run.settings.order_column,
        files=(*kept, *result.written),
        tombstones=result.tombstones,
        history=result.history,
    )


def commit(
    run: TableRun,
    before: Snapshot,
    after: Snapshot,
    result: Result,
    kind: ChangeKind,
    raw: Sequence[RawFile],
    too_late: Sequence[RawFile] = (),
    *,
    reason: str = "",
    made_by: str = "",
) -> dict[str, Any]:
    """Commit a staged change, make it visible, and sum it up for a log or a program.

    Args:
        before: The table before it.
        after: The table to be, of `snapshot_after`.
        result: What was staged.
        kind: What made the change.
        raw: The raw files read.
        too_late: Change files left out.
        reason: Why, if a person made it.
        made_by: Who, likewise.

    Raises:
        BooksError: The rows do not add up; nothing was committed.
        LeaseLostError: Another run took the table over; nothing was committed.
        CommitConflictError: Another run committed first; nothing of this one is visible.
    """
    started = time.perf_counter()
    names = _Names(run, after.change, result)
    after = replace(after, files=names.given(after.files, after.partition_key))
    if after.history:
        after = replace(after, history=names.given_to_versions(after.history))
    still = {file.path for file in after.all_files}
    replaced = [file for file in before.all_files if file.path not in still]
    left_out = tuple(file.relative for file in too_late)
    record = ChangeRecord(
        change=after.change,
        kind=kind,
        created_utc=run.clock().isoformat(timespec="seconds"),
        run_id=run.run_id,
        fencing_token=run.fencing_token or run.log.fencing_token(before.change),
        raw_files=tuple(file.relative for file in raw),
        books=_books(before, after, result, kind),
        added=tuple(names.added),
        retired=tuple(file.path for file in replaced),
        snapshot_key=run.log.write_snapshot(after, run.run_id),
        reason=reason,
        made_by=made_by,
        too_late=left_out,
        quarantine=result.quarantine_keys,
        bytes_read=sum(file.size_bytes for file in raw) + _bytes_read(replaced, kind),
        bytes_added=sum(file.bytes for file in result.all_written),
        seconds=result.seconds,
    )
    run.log.commit(record)
    later = publish(run.log, record, seconds={"commit": round(time.perf_counter() - started, 3)})
    return {
        "table": str(run.layout.name),
        "change": record.change,
        "kind": kind.value,
        "raw_files": len(raw),
        "too_late": list(left_out),
        "files_added": len(record.added),
        "files_retired": len(record.retired),
        "files_before": len(before.all_files),
        "books": asdict(record.books),
        "bytes_read": record.bytes_read,
        "bytes_added": record.bytes_added,
        "seconds": {**record.seconds, **later},
    }


class _Names:
    """Gives staged files their final names, counted through from 1."""

    def __init__(self, run: TableRun, change: int, result: Result) -> None:
        self._layout, self._change = run.layout, change
        self._staged = {file.path for file in result.all_written}
        self.added: list[StagedFile] = []

    def given(self, files: Sequence[DataFile], partition_key: tuple[str, ...], place: str = "") -> tuple[DataFile, ...]:
        """The same files, those that were staged with the path that they are published as.

        Args:
            place: What these paths begin with.
        """
        named = []
        for file in files:
            if file.path in self._staged:
                number = len(self.added) + 1
                path = place + self._layout.data_path(self._change, number, partition_key, file.partition)
                self.added.append(StagedFile(file.path, path))
                named.append(replace(file, path=path))
            else:
                named.append(file)
        return tuple(named)

    def given_to_versions(self, history: History) -> History:
        """The same history, likewise."""
        opened, closed = (self.given(files, (YEAR, MONTH), HISTORY) for files in (history.open, history.closed))
        return replace(history, open=opened, closed=closed)


def _bytes_read(replaced: Sequence[DataFile], kind: ChangeKind) -> int:
    return 0 if kind is ChangeKind.FULL_LOAD else sum(file.bytes for file in replaced)


def _books(before: Snapshot, after: Snapshot, result: Result, kind: ChangeKind) -> Books:
    counts = result.resolution.counts
    return Books(
        read_insert=result.read.inserts,
        read_update=result.read.updates,
        read_delete=result.read.deletes - result.read.derived,
        read_unknown=result.read.quarantine.rows,
        derived=result.read.derived,
        applied=counts.applied - result.repeated,
        superseded=counts.superseded,
        ignored=counts.ignored,
        quarantined=result.read.quarantine.rows + result.repeated,
        inserted=counts.inserted - result.repeated,
        updated=counts.updated,
        deleted=counts.deleted,
        absent=counts.absent,
        replaced=before.rows if kind is ChangeKind.FULL_LOAD else 0,
        rows_before=before.rows,
        rows_after=after.rows,
    )
