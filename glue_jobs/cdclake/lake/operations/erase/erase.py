"""Erases rows: `preview` counts where they are, and `erase` removes them everywhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from cdclake.commit.clean_up import has_leftovers
from cdclake.commit.erasure import (
    commit_erasure,
    delete_unreferenced,
    is_foreign_iceberg,
    retained_snapshots,
    rewrite_snapshots,
)
from cdclake.commit.iceberg import list_iceberg
from cdclake.commit.log import has_namesake, require_place_of_history, ways_out
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import check_files
from cdclake.commit.takeover import take_over
from cdclake.errors import ConfigurationError
from cdclake.lake.operations.erase import data_files, manifests, quarantine, raw_files
from cdclake.lake.operations.erase.raw_files import RawMatches
from cdclake.model.change import ChangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.data_files import Matches
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.operations.erase.quarantine import BadRowsFile
    from cdclake.lake.operations.erase.raw_files import RawLocation
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Clock

MAX_NAMES = 20


@dataclass(frozen=True)
class Erasure:
    """An erasure to perform.

    Attributes:
        location: Where the lake table is.
        log: Its change log.
        keys: Keys of the rows to erase.
        raw: The raw files, to remove the rows from them too; None leaves raw files unchanged.
        run_id: Identifies this run in change records and object keys.
        reason: Why, for the change record.
        made_by: Who requested it, for the change record.
        clock: Returns the current time in UTC.
        progress: Reports each step.
    """

    location: TableLocation
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
    """Numbers of rows to erase and of files to replace or delete. The rows themselves are not recorded.

    Attributes:
        rows: Rows of the table.
        files: Live data files of the table.
        versions: Rows of its history.
        version_files: Live data files of its history.
        retired_rows: Rows of retired data files; several files may contain the same row.
        retired_files: Retired data files of the table and its history.
        gone_files: Retired data files that no longer exist, but whose key bounds are still in snapshots.
        tombstones: Tombstones.
        tombstone_files: Files of tombstones.
        manifests: Manifests of an Iceberg table that may tell about such rows in files that no longer exist.
        bad_rows: Quarantined rows.
        bad_rows_files: Files of quarantined rows.
        full_load_rows: Rows of the full load's raw files.
        full_load_files: Raw files of the full load, to be deleted.
        change_rows: Rows of change files.
        change_files: Change files, to be rewritten.
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
    manifests: int = 0
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
    """A completed erasure.

    Attributes:
        change: Number of its change; None if there was nothing to erase.
        touched: What was erased.
        out_of_reach: Places that it could not erase from, one sentence each.
        snapshots: Number of rewritten snapshots.
        object_versions: Number of deleted noncurrent object versions.
    """

    change: int | None
    touched: ErasureCounts
    out_of_reach: tuple[str, ...]
    snapshots: int = 0
    object_versions: int = 0


def preview(erasure: Erasure) -> tuple[ErasureCounts, tuple[str, ...]]:
    """Find what an erasure would erase, and describe the places it could not erase from, one sentence each.

    Changes nothing, except that it copies retired files to read them. Correct only while no run works on the table.

    Raises:
        ConfigurationError: There is no lake table, or the reason names a key.
        LakeFilesError: A live file vanished or was overwritten.
    """
    _check_reason(erasure)
    lake = erasure.log.snapshot(erasure.log.head())
    raw = _search_raw(erasure, lake)
    matches, bad_rows, removed = _search_lake(erasure, lake)
    return _count(matches, bad_rows, removed, raw), _out_of_reach(erasure, lake, matches, raw)


