"""The work of the LoadInitial and LoadIncremental jobs: commits new raw files of a table as one visible change."""

from __future__ import annotations

import time
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.commit.ledger import identified, recorded
from cdclake.concurrency import CALLS_AT_ONCE, executor, in_parallel
from cdclake.errors import InputError, RawFilesLostError, UnsettledKeyError
from cdclake.lake.operations.commit import commit
from cdclake.lake.operations.compute import (
    ChangeFiles,
    compute,
    inspect_changes,
    inspect_raw_files,
    merged_schema,
    parts_to_read,
    require_accepted,
    require_known_keys,
    require_rows_kept_keys,
    table_shape,
)
from cdclake.lake.operations.history import base_schema
from cdclake.lake.operations.outdated_full_load import require_applied_changes
from cdclake.lake.operations.untyped_columns import with_types
from cdclake.lake.raw.first_lines import require_shared_columns
from cdclake.model.change.record import ChangeKind
from cdclake.model.drift import incremental_drift, reload_drift
from cdclake.model.due_files import (
    begin_after,
    covered_by_reload,
    first_batch,
    is_loaded,
    mark_applied,
    mark_loaded,
    mark_seen,
    pending_changes,
)
from cdclake.model.raw.files import file_order, missing_loads
from cdclake.model.schema import Schema
from cdclake.model.snapshot import Snapshot
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.lake.operations.request import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.model.drift import SourceDrift
    from cdclake.model.raw.files import RawFile, RawFiles


def load_initial(run: TableRun, backend: Backend, base_change: int | None = None, begin: str = "") -> dict[str, Any]:
    """Replace the lake table with the full load in the raw folder. A second call with the same arguments does nothing.

    Args:
        base_change: Number of the lake's newest change when the load was planned. The load is skipped if there is a
            newer change by now. None skips it only if the table was last loaded from exactly the same files.
        begin: The last change file that the full load contains, relative; empty: the times of the files decide.

    Returns:
        Summary of the change, for logs and programs; its `change` is None if the load was skipped.

    Raises:
        InputError: There is no full load, or it cannot be read.
        RawFilesLostError: It is an old one, and change files that were applied since are gone.
    """
    started = time.perf_counter()
    before, raw = _current(run, reloads=True)
    full_load, changes = raw.full_load, raw.changes
    if not full_load:
        remedy = "Confirm that the DMS task does a full load of this table into this folder"
        raise InputError("The raw folder contains no full-load files", remedy=remedy, file=run.raw_prefix)
    missing = missing_loads(full_load)
    if missing:
        remedy = "Wait until the DMS task has loaded the table, or make it reload the table"
        raise InputError("A full-load file is missing, but a later one exists", remedy=remedy, file=missing[0])
    same = is_loaded(before, full_load)
    if same if base_change is None else before.change != base_change:
        return _no_change(run, before, "this full load is in the lake already")
    require_applied_changes(run, before, raw, begin)

    _identify(full_load)
    inspections = with_types(run, before, full_load, inspect_raw_files(run, full_load))
    require_shared_columns(before.schema, full_load, inspections)
    merged = merged_schema(base_schema(run, before, reloads=True), full_load, inspections)
    shape = table_shape(run, merged, Snapshot(), loaded=inspections)
    loaded = merged_schema(Schema(), full_load, inspections)
    drift = reload_drift(before, loaded, full_load[0].relative)
    require_accepted(run, drift.changes)
    # The oldest file's time: change files written later are applied, because the load may not contain their changes.
    loaded_utc = min(file.modified_utc for file in full_load)
    parts = [part for inspection in inspections for part in inspection.parts]
    result = compute(run, backend, before, shape, parts, started=started, loaded_utc=loaded_utc)
    covered_to = begin or (covered_by_reload(before, full_load, changes) if before.exists else "")
    seen = recorded(run.log, before.ledger, raw.all_changes)
    facts = mark_loaded(before, full_load, raw.all_changes, covered_to, seen, by_hand=bool(begin))
    facts = replace(facts, source=drift.source, ordering="", load_in_quarantine=bool(result.quarantine_keys))
    return commit(run, before, facts, shape, result, ChangeKind.FULL_LOAD, full_load, drift=drift.changes)


