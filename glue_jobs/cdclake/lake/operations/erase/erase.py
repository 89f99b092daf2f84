"""Erases rows: `preview` counts where they are, and `erase` removes them everywhere."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from cdclake.commit.clean_up import has_leftovers
from cdclake.commit.erasure import (
    claim_snapshots,
    commit_erasure,
    delete_unreferenced,
    is_foreign_iceberg,
    retained_snapshots,
    rewrite_snapshots,
)
from cdclake.commit.iceberg.tables import list_iceberg
from cdclake.commit.log import has_namesake, require_place_of_history, ways_out
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import check_files
from cdclake.commit.takeover import take_over
from cdclake.errors import ConfigurationError
from cdclake.lake.operations.erase import data_files, foreign_files, manifests, quarantine, raw_files
from cdclake.lake.operations.erase.raw_files import RawMatches
from cdclake.lake.storage.keys import keyed_hashes, secret_id
from cdclake.model.change.record import ChangeKind
from cdclake.model.raw.files import file_order
from cdclake.model.retained import Retained
from cdclake.model.snapshot import ErasedKeys
from cdclake.model.table.column_policy import ColumnPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.data_files import Matches
    from cdclake.lake.operations.erase.foreign_files import ForeignFiles
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.operations.erase.quarantine import BadRows
    from cdclake.lake.operations.erase.raw_files import RawLocation
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Clock

MAX_NAMES = 20
_SECRET_BYTES = 32


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
        unread_rows_too: Whether to remove bad rows whose key cannot be read: they may have one of the keys.
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
    unread_rows_too: bool = False


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
        foreign_rows: Rows of files that a repair moved away.
        foreign_files: Such files.
        full_load_rows: Rows of the full load's raw files.
        full_load_files: Raw files of the full load, to be deleted.
        change_rows: Rows of change files.
        change_files: Change files, to be rewritten.
        raw_version_rows: Rows of earlier versions of raw files.
        raw_versions: Such versions, to be deleted.
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
    foreign_rows: int = 0
    foreign_files: int = 0
    full_load_rows: int = 0
    full_load_files: int = 0
    change_rows: int = 0
    change_files: int = 0
    raw_version_rows: int = 0
    raw_versions: int = 0

    @property
    def anything(self) -> bool:
        """Whether there is anything to erase."""
        return any(vars(self).values())


@dataclass(frozen=True)
class ErasureResult:
    """A completed erasure, or what one would erase.

    Attributes:
        change: Number of its change; None if there was nothing to erase, or before the erasure.
        touched: What was erased, or would be.
        out_of_reach: Places that it could not erase from, one sentence each.
        not_searched: All files that such sentences count, by what they are; the sentences name some of them.
        snapshots: Number of rewritten snapshots.
        object_versions: Number of deleted noncurrent object versions.
    """

    change: int | None
    touched: ErasureCounts
    out_of_reach: tuple[str, ...]
    not_searched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    snapshots: int = 0
    object_versions: int = 0


def preview(erasure: Erasure) -> ErasureResult:
    """Find what an erasure would erase, and the places it could not erase from.

    Changes nothing, except that it copies retired files to read them. Correct only while no run works on the table.

    Raises:
        ConfigurationError: There is no lake table, or the reason names a key.
        LakeFilesError: A live file vanished or was overwritten.
    """
    _check_reason(erasure)
    _require_one_form(erasure)
    _, result = _search(erasure, erasure.log.snapshot(erasure.log.head()))
    return result


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
    unfinished = log.unfinished_erasures(before)
    if unfinished:  # before the search, which must see what its run has written
        claim_snapshots(log, before, unfinished[-1].change)
    _require_one_form(erasure)
    found, result = _search(erasure, before)
    raw = found.raw
    if raw:
        _prepare_raw(log, raw)
    secret = _secret(log)
    known_by, change, matches = secret_id(secret), before.change + 1, found.matches
    hashes = tuple(sorted(filter(None, {*keyed_hashes(secret, erasure.keys.typed(before.schema))})))
    usable = [one for one in before.erased if one.secret_id == known_by]
    names = [name.lower() for name in erasure.keys.names]
    of_these = [one for one in usable if [*map(str.lower, one.columns)] == names and {*one.hashes} <= {*hashes}]
    completed = [one.change for one in of_these if one in unfinished]
    if not result.touched.anything and len(usable) == len(before.erased):
        return _complete(erasure, result, before.change, completed, update_catalog)

    replacement = data_files.rewrite(erasure.location, before, matches, erasure.run_id, erasure.progress)
    replacement = manifests.rewrite(erasure.location, log, before, matches, replacement, erasure.run_id)
    erased = ErasedKeys(
        change=change,
        erased_utc=erasure.clock().isoformat(timespec="seconds"),
        columns=erasure.keys.names,
        secret_id=known_by,
        hashes=hashes,
        through=file_order(before.watermark),
        last=matches.last,
        ordering=before.ordering,
    )
    commit_erasure(
        log,
        before,
        replacement,
        erasure.run_id,
        fencing_token,
        erasure.clock,
        raw_files=raw.affected if raw else (),
        known_raw_files=raw.applied if raw else (),
        erased=[*usable, erased],
        reason=erasure.reason,
        made_by=erasure.made_by,
    )
    if raw and erasure.raw:  # after the commit, which makes releases stop using the old row numbers of these files
        raw_files.rewrite(erasure.raw, raw, erasure.progress)
    snapshots = rewrite_snapshots(log, log.snapshot(change), replacement, raw.applied if raw else ())
    quarantine.rewrite(log.store, found.bad_rows.files)
    foreign_files.rewrite(log.store, found.foreign.files)
    result = replace(result, snapshots=snapshots)
    return _complete(erasure, result, change, [*completed, change], update_catalog)


def _secret(log: ChangeLog) -> bytes:
    """The secret of the hashes of erased keys, made by the first erasure."""
    key = log.layout.erasure_secret_key
    if log.store.get(key) is None:
        log.store.put_if_absent(key, token_bytes(_SECRET_BYTES))
    return log.store.get(key) or b""


def _complete(
    erasure: Erasure,
    result: ErasureResult,
    head: int,
    completed: Sequence[int],
    update_catalog: Callable[[], object],
) -> ErasureResult:
    """Delete objects that are no longer referenced, and write the reports.

    Args:
        head: Number of the newest change.
        completed: Numbers of the changes whose erasures are complete then: this one, and unfinished ones of its keys.

    Returns:
        The result with the last of these numbers.
    """
    log = erasure.log
    if any(entries for _, entries in list_iceberg(log)):
        update_catalog()
    result = replace(result, object_versions=delete_unreferenced(log, head))
    if erasure.raw:
        erasure.raw.store.remove_leftovers()
    for change in completed:
        result = replace(result, change=change)
        log.store.put(log.layout.erasure_key(change), _report(erasure, result))
    return result


def _check_reason(erasure: Erasure) -> None:
    lake = erasure.log.snapshot(erasure.log.head())
    if erasure.keys.appear_in(erasure.reason, lake.schema):
        message = "The reason, which is kept, contains a key to erase"
        raise ConfigurationError(message, remedy="Give the number of the request instead")


def _require_one_form(erasure: Erasure) -> None:
    """Refuse to search retained states from before the table's `ColumnPolicy` that have the keys in another form.

    Raises:
        ConfigurationError: There is one.
    """
    log = erasure.log
    lake = log.snapshot(log.head())
    for record, old in retained_snapshots(log, lake.change) if lake.policy.since else ():
        rules = [ColumnPolicy.parse(one.policy.text).find(name) for name in erasure.keys.names for one in (old, lake)]
        other = rules[::2] != rules[1::2] or (any(rules) and old.policy.secret_id != lake.policy.secret_id)
        if record.change < lake.policy.since and old.exists and other:
            name = log.layout.name
            message = f"{name} has retained states from before its ColumnPolicy, whose keys have another form"
            remedy = f"Delete them first: cdclake clean-up {name.typed} --retention-days 0"
            raise ConfigurationError(message, remedy=remedy, table=name)


def _fence_off_other_runs(erasure: Erasure, fencing_token: int) -> int:
    """Publish and check the newest change, prevent runs that started earlier from committing, and return its number."""
    log = erasure.log
    head = roll_forward(log)
    log.check_fence(head, fencing_token)
    lake = log.snapshot(head)
    if not lake.exists:
        message = f"There is no lake table {log.layout.name}"
        raise ConfigurationError(message, remedy="Check the names of the table, the bucket and the folder")
    check_files(log, lake)
    _require_place_of_history(log, lake)
    log.mark_files_checked_to("")  # it may name the folder of a value to erase
    # After a later change, its run stops by itself.
    is_unfinished = any(one.change == head for one in log.unfinished_erasures(lake))
    if not has_leftovers(log, head) and not is_unfinished:
        return head
    reason = "a run had left an unfinished erasure" if is_unfinished else "a run had left an unfinished change"
    return take_over(log, erasure.run_id, fencing_token, reason, erasure.clock)


def _require_place_of_history(log: ChangeLog, lake: Snapshot) -> None:
    """Refuse to search a retained history if another table is where it was."""
    if has_namesake(log) and any(snapshot.history for _, snapshot in retained_snapshots(log, lake.change)):
        name = log.layout.name
        first = f"Delete what is retained of the history first: cdclake clean-up {name.typed} --retention-days 0"
        require_place_of_history(log, ways_out(name) if lake.history else first)


@dataclass(frozen=True)
class _Found:
    """What a search found.

    Attributes:
        removed: Keys of manifests, see `manifests.search`.
        raw: None if raw files stay.
    """

    matches: Matches
    bad_rows: BadRows
    foreign: ForeignFiles
    removed: list[str]
    raw: RawMatches | None


def _search(erasure: Erasure, lake: Snapshot) -> tuple[_Found, ErasureResult]:
    """Find the rows, and what erasing them would do."""
    log, keys, raw, unread_too = erasure.log, erasure.keys, None, erasure.unread_rows_too
    if erasure.raw:
        raw = raw_files.search(erasure.raw, log, lake, keys, erasure.progress, unread_too=unread_too)
    found = _Found(
        data_files.search(erasure.location, log, lake.change, keys, erasure.progress),
        quarantine.search(log, lake, keys, unread_too=unread_too),
        foreign_files.search(log, lake, keys),
        manifests.search(log, lake.change, keys),
        raw,
    )
    not_searched = _not_searched(erasure, found)
    return found, ErasureResult(None, _count(found), _out_of_reach(lake, found, not_searched), not_searched)


def _prepare_raw(log: ChangeLog, matches: RawMatches) -> None:
    if matches.pending:
        message = f"{len(matches.pending)} raw files that are not in the lake yet contain rows to erase"
        remedy = (
            "Wait until a run has applied them, or list them in IgnoreFiles if none is to. Then erase again; nothing"
            " was changed"
        )
        raise ConfigurationError(message, remedy=remedy, table=log.layout.name, file=matches.pending[0])
    if not matches.affected:
        return
    loads = (record.change for record in log.newest_first(log.head()) if record.kind is ChangeKind.FULL_LOAD)
    first = next(loads, 1)
    if first > log.retained().first:
        # After a rollback to an earlier change, the next run would reload the table from raw files changed here.
        log.mark_retained(Retained(first - 1))


def _count(found: _Found) -> ErasureCounts:
    matches, bad_rows = found.matches, found.bad_rows.files
    live = [match for match in matches.files if match.live and not match.in_history]
    versions = [match for match in matches.files if match.live and match.in_history]
    retired = [match for match in matches.files if not match.live]
    raw = found.raw or RawMatches()
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
        manifests=len(found.removed),
        bad_rows=sum(file.rows for file in bad_rows),
        bad_rows_files=len(bad_rows),
        foreign_rows=sum(file.rows for file in found.foreign.files),
        foreign_files=len(found.foreign.files),
        full_load_rows=raw.full_load_rows,
        full_load_files=len(raw.full_load),
        change_rows=sum(len(match.rows) for match in raw.changes),
        change_files=len(raw.changes),
        raw_version_rows=raw.version_rows,
        raw_versions=len(raw.versions),
    )


def _not_searched(erasure: Erasure, found: _Found) -> dict[str, tuple[str, ...]]:
    """Files that may contain rows to erase, by what they are."""
    log, raw = erasure.log, found.raw
    iceberg = (entry.key for one, listed in list_iceberg(log) for entry in listed if is_foreign_iceberg(one, entry.key))
    unread = found.bad_rows.unread | (raw.unread_rows if raw else Counter())  # quarantined rows are in raw files, too
    files: dict[str, Iterable[str]] = {
        "files with bad rows whose key cannot be read, and may be one of these; --unread-rows removes such rows": (
            f"{name} ({rows})" for name, rows in sorted(unread.items())
        ),
        "files that a repair moved away and that cannot be searched": found.foreign.unread,
        "files that other programs put among the Iceberg tables' files": iceberg,
        "data files of earlier changes that lack a key column": found.matches.without_key,
        "raw files that cannot be read": raw.unreadable if raw else (),
        "files in the raw bucket's folder that are no raw files by their names": raw.unknown if raw else (),
    }
    named = ((what, tuple(names)) for what, names in files.items())
    return {what: names for what, names in named if names}


def _out_of_reach(lake: Snapshot, found: _Found, not_searched: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    raw = found.raw
    sentences = {
        "The source: while it has the rows, DMS may send them again.": True,
        "Copies outside the lake: exports, data that downstream jobs read, bucket replicas and backups, logs.": True,
        "The raw bucket, with earlier versions of its files: a reload of the table may bring the rows back. Use --raw"
        " to erase them there too.": raw is None,
        "Change records: they contain the partitions of the rows' files.": bool(lake.partition_key),
        f"{raw.renamed if raw else 0} rows of raw files that change the key to another one: erase that key too.": (
            raw and raw.renamed
        ),
    }
    counted = (f"{len(names)} {what}: {_some(names)}" for what, names in not_searched.items())
    return (*(sentence for sentence, applies in sentences.items() if applies), *counted)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MAX_NAMES} more, see the report" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


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