def erase(erasure: Erasure, fencing_token: int, update_catalog: Callable[[], object] = lambda: None) -> ErasureResult:
    """Remove the rows everywhere; this cannot be undone. Repeating the call completes an erasure that crashed.

    The caller must hold the table's lease.

    Args:
        fencing_token: Number of the lease.
        update_catalog: Lets the catalog show the newest change. Called before files are deleted that the catalog's
            entry of an Iceberg table needs until then. If it raises, they are kept, and the erasure is not complete.

    Raises:
        ConfigurationError: Raw files that are not in the lake yet contain rows to erase, or as for `preview`.
        CommitConflictError: Another run committed first.
        LakeFilesError: Another program added, removed or replaced files.
    """
    _check_reason(erasure)
    log = erasure.log
    before = log.snapshot(_fence_off_other_runs(erasure, fencing_token))
    raw = _search_raw(erasure, before)
    if raw:
        _prepare_raw(log, raw)
    matches, bad_rows, removed = _search_lake(erasure, before)
    touched, out_of_reach = _count(matches, bad_rows, removed, raw), _out_of_reach(erasure, before, matches, raw)
    if not touched.anything:
        return _complete(erasure, ErasureResult(None, touched, out_of_reach), before.change, update_catalog)

    change = before.change + 1
    replacement = data_files.rewrite(erasure.location, before, matches, erasure.run_id, erasure.progress)
    replacement = manifests.rewrite(erasure.location, log, before, matches, replacement, erasure.run_id)
    commit_erasure(
        log,
        before,
        replacement,
        erasure.run_id,
        fencing_token,
        erasure.clock,
        raw_files=raw.affected if raw else (),
        known_raw_files=raw.applied if raw else (),
        reason=erasure.reason,
        made_by=erasure.made_by,
    )
    if raw and erasure.raw:  # after the commit, which makes releases stop using the old row numbers of these files
        raw_files.rewrite(erasure.raw, raw, erasure.progress)
    snapshots = rewrite_snapshots(log, change, replacement)
    quarantine.rewrite(log.store, bad_rows)
    return _complete(erasure, ErasureResult(change, touched, out_of_reach, snapshots), change, update_catalog)


def _complete(
    erasure: Erasure, result: ErasureResult, head: int, update_catalog: Callable[[], object]
) -> ErasureResult:
    """Delete objects that are no longer referenced and write the report, if need be for an earlier run that crashed."""
    log = erasure.log
    if any(entries for _, entries in list_iceberg(log)):
        update_catalog()
    result = replace(result, object_versions=delete_unreferenced(log, head))
    report_key = log.layout.erasure_key(head)
    if log.record(head).kind is ChangeKind.ERASURE and log.store.get(report_key) is None:
        result = replace(result, change=head)
        log.store.put(report_key, _report(erasure, result))
    return result


def _check_reason(erasure: Erasure) -> None:
    lake = erasure.log.snapshot(erasure.log.head())
    if erasure.keys.appear_in(erasure.reason, lake.schema):
        message = "The reason, which is kept, contains a key to erase"
        raise ConfigurationError(message, remedy="Give the number of the request instead")


def _fence_off_other_runs(erasure: Erasure, fencing_token: int) -> int:
    """Publish and check the newest change, prevent runs that started earlier from committing, and return its number."""
    log = erasure.log
    head = roll_forward(log)
    lake = log.snapshot(head)
    if not lake.exists:
        message = f"There is no lake table {log.layout.name}"
        raise ConfigurationError(message, remedy="Check the names of the table, the bucket and the folder")
    check_files(log, lake)
    _require_place_of_history(log, lake)
    log.mark_files_checked_to("")  # it may name the folder of a value to erase
    if not has_leftovers(log, head):
        return head
    reason = "a run had left an unfinished change"
    return take_over(log, erasure.run_id, fencing_token, reason, erasure.clock)


def _require_place_of_history(log: ChangeLog, lake: Snapshot) -> None:
    """Refuse to search a retained history if another table is where it was."""
    if has_namesake(log) and any(snapshot.history for _, snapshot in retained_snapshots(log, lake.change)):
        name = log.layout.name
        first = f"Delete what is retained of the history first: cdclake clean-up {name.typed} --retention-days 0"
        require_place_of_history(log, ways_out(name) if lake.history else first)


def _search_raw(erasure: Erasure, lake: Snapshot) -> RawMatches | None:
    return raw_files.search(erasure.raw, lake, erasure.keys, erasure.progress) if erasure.raw else None


