"""The work of the LoadInitial and LoadIncremental jobs: commits new raw files of a table as one visible change."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake import logs
from cdclake.commit.ledger import identified, recorded
from cdclake.concurrency import CALLS_AT_ONCE, executor, in_parallel
from cdclake.errors import ConfigurationError, InputError, IntegrityError, SchemaMismatchError, UnsettledKeyError
from cdclake.lake.operations.commit import commit
from cdclake.lake.operations.compute import (
    ChangeFiles,
    compute,
    inspect_changes,
    inspect_raw_files,
    merged_schema,
    parts_to_read,
    require_accepted,
    require_known_columns,
    require_known_keys,
    require_recognizable_erasures,
    require_rows_kept_keys,
    require_same_keys,
    table_shape,
)
from cdclake.lake.operations.history import base_schema, history_to_continue
from cdclake.lake.operations.outdated_full_load import require_applied_changes
from cdclake.lake.operations.untyped_columns import with_types
from cdclake.lake.raw.csv_header import require_shared_columns
from cdclake.model.change.delay import written_utc
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
from cdclake.model.table.attributes import Attribute
from cdclake.model.type_widening import merge_schemas
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from cdclake.lake.operations.request import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.drift import SourceDrift
    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.raw.ledger import Recorded

log = logs.bind(__name__)


def load_initial(run: TableRun, backend: Backend, begin: str = "") -> dict[str, Any]:
    """Replace the lake table with the full load in the raw folder, unless it was last loaded from exactly these files.

    Args:
        begin: See `replace_table`.

    Returns:
        Summary of the change, for logs and programs; its `change` is None if the load was skipped.

    Raises:
        InputError: There is no full load, or it cannot be read.
        RawFilesLostError: It is an old one, and change files that were applied since are gone.
    """
    before, raw = _current(run, reloads=True)
    full_load = raw.full_load
    if not full_load:
        remedy = "Confirm that the DMS task does a full load of this table into this folder"
        raise InputError("The raw folder contains no full-load files", remedy=remedy, file=run.raw_prefix)
    missing = missing_loads(full_load, run.settings.ignore_files)
    if missing:
        remedy = "Wait until the DMS task has loaded the table, or make it reload the table"
        raise InputError("A full-load file is missing, but a later one exists", remedy=remedy, file=missing[0])
    if is_loaded(before, full_load):
        return _no_change(run, before, "this full load is in the lake already")
    return replace_table(run, backend, before, raw, recorded(run.log, before.ledger, raw.all_changes), begin)


def replace_table(
    run: TableRun,
    backend: Backend,
    before: Snapshot,
    raw: RawFiles,
    seen: Recorded,
    begin: str = "",
    check: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Replace the lake table with a full load, or with what of it differs, as its `ReloadMode` says.

    Args:
        before: The newest snapshot.
        raw: The raw files; the full load is complete.
        seen: Those of the change files that the table's ledger contains.
        begin: The last change file that the full load contains, relative; empty: the times of the files decide.
        check: Waits until the snapshot is checked, see `TableRun.check`; called before data files are used.

    Returns:
        Summary of the change, for logs and programs.

    Raises:
        InputError: The full load cannot be read.
        RawFilesLostError: It is an old one, and change files that were applied since are gone.
        ConfigurationError: `ColumnPolicy` names a column that no file has, or changes for keys that were erased.
    """
    started = time.perf_counter()
    full_load, changes = raw.full_load, raw.changes
    require_applied_changes(run, before, raw, begin)
    require_recognizable_erasures(run, before)

    _identify(full_load)
    inspections = with_types(run, before, full_load, inspect_raw_files(run, full_load))
    require_shared_columns(before.schema, full_load, inspections)
    require_known_columns(run, inspections)
    loaded = merged_schema(Schema(), full_load, inspections)
    lake = history_to_continue(run, before, loaded)
    drift = reload_drift(before, loaded, full_load[0].relative)
    require_accepted(run, drift.changes)
    # The oldest file's time: change files written later are applied, because the load may not contain their changes.
    loaded_utc = min(file.modified_utc for file in full_load)
    parts = [part for inspection in inspections for part in inspection.parts]
    check()

    def computed(*, by_difference: bool) -> tuple[TableShape, Result]:
        merged = merged_schema(base_schema(run, lake, reloads=not by_difference), full_load, inspections)
        shape = table_shape(run, merged, Snapshot(), loaded=inspections)
        load = partial(compute, run, backend, lake, shape, parts, started=started, loaded_utc=loaded_utc)
        return shape, load(by_difference=by_difference)

    shape, result, reason = _by_mode(run, before, loaded, computed)
    covered_to = begin or _covered(run, before, full_load, changes)
    facts = mark_loaded(before, full_load, raw.all_changes, covered_to, seen, by_hand=bool(begin))
    facts = replace(facts, source=drift.source, ordering="", load_in_quarantine=bool(result.quarantine_keys))
    kind = ChangeKind.FULL_LOAD
    return commit(run, before, facts, shape, result, kind, full_load, drift=drift.changes, reason=reason)


