"""LoadInitial and LoadIncremental: what is new in the raw folder becomes one committed, visible change."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from cdclake.commit.ancestry import ancestry
from cdclake.errors import InputError, RawFilesLostError
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.operations.commit import commit, snapshot_after
from cdclake.lake.operations.compute import compute, require_same_keys, table_shape
from cdclake.lake.operations.history import base_schema
from cdclake.lake.raw import reader
from cdclake.model.change import ChangeKind
from cdclake.model.due_files import (
    begin_after,
    covered_by_full_load,
    first_batch,
    full_load_facts,
    mark_applied,
    pending_changes,
)
from cdclake.model.rawfiles import file_order, missing_loads
from cdclake.model.schema import merge_schemas
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import Snapshot

CONCURRENT_INSPECTIONS = 16


def load_initial(run: TableRun, spark: Backend, base_change: int | None = None) -> dict[str, Any]:
    """Replace the lake table by the full load in the raw folder.

    A second call with the same arguments does nothing.

    Args:
        base_change: Number of the lake's newest change when the load was decided on: the load is done if there is
            another by now. None: it is done if the table was last loaded from the very same files.

    Returns:
        Summary of the change for a log or a program; `change` is None if nothing was to be done.

    Raises:
        InputError: There is no full load, or it cannot be taken.
    """
    started = time.perf_counter()
    before = run.current(reloads=True)
    full_load, changes = list_raw_files(run.raw, run.raw_prefix, run.settings.cdc_path)
    if not full_load:
        remedy = "Confirm that the DMS task does a full load of this table into this folder"
        raise InputError("The raw folder holds no full-load files", remedy=remedy, file=run.raw_prefix)
    missing = missing_loads(full_load)
    if missing:
        remedy = "Wait until the DMS task has loaded the table, or have it reload the table"
        raise InputError("A full-load file is missing before another", remedy=remedy, file=missing[0])
    names, newest = full_load_facts(full_load)
    same = (before.full_load_files, before.full_load_utc) == (names, newest)
    if same if base_change is None else before.change != base_change:
        return _nothing(run, before, "this full load is in the lake already")

    looks = _inspect(run, full_load)
    shape = table_shape(run, _merged(base_schema(run, before, reloads=True), full_load, looks))
    # A change file written since then may not be in what was loaded, and is applied.
    loaded_utc = min(file.modified_utc for file in full_load)
    listed_seconds = time.perf_counter() - started
    result = compute(run, spark, before, shape, _parts(looks), loaded_utc=loaded_utc).after_listing(listed_seconds)
    begun = begin_after(before, covered_by_full_load(full_load, changes) if before.exists else "")
    after = replace(snapshot_after(run, begun, shape, result, kept=()), full_load_files=names, full_load_utc=newest)
    return commit(run, before, after, result, ChangeKind.FULL_LOAD, full_load)


def load_incremental(
    run: TableRun, spark: Backend, last_file: str, new_file: str, listed_files: int = 0
) -> dict[str, Any]:
    """Apply the change files that the lake table lacks, late ones included, up to a given one.

    If more files are due than one change may take, the oldest are applied, see `cdclake.model.due_files.first_batch`.
    The lake's own snapshot holds what was applied; `last_file` is used only while there is none. A second call with
    the same arguments does nothing, unless more files were due than one change may take.

    Args:
        last_file: Watermark of the state table, relative to the table's raw folder; empty for none.
        new_file: Last change file to apply, relative; empty for all there are.
        listed_files: So many change files up to `new_file` the lake lacked when they were listed before.

    Returns:
        Summary of the change for a log or a program; `change` is None if nothing was to be done.

    Raises:
        InputError: A change file cannot be taken.
        RawFilesLostError: Fewer files are there than were listed; nothing is applied.
        ConfigurationError: The table's keys are not those that the lake table was made with.
    """
    started = time.perf_counter()
    before = run.current()
    known = before if before.exists else begin_after(before, last_file)
    end = file_order(new_file)
    _, changes = list_raw_files(run.raw, run.raw_prefix, run.settings.cdc_path)
    last_applied, written_anew = _last_applied(run, before)
    due, too_late = pending_changes(known, changes, run.settings.late_window_hours, last_applied)
    too_late = [file for file in too_late if file.relative not in written_anew]
    due = [file for file in due if not end or file.order <= end]
    if due and len(due) < listed_files:
        message = f"Of {listed_files} change files that were to be applied, {len(due)} are left in the raw bucket"
        remedy = "Bring them back, or have DMS reload the table; nothing was applied"
        raise RawFilesLostError(message, remedy=remedy, table=run.layout.name)
    due = list(first_batch(due, run.settings.max_files_per_run, run.settings.max_bytes_per_run))
    if not due:
        nothing = _nothing(run, before, "every change file is in the lake already")
        return {**nothing, "too_late": [file.relative for file in too_late]}

    looks = _inspect(run, due)
    shape = table_shape(run, _merged(base_schema(run, before, reloads=False), due, looks))
    require_same_keys(run, before, shape)
    listed_seconds = time.perf_counter() - started
    result = compute(run, spark, before, shape, _parts(looks)).after_listing(listed_seconds)
    after = snapshot_after(run, known, shape, result, unchanged_files(before.files, result.rewritten))
    after = mark_applied(after, due, run.settings.late_window_hours)
    return commit(run, before, after, result, ChangeKind.INCREMENTAL, due, too_late)


def _inspect(run: TableRun, files: Sequence[RawFile]) -> list[reader.Inspection]:
    fs = run.raw_fs.open()
    with ThreadPoolExecutor(CONCURRENT_INSPECTIONS) as pool:
        return list(pool.map(lambda file: reader.inspect(fs, file, run.settings), files))


def _merged(schema: Schema, files: Sequence[RawFile], looks: Sequence[reader.Inspection]) -> Schema:
    pairs = zip(files, looks, strict=True)
    return reduce(lambda merged, pair: merge_schemas(merged, pair[1].schema, pair[0].relative), pairs, schema)


def _parts(looks: Sequence[reader.Inspection]) -> list[reader.Slice]:
    return [part for look in looks for part in look.parts]


def _last_applied(run: TableRun, before: Snapshot) -> tuple[datetime | None, frozenset[str]]:
    """When the raw files in the table were last applied, None if none were, and which were written anew since.

    Takeovers, rollbacks, direct changes and releases since do not count: they looked for no raw file. An erasure may
    have written raw files anew, which are not to be taken for files that came too late.
    """
    written_anew = set[str]()
    for record in ancestry(run.log, before.change):
        if record.kind is ChangeKind.ERASURE:
            written_anew.update(record.raw_files)
        elif record.kind not in (ChangeKind.DIRECT, ChangeKind.RELEASE):
            return datetime.fromisoformat(record.created_utc), frozenset(written_anew)
    return None, frozenset(written_anew)


def _nothing(run: TableRun, before: Snapshot, reason: str) -> dict[str, Any]:
    return {"table": str(run.layout.name), "change": None, "reason": reason, "newest_change": before.change}