def _search_lake(erasure: Erasure, lake: Snapshot) -> tuple[Matches, list[BadRowsFile], list[str]]:
    matches = data_files.search(erasure.location, erasure.log, lake.change, erasure.keys, erasure.progress)
    bad_rows = quarantine.search(erasure.log, erasure.keys, lake.schema)
    return matches, bad_rows, manifests.search(erasure.log, lake.change, erasure.keys)


def _prepare_raw(log: ChangeLog, matches: RawMatches) -> None:
    if matches.pending:
        message = f"{len(matches.pending)} raw files that are not in the lake yet contain rows to erase"
        remedy = "Wait until a run has applied them, then erase again; nothing was changed"
        raise ConfigurationError(message, remedy=remedy, table=log.layout.name, file=matches.pending[0])
    if not matches.affected:
        return
    loads = (record.change for record in log.newest_first(log.head()) if record.kind is ChangeKind.FULL_LOAD)
    first = next(loads, 1)
    if first > log.first_retained():
        # After a rollback to an earlier change, the next run would reload the table from raw files changed here.
        log.mark_first_retained(first)


def _count(matches: Matches, bad_rows: list[BadRowsFile], removed: list[str], raw: RawMatches | None) -> ErasureCounts:
    live = [match for match in matches.files if match.live and not match.in_history]
    versions = [match for match in matches.files if match.live and match.in_history]
    retired = [match for match in matches.files if not match.live]
    raw = raw or RawMatches()
    return ErasureCounts(
        rows=sum(match.rows for match in live),
        files=len(live),
        versions=sum(match.rows for match in versions),
        version_files=len(versions),
        retired_rows=sum(match.rows for match in retired),
        retired_files=len(retired),
        gone_files=len(matches.missing),
        tombstones=sum(match.rows for match in matches.tombstones),
        tombstone_files=len(matches.tombstones),
        manifests=len(removed),
        bad_rows=sum(file.rows for file in bad_rows),
        bad_rows_files=len(bad_rows),
        full_load_rows=raw.full_load_rows,
        full_load_files=len(raw.full_load),
        change_rows=sum(len(match.rows) for match in raw.changes),
        change_files=len(raw.changes),
    )


def _out_of_reach(erasure: Erasure, lake: Snapshot, matches: Matches, raw: RawMatches | None) -> tuple[str, ...]:
    log = erasure.log
    foreign = sum(1 for _ in log.store.list(log.layout.foreign_folder))
    iceberg = sum(is_foreign_iceberg(one, entry.key) for one, found in list_iceberg(log) for entry in found)
    sentences = {
        "The source: while it has the rows, DMS may send them again.": True,
        "Copies outside the lake: exports, data that downstream jobs read, bucket replicas and backups, logs.": True,
        "The raw bucket: a reload of the table brings the rows back. Use --raw to erase them there too.": raw is None,
        "Change records: they contain the partitions of the rows' files.": bool(lake.partition_key),
        f"{foreign} files that other programs put among the data files, in {log.layout.foreign_folder}": foreign,
        f"{iceberg} files that other programs put among those of the Iceberg tables, in {log.layout.iceberg_prefix} or"
        f" {log.layout.history.iceberg_prefix}": iceberg,
        f"{len(matches.without_key)} data files of earlier changes that lack a key column.": matches.without_key,
    }
    if raw:
        sentences |= {
            f"{raw.renamed} rows of raw files that change the key to another one: erase that key too.": raw.renamed,
            f"{len(raw.unreadable)} raw files that cannot be read: {', '.join(raw.unreadable[:MAX_NAMES])}": len(
                raw.unreadable
            ),
        }
    return tuple(sentence for sentence, applies in sentences.items() if applies)


def _report(erasure: Erasure, result: ErasureResult) -> bytes:
    """Proof of the erasure, as JSON: its counts, but no values of the erased rows."""
    report: dict[str, Any] = {
        "table": str(erasure.log.layout.name),
        **asdict(result),
        "keys": len(erasure.keys.values),
        "key_columns": list(erasure.keys.names),
        "raw_files_too": erasure.raw is not None,
        "reason": erasure.reason,
        "made_by": erasure.made_by,
        "finished_utc": erasure.clock().isoformat(timespec="seconds"),
    }
    return (json.dumps(report, indent=1) + "\n").encode()