def _covered(run: TableRun, before: Snapshot, full_load: Sequence[RawFile], changes: Sequence[RawFile]) -> str:
    """The last change file that a full load contains; empty if none is known to be.

    The first full load of a table contains none: their times say nothing if the folder was copied. After a rollback to
    nothing, the state that it undid tells what the same files contained, and newer ones are a reload of it.
    """
    if before.exists:
        return covered_by_reload(before, full_load, changes)
    first = run.log.retained().first if before.change else 1
    states = map(run.log.snapshot, range(before.change, first - 1, -1))
    undone = next((state for state in states if state.exists), None)
    if undone is None:
        return ""
    return undone.floor if is_loaded(undone, full_load) else covered_by_reload(undone, full_load, changes)


def _by_mode(
    run: TableRun, before: Snapshot, loaded: Schema, computed: Callable[..., tuple[TableShape, Result]]
) -> tuple[TableShape, Result, str]:
    """Compute a full load as a difference if the table's `ReloadMode` is `diff` and the table allows it.

    Args:
        loaded: The load's columns.
        computed: Computes it.

    Returns:
        The result, and what a person may want to know of how it was made.
    """
    if not (run.settings.reload_by_difference and before.exists):
        return *computed(by_difference=False), ""
    obstacle = _obstacle_to_difference(run, before, loaded)
    if not obstacle:
        try:
            shape, result = computed(by_difference=True)
        except IntegrityError as error:  # of the table as it is; the load replaces it
            obstacle = str(error)
        else:
            counts = result.resolution.counts
            differing = counts.inserted - result.repeated, counts.updated, counts.deleted
            missing, changed, surplus = (f"{count:,}" for count in differing)
            found = f"rows missing in the lake {missing}, different {changed}, surplus {surplus}"
            return shape, result, f"by difference: {found}, equal {counts.superseded:,}"
    reason = f"replaced, although {Attribute.RELOAD_MODE} is diff: {obstacle}"
    log.warning("%s: %s", run.layout.name, reason)
    return *computed(by_difference=False), reason


def _obstacle_to_difference(run: TableRun, before: Snapshot, loaded: Schema) -> str:
    """Why a full load cannot be compared with the table; empty if it can."""
    if not before.primary_key:
        return f"the table has no {Attribute.PRIMARY_KEY}"
    try:
        require_same_keys(run, before)
        merged = merge_schemas(base_schema(run, before, reloads=False), loaded, "the full load")
    except (ConfigurationError, SchemaMismatchError) as error:
        return error.message
    missing = [column.name for column in before.schema if loaded.find(column.name) is None]
    if missing:
        return f"the full load has no column {missing[0]}"
    changed = [column.name for column in merged if column not in before.schema]
    return f"column {changed[0]} is new or has another type" if changed else ""


def _current(run: TableRun, *, reloads: bool = False) -> tuple[Snapshot, RawFiles]:
    """The table's newest snapshot, see `TableRun.current`, and its raw files. They are listed meanwhile."""
    with executor(run.raw.calls_at_once) as pool:
        listing = pool.submit(list_raw_files, run.raw, run.raw_prefix, run.settings)
        return run.current(reloads=reloads), listing.result()