def _current(run: TableRun, *, reloads: bool = False) -> tuple[Snapshot, RawFiles]:
    """The table's newest snapshot, see `TableRun.current`, and its raw files. They are listed meanwhile."""
    with executor(run.raw.calls_at_once) as pool:
        listing = pool.submit(list_raw_files, run.raw, run.raw_prefix, run.settings)
        return run.current(reloads=reloads), listing.result()


def _identify(files: Iterable[RawFile]) -> None:
    """Find the identities of files that are about to be read. A folder has no ETags: there it hashes their content."""
    in_parallel(attrgetter("identity"), (file for file in files if callable(file.etag)), CALLS_AT_ONCE)


def load_incremental(
    run: TableRun, backend: Backend, last_file: str, new_file: str, listed_files: int = 0
) -> dict[str, Any]:
    """Apply the change files that the lake table lacks, late ones included, up to `new_file`.

    The lake's own snapshot records which files are applied; `last_file` is used only if there is no lake table yet. If
    more files are due than one change may apply, the oldest are applied; see
    `cdclake.model.due_files.first_batch`. Otherwise a second call with the same arguments does nothing.

    Args:
        last_file: Watermark of the state table, relative to the table's raw folder; empty for none.
        new_file: Last change file to apply, relative; empty for all.
        listed_files: Number of change files up to `new_file` that were due when the run was planned.

    Returns:
        Summary of the change, for logs and programs; its `change` is None if there was nothing to apply.

    Raises:
        InputError: A change file cannot be read.
        RawFilesLostError: There are fewer files than were listed; nothing was applied.
        ConfigurationError: The table's keys differ from those that the lake table was created with.
    """
    started = time.perf_counter()
    before, raw = _current(run)
    base = before if before.exists else begin_after(before, last_file)
    end = file_order(new_file)
    changes = raw.changes
    seen = recorded(run.log, base.ledger, changes)
    due, too_late, _ = pending_changes(base, changes, run.settings.late_window_hours, seen)
    left_out = {"too_late": [file.relative for file in too_late]}
    listed = [file for file in due if not end or file.order <= end]
    if listed and len(listed) < listed_files:
        message = f"Only {len(listed)} of {listed_files} change files to apply are still in the raw bucket"
        remedy = "Restore them, or make DMS reload the table; nothing was applied"
        raise RawFilesLostError(message, remedy=remedy, table=run.layout.name)
    batch = first_batch(listed, run.settings.max_files_per_run, run.settings.max_bytes_per_run)
    if not batch:
        return {**_no_change(run, before, "every change file is in the lake already"), **left_out}

    change, drift, result = _compute_changes(run, backend, before, due, len(batch), started)
    facts = mark_seen(base, raw.all_changes)
    facts = replace(facts, ledger=identified(run.log, facts.ledger, changes, seen))
    facts = mark_applied(facts, change.files, run.settings.late_window_hours)
    facts = replace(facts, source=drift.source, ordering=change.ordering)
    summary = commit(
        run,
        before,
        facts,
        change.shape,
        result,
        ChangeKind.INCREMENTAL,
        change.files,
        drift=drift.changes,
        missing_columns=change.missing_columns,
        unknown_keys=require_known_keys(run, before, change, result),
    )
    return {**summary, **left_out}


class _Computed(NamedTuple):
    """A computed change, and the source's columns after it."""

    change: ChangeFiles
    drift: SourceDrift
    result: Result


def _compute_changes(
    run: TableRun, backend: Backend, before: Snapshot, due: Sequence[RawFile], count: int, started: float
) -> _Computed:
    """Compute the change of the first files that are due.

    If a statement that moves rows between keys goes on in later files, these become part of the change.

    Args:
        count: Number of files to apply, unless more are needed.
        started: See `compute`.
    """
    _identify(due[:count])
    change = inspect_changes(run, before, due[:count])
    columns = ((file, one.schema) for file, one in zip(change.files, change.inspections, strict=True))
    drift = incremental_drift(before, list(columns))
    require_accepted(run, drift.changes)
    require_rows_kept_keys(run, before, change)
    try:
        parts, ordering = parts_to_read(change), change.ordering
        result = compute(run, backend, before, change.shape, parts, started=started, ordering=ordering)
    except UnsettledKeyError:
        if count >= len(due):
            raise
        return _compute_changes(run, backend, before, due, 2 * count, started)
    return _Computed(change, drift, result)


def _no_change(run: TableRun, before: Snapshot, reason: str) -> dict[str, Any]:
    return {"table": str(run.layout.name), "change": None, "reason": reason, "newest_change": before.change}
