"""A direct change: rows that a person gives become one committed, visible change, or nothing does."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Callable

from cdclake.commit.timeline import line
from cdclake.errors import ConfigurationError, RefusedChangeError
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.operations.commit import commit, snapshot_after
from cdclake.lake.operations.compute import compute, locations_of, require_same_keys, table_shape
from cdclake.lake.operations.direct.input_columns import columns_of, input_columns, schema_of_rows
from cdclake.lake.operations.direct.input_tables import is_empty_input
from cdclake.lake.operations.direct.prepare import PrepareRequest, prepare
from cdclake.lake.raw.reader import Slice
from cdclake.model.change import ChangeKind
from cdclake.model.direct import call_stamp, direct_file
from cdclake.model.due_files import begin_after
from cdclake.model.names import Attribute
from cdclake.model.rawfiles import file_order
from cdclake.model.schema import DELETE, INSERT, UPDATE, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.lake.merge.resolve import Counts
    from cdclake.lake.operations.direct.input_tables import Rows
    from cdclake.lake.operations.direct.prepare import Prepared
    from cdclake.lake.operations.engine import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import Snapshot

ReadInput = Callable[["Snapshot"], "Rows"]
"""Gives the rows of a change, knowing the table as it is before."""


@dataclass(frozen=True)
class DirectChange:
    """A direct change to make.

    Attributes:
        op: `I`, `U` or `D`.
        rows: Gives the rows: to insert, the keys and columns to update, or the keys to delete.
        reason: Why, for the change record.
        made_by: Who.
    """

    op: str
    rows: ReadInput
    reason: str = ""
    made_by: str = ""


@dataclass(frozen=True)
class DirectResult:
    """What a direct change did.

    Attributes:
        change: Its number; None if there was nothing to do, so that none was made.
        inserted: Rows that are new; likewise updated and deleted.
        absent: Keys to delete that the table does not have.
    """

    change: int | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0


def change_directly(run: TableRun, spark: Backend, wanted: DirectChange, applied_before: str = "") -> DirectResult:
    """Make a direct change, as a whole or not at all.

    What is remembered of change files (watermark, files applied, horizon) stays as it is, so the next run of the jobs
    goes on from where it was.

    Args:
        run: The table; its raw folder is not looked at.
        applied_before: Watermark of the state table, relative; counts while there is no lake table.

    Raises:
        RefusedChangeError: It cannot be done as asked for; nothing was changed.
        ConfigurationError: The table's keys are not those that the lake table was made with, or there is none.
        LakeFilesError: Somebody else added, removed or replaced files.
        CommitConflictError: Another run committed first; nothing of this change is visible.
    """
    started = time.perf_counter()
    settings = replace(run.settings, max_quarantined_rows=0)
    run = replace(run, raw=run.log.store, raw_fs=run.lake_fs, settings=settings)
    before = run.current()
    known = before if before.exists else begin_after(before, applied_before)
    if wanted.op != INSERT:
        _require_key(run, before)
    try:
        rows = wanted.rows(before)
        if is_empty_input(rows):
            return DirectResult()
        shape = _shape(run, before, rows)
        prepared = _prepare(run, spark, before, shape, wanted.op, rows)
        if not prepared.rows:
            return DirectResult(absent=prepared.found.absent)
        parts = _slices(run, before, prepared)
        seconds = time.perf_counter() - started
        sets_history_time = _sets(run.settings.history_time_column, wanted.op, rows)
        result = compute(run, spark, before, shape, parts, sets_history_time=sets_history_time).after_listing(seconds)
        _check_applied(run, wanted.op, prepared.rows, result)
    except BaseException:
        _remove_staged(run, before)
        raise
    after = snapshot_after(run, known, shape, result, unchanged_files(before.files, result.rewritten))
    whole = replace(parts[0].file, size_bytes=sum(part.size_bytes for part in parts))
    commit(run, before, after, result, ChangeKind.DIRECT, [whole], reason=wanted.reason, made_by=wanted.made_by)
    counts = result.resolution.counts
    absent = prepared.found.absent if wanted.op == DELETE else 0
    return DirectResult(after.change, counts.inserted, counts.updated, counts.deleted, absent)


def _sets(column: str, op: str, rows: Rows) -> bool:
    """Whether a change sets a column in all its rows. What it does not set is what the lake has, and is older."""
    given = ({one.name.lower() for one in columns} for columns in input_columns(rows))
    return op != DELETE and all(column.lower() in names for names in given)


def _shape(run: TableRun, before: Snapshot, rows: Rows) -> TableShape:
    schema = before.schema if before.exists else schema_of_rows(rows, run.settings.schema or Schema())
    shape = table_shape(run, schema)
    require_same_keys(run, before, shape)
    return shape


def _require_key(run: TableRun, before: Snapshot) -> None:
    name = run.layout.name
    if not before.exists:
        message = f"There is no lake table {name} yet"
        raise ConfigurationError(message, remedy="Insert rows, which makes it, or let the jobs load it")
    if not run.settings.primary_key:
        message = f"{name} has no key by which rows could be updated or deleted"
        remedy = f"Set {Attribute.PRIMARY_KEY} and load the table anew; without it rows can be inserted"
        raise ConfigurationError(message, remedy=remedy)


def _prepare(run: TableRun, spark: Backend, before: Snapshot, shape: TableShape, op: str, rows: Rows) -> Prepared:
    columns = [columns_of(op, given, shape.schema, shape.primary_key) for given in input_columns(rows)]
    asked = PrepareRequest(op, shape, run.settings.order_column, before.files, locations_of(run, before))
    prepared = prepare(spark, asked, rows, columns)
    fault = next(_faults(op, prepared, shape.primary_key), None)
    if fault:
        message, remedy, names = fault
        raise _refused(run, message, remedy, ", ".join(names))
    return prepared


def _faults(op: str, prepared: Prepared, key: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """What is wrong with given rows, what to do, and the columns. Values are not named, as anybody may read logs."""
    given, found = prepared.given, prepared.found
    if given.unfit:
        figures = ", ".join(f"{name}: {count}" for name, count in given.unfit.items())
        message = f"Some values are not of the type of their column ({figures})"
        yield message, "Give values that the type holds exactly", list(given.unfit)
    if given.no_key:
        yield f"In {given.no_key} rows the key is null", "Give every row a key", key
    if found.repeated:
        yield f"{found.repeated} rows have a key that came before", "Give each key once", key
    if op == INSERT and found.present:
        yield f"{found.present} keys are in the table already", "Update these rows, or leave them out", key
    if op == UPDATE and found.absent:
        yield f"{found.absent} keys are not in the table", "Insert these rows, or leave them out", key


def _refused(run: TableRun, message: str, remedy: str, column: str | None = None) -> RefusedChangeError:
    return RefusedChangeError(message, remedy=f"{remedy}. Nothing was changed", table=run.layout.name, column=column)


def _slices(run: TableRun, before: Snapshot, prepared: Prepared) -> list[Slice]:
    """The change files as the engine reads them: parts of one file that is named by the time of the call."""
    now = run.clock()
    deletes = (file.newest for file in before.tombstones)
    applied = (file_order(before.watermark), *_last_direct(run, before))
    stamp = call_stamp(now, [*applied, *deletes, *prepared.found.newest])
    starts = accumulate((file.rows for file in prepared.files), initial=0)
    return [
        Slice(direct_file(file.key, stamp, file.size_bytes, now), file.size_bytes, first_row=start)
        for file, start in zip(prepared.files, starts, strict=False)
    ]


def _last_direct(run: TableRun, before: Snapshot) -> list[str]:
    """Order of the direct change that made the table as it is, if one did: calls may come in one millisecond."""
    record = next(line(run.log, before.change), None)
    return [file_order(name) for name in record.raw_files] if record and record.kind is ChangeKind.DIRECT else []


def _check_applied(run: TableRun, op: str, rows: int, result: Result) -> None:
    """Refuse a change of which a row would lose against a later one.

    Raises:
        RefusedChangeError: Says how many.
    """
    lost = rows - _count(op, result.resolution.counts)
    if not lost:
        return
    if column := run.settings.order_column:
        message = f"{lost} rows come before a change of their key that the table has or has deleted, by {column}"
        raise _refused(run, message, f"Give them a greater value of {column}", column)
    message = f"{lost} rows come before a change of their key that the table has or has deleted, by the time"
    raise _refused(run, message, f"It is {run.clock().isoformat()} here: correct the clock, or wait")


def _count(op: str, counts: Counts) -> int:
    return {INSERT: counts.inserted, UPDATE: counts.updated, DELETE: counts.deleted}[op]


def _remove_staged(run: TableRun, before: Snapshot) -> None:
    """Delete what this run staged, which is a copy of rows; nothing of it was committed."""
    locations = locations_of(run, before)
    store = run.log.store
    staged = [entry.key for prefix in (locations.staging, locations.tombstones) for entry in store.list(prefix)]
    if staged:
        store.delete(staged)