def _identify(files: Iterable[RawFile]) -> None:
    """Find the identities of files that are about to be read. A folder has no ETags: there it hashes their content."""
    in_parallel(attrgetter("identity"), (file for file in files if callable(file.etag)), CALLS_AT_ONCE)


def load_incremental(run: TableRun, backend: Backend, last_file: str = "", new_file: str = "") -> dict[str, Any]:
    """Apply the change files that the lake table lacks, late ones included, up to `new_file`.

    If more files are due than one change may apply, the oldest are applied; see `first_batch`. Otherwise a second call
    with the same arguments does nothing.

    Args:
        last_file: Watermark of the state table, relative to the table's raw folder; empty for none. It is used only if
            there is no lake table yet: the lake's own snapshot records which files are applied.
        new_file: Last change file to apply, relative; empty for all.

    Returns:
        Summary of the change, for logs and programs; its `change` is None if there was nothing to apply.

    Raises:
        InputError: A change file cannot be read.
        ConfigurationError: The table's keys differ from those that the lake table was created with.
    """
    before, raw = _current(run)
    base = before if before.exists else begin_after(before, last_file)
    return apply_changes(run, backend, before, base, raw, recorded(run.log, base.ledger, raw.changes), new_file)


def apply_changes(
    run: TableRun,
    backend: Backend,
    before: Snapshot,
    base: Snapshot,
    raw: RawFiles,
    seen: Recorded,
    new_file: str,
    check: Callable[[], object] = lambda: None,
    up_to_date_utc: datetime | None = None,
) -> dict[str, Any]:
    """Apply due change files. If they are more than one change may apply, the oldest; see `first_batch`.

    Args:
        before: The newest snapshot.
        base: The same, or where the changes of a table without any begin.
        raw: The raw files.
        seen: Those of the change files that the table's ledger contains.
        new_file: Last change file to apply, relative; empty for all.
        check: As for `replace_table`.
        up_to_date_utc: When the table was last known to contain every raw file; None if it never was.

    Returns, raises:
        As `load_incremental`.
    """
    started = time.perf_counter()
    end = file_order(new_file)
    changes = raw.changes
    due, too_late, _ = pending_changes(base, changes, run.settings.late_window_hours, seen)
    left_out = {"too_late": [file.relative for file in too_late]}
    listed = [file for file in due if not end or file.order <= end]
    batch = first_batch(listed, run.settings.max_files_per_run, run.settings.max_bytes_per_run)
    if not batch:
        return {**_no_change(run, before, "every change file is in the lake already"), **left_out}

    change, drift, result = _compute_changes(run, backend, before, due, len(batch), started, check)
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
        written_utc=written_utc(change.files, up_to_date_utc),
    )
    return {**summary, **left_out}


class _Computed(NamedTuple):
    """A computed change, and the source's columns after it."""

    change: ChangeFiles
    drift: SourceDrift
    result: Result


def _compute_changes(
    run: TableRun,
    backend: Backend,
    before: Snapshot,
    due: Sequence[RawFile],
    count: int,
    started: float,
    check: Callable[[], object],
) -> _Computed:
    """Compute the change of the first files that are due.

    If a statement that moves rows between keys goes on in later files, these become part of the change.

    Args:
        count: Number of files to apply, unless more are needed.
        started: See `compute`.
        check: As for `replace_table`.
    """
    _identify(due[:count])
    change = inspect_changes(run, before, due[:count])
    columns = ((file, one.schema) for file, one in zip(change.files, change.inspections, strict=True))
    drift = incremental_drift(before, list(columns))
    require_accepted(run, drift.changes)
    require_rows_kept_keys(run, before, change)
    check()
    try:
        parts, ordering = parts_to_read(change), change.ordering
        result = compute(run, backend, before, change.shape, parts, started=started, ordering=ordering)
    except UnsettledKeyError:
        if count >= len(due):
            raise
        return _compute_changes(run, backend, before, due, 2 * count, started, check)
    return _Computed(change, drift, result)


def _no_change(run: TableRun, before: Snapshot, reason: str) -> dict[str, Any]:
    return {"table": str(run.layout.name), "change": None, "reason": reason, "newest_change": before.change}
