"""Erases rows: `look` tells where they are, `erase` takes them out of all of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from cdclake.commit.clean_up import has_leftovers
from cdclake.commit.erasure import commit_erasure, forget, tell_snapshots
from cdclake.commit.publish import roll_forward
from cdclake.commit.table_files import check_files
from cdclake.commit.takeover import take_over
from cdclake.errors import ConfigurationError
from cdclake.lake.operations.erase import data_files, quarantine, raw_files
from cdclake.lake.operations.erase.raw_files import RawMatches
from cdclake.model.change import ChangeKind

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.data_files import Matches
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.operations.erase.quarantine import BadRowsFile
    from cdclake.lake.operations.erase.raw_files import RawLocation
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Clock

MOST_NAMES = 20


@dataclass(frozen=True)
class Erasure:
    """An erasure to be done.

    Attributes:
        place: Where the lake table is.
        log: Its change log.
        keys: Keys of the rows.
        raw: The raw files, if rows are to be taken out of them too; None: they are left as they are.
        run_id: Names this doing in change records and of objects.
        reason: Why, for the change record.
        made_by: Who asked for it.
        clock: The time.
        progress: Is told how far it is.
    """

    place: TableLocation
    log: ChangeLog
    keys: RowKeys
    raw: RawLocation | None
    run_id: str
    reason: str
    made_by: str
    clock: Clock
    progress: Progress


@dataclass(frozen=True)
class ErasureCounts:
    """What an erasure touches, in counts. Nothing here tells of the rows themselves.

    Attributes:
        rows: Rows of the table as it is.
        files: Data files of the table as it is, to be replaced.
        versions: Rows of its history as it is.
        version_files: Data files of that.
        retired_rows: Rows of retired data files, of the table and its history: a row is in several of them.
        retired_files: These files.
        gone_files: Retired data files that are gone already, and of whose keys the snapshots tell the bounds.
        tombstones: Remembered deletes.
        tombstone_files: Files of them.
        bad_rows: Bad rows put aside.
        bad_rows_files: Files of them.
        full_load_rows: Rows of the full load's raw files.
        full_load_files: Raw files of the full load, to be deleted.
        change_rows: Rows of change files.
        change_files: Change files, to be written anew.
    """

    rows: int = 0
    files: int = 0
    versions: int = 0
    version_files: int = 0
    retired_rows: int = 0
    retired_files: int = 0
    gone_files: int = 0
    tombstones: int = 0
    tombstone_files: int = 0
    bad_rows: int = 0
    bad_rows_files: int = 0
    full_load_rows: int = 0
    full_load_files: int = 0
    change_rows: int = 0
    change_files: int = 0

    @property
    def anything(self) -> bool:
        """Whether there is anything to erase."""
        return any(vars(self).values())


@dataclass(frozen=True)
class ErasureResult:
    """An erasure that is done.

    Attributes:
        change: Number of the change that it is; None if there was nothing to erase.
        touched: What it touched.
        out_of_reach: What it did not reach, a sentence each.
        snapshots: Lists of data files that were written anew.
        object_versions: Versions deleted that a bucket held out of sight.
    """

    change: int | None
    touched: ErasureCounts
    out_of_reach: tuple[str, ...]
    snapshots: int = 0
    object_versions: int = 0


def look(erasure: Erasure) -> tuple[ErasureCounts, tuple[str, ...]]:
    """Find the rows: what an erasure would touch, and what it would not reach, a sentence each.

    Changes nothing, but that retired files are copied to be read. Right only while no run works on the table.

    Raises:
        ConfigurationError: There is no lake table, or the reason names a key.
        LakeFilesError: A live file vanished or was overwritten.
    """
    _check_reason(erasure)
    lake = erasure.log.snapshot(erasure.log.head())
    raw = _look_at_raw(erasure, lake)
    held, bad_rows = _look_at_lake(erasure, lake)
    return _touched(held, bad_rows, raw), _out_of_reach(erasure, lake, held, raw)


def erase(erasure: Erasure, fencing_token: int) -> ErasureResult:
    """Take the rows out of everything, for good. One that died is finished by the same call made once more.

    The table's lease must be held.

    Args:
        fencing_token: Number of the lease.

    Raises:
        ConfigurationError: Raw files that are not in the lake yet hold rows, or as for `look`.
        CommitConflictError: Another run committed first.
        LakeFilesError: Somebody else added, removed or replaced files.
    """
    _check_reason(erasure)
    log, layout = erasure.log, erasure.log.layout
    before = log.snapshot(_shut_out_others(erasure, fencing_token))
    raw = _look_at_raw(erasure, before)
    if raw:
        _prepare_raw(log, raw)
    held, bad_rows = _look_at_lake(erasure, before)
    touched, out_of_reach = _touched(held, bad_rows, raw), _out_of_reach(erasure, before, held, raw)
    if not touched.anything:
        return _finish(erasure, ErasureResult(None, touched, out_of_reach), before.change)

    change = before.change + 1
    replacement = data_files.rewrite(
        erasure.place,
        before,
        held,
        layout.staging_prefix(change, erasure.run_id),
        layout.tombstones_key(change, erasure.run_id),
        erasure.progress,
    )
    commit_erasure(
        log,
        before,
        replacement,
        erasure.run_id,
        fencing_token,
        erasure.clock,
        raw_files=raw.names if raw else (),
        known_raw_files=raw.known if raw else (),
        reason=erasure.reason,
        made_by=erasure.made_by,
    )
    if raw and erasure.raw:  # after the commit: from now on nobody goes by the numbers that rows of these files had
        raw_files.rewrite(erasure.raw, raw, erasure.progress)
    snapshots = tell_snapshots(log, change, replacement)
    quarantine.rewrite(log.store, bad_rows)
    return _finish(erasure, ErasureResult(change, touched, out_of_reach, snapshots), change)


def _finish(erasure: Erasure, done: ErasureResult, head: int) -> ErasureResult:
    """Delete what is not named any more, and note that it is done; also for an erasure that died before it had."""
    log = erasure.log
    done = replace(done, object_versions=forget(log, head))
    note = log.layout.erasure_key(head)
    if log.record(head).kind is ChangeKind.ERASURE and log.store.get(note) is None:
        done = replace(done, change=head)
        log.store.put(note, _note(erasure, done))
    return done


def _check_reason(erasure: Erasure) -> None:
    lake = erasure.log.snapshot(erasure.log.head())
    if erasure.keys.are_in_words_of(erasure.reason, lake.schema):
        message = "The reason names a key that is to be erased, and would be kept"
        raise ConfigurationError(message, remedy="Name the request instead, by its number")


def _shut_out_others(erasure: Erasure, fencing_token: int) -> int:
    """Number of the newest change: it is visible, as it should be, and no run that began earlier can commit."""
    log = erasure.log
    head = roll_forward(log)
    lake = log.snapshot(head)
    if not lake.exists:
        message = f"There is no lake table {log.layout.name}"
        raise ConfigurationError(message, remedy="Look at the names of table, bucket and folder")
    check_files(log, lake)
    if not has_leftovers(log, head):
        return head
    reason = "a run had left an unfinished change"
    return take_over(log, erasure.run_id, fencing_token, reason, erasure.clock)


def _look_at_raw(erasure: Erasure, lake: Snapshot) -> RawMatches | None:
    return raw_files.search(erasure.raw, lake, erasure.keys, erasure.progress) if erasure.raw else None


def _look_at_lake(erasure: Erasure, lake: Snapshot) -> tuple[Matches, list[BadRowsFile]]:
    held = data_files.search(erasure.place, erasure.log, lake.change, erasure.keys, erasure.progress)
    return held, quarantine.search(erasure.log, erasure.keys, lake.schema)


def _prepare_raw(log: ChangeLog, held: RawMatches) -> None:
    if held.pending:
        message = f"{len(held.pending)} raw files that are not in the lake yet hold rows to erase"
        remedy = "Let the table be run, then erase once more; nothing was changed"
        raise ConfigurationError(message, remedy=remedy, table=log.layout.name, file=held.pending[0])
    if not held.names:
        return
    loads = (record.change for record in log.newest_first(log.head()) if record.kind is ChangeKind.FULL_LOAD)
    first = next(loads, 1)
    if first > log.first_retained():
        # From before that, the next run would load the table anew, and of raw files that are gone or written since.
        log.mark_first_retained(first)


def _touched(held: Matches, bad_rows: list[BadRowsFile], raw: RawMatches | None) -> ErasureCounts:
    live = [one for one in held.files if one.live and not one.of_history]
    versions = [one for one in held.files if one.live and one.of_history]
    retired = [one for one in held.files if not one.live]
    raw = raw or RawMatches()
    return ErasureCounts(
        rows=sum(one.rows for one in live),
        files=len(live),
        versions=sum(one.rows for one in versions),
        version_files=len(versions),
        retired_rows=sum(one.rows for one in retired),
        retired_files=len(retired),
        gone_files=len(held.gone),
        tombstones=sum(one.rows for one in held.tombstones),
        tombstone_files=len(held.tombstones),
        bad_rows=sum(one.rows for one in bad_rows),
        bad_rows_files=len(bad_rows),
        full_load_rows=raw.full_load_rows,
        full_load_files=len(raw.full_load),
        change_rows=sum(len(one.rows) for one in raw.changes),
        change_files=len(raw.changes),
    )


def _out_of_reach(erasure: Erasure, lake: Snapshot, held: Matches, raw: RawMatches | None) -> tuple[str, ...]:
    log = erasure.log
    foreign = sum(1 for _ in log.store.list(log.layout.foreign_folder))
    places = {
        "The source: while the rows are there, DMS may send them again.": True,
        "What left the lake: exports, what jobs downstream have read, replicas and backups of the bucket, logs.": True,
        "The raw bucket, from which the rows come back if the table is loaded anew; see --raw.": raw is None,
        "Change records, which name the partitions that the files of the rows lay in.": bool(lake.partition_key),
        f"{foreign} files that somebody else put among the data files, in {log.layout.foreign_folder}": foreign,
        f"{len(held.unlike)} data files of earlier changes without a column of the key.": held.unlike,
    }
    if raw:
        places |= {
            f"{raw.renamed} rows of raw files which tell that the key became another: erase that one too.": raw.renamed,
            f"{len(raw.unreadable)} raw files that cannot be read: {', '.join(raw.unreadable[:MOST_NAMES])}": len(
                raw.unreadable
            ),
        }
    return tuple(sentence for sentence, applies in places.items() if applies)


def _note(erasure: Erasure, done: ErasureResult) -> bytes:
    """That it is done, and what it touched: for whoever must show it later. Nothing in it tells of the rows."""
    note: dict[str, Any] = {
        "table": str(erasure.log.layout.name),
        **asdict(done),
        "keys": len(erasure.keys.values),
        "key_columns": list(erasure.keys.names),
        "raw_files_too": erasure.raw is not None,
        "reason": erasure.reason,
        "made_by": erasure.made_by,
        "finished_utc": erasure.clock().isoformat(timespec="seconds"),
    }
    return (json.dumps(note, indent=1) + "\n").encode()
