"""Applies a direct change: a user's rows become one committed, visible change, or nothing changes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Callable

from cdclake.commit.ancestry import ancestry
from cdclake.errors import BadRowError, ConfigurationError, RefusedChangeError
from cdclake.lake.operations.commit import commit
from cdclake.lake.operations.compute import compute, locations_of, require_same_keys, table_shape
from cdclake.lake.operations.direct.input_columns import infer_schema, input_columns, match_columns
from cdclake.lake.operations.direct.input_tables import is_empty_input
from cdclake.lake.operations.direct.prepare import PrepareRequest, prepare
from cdclake.lake.raw.rows import Slice
from cdclake.model.change.record import ChangeKind
from cdclake.model.direct import call_stamp, direct_file
from cdclake.model.due_files import begin_after
from cdclake.model.position import file_and_row
from cdclake.model.raw.files import file_order
from cdclake.model.schema import DELETE, INSERT, UPDATE, Schema
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import display_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.lake.operations.direct.input_tables import InputRows
    from cdclake.lake.operations.direct.prepare import Prepared
    from cdclake.lake.operations.request import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import Snapshot

ReadInput = Callable[["Snapshot"], "InputRows"]
"""Returns the rows of a change, given the table before it."""


@dataclass(frozen=True)
class DirectChange:
    """A direct change to apply.

    Attributes:
        op: `I`, `U` or `D`.
        rows: Returns the rows to insert, the keys and columns to update, or the keys to delete.
        reason: Why, for the change record.
        made_by: Who requested it, for the change record.
    """

    op: str
    rows: ReadInput
    reason: str = ""
    made_by: str = ""


@dataclass(frozen=True)
class DirectResult:
    """The effect of a direct change.

    Attributes:
        change: Its number; None if there was nothing to change.
        inserted: Number of inserted rows; likewise updated and deleted.
        absent: Number of keys to delete that the table does not have.
    """

    change: int | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0


def change_directly(run: TableRun, backend: Backend, change: DirectChange, watermark: str = "") -> DirectResult:
    """Apply a direct change completely or not at all.

    The watermark, the applied files and the horizon stay the same, so the next run of the jobs is not affected.

    Args:
        run: The table. Its raw folder is not read.
        watermark: Watermark of the state table, relative; used only if there is no lake table yet.

    Raises:
        RefusedChangeError: The change is not possible; nothing was changed.
        ConfigurationError: The table's keys differ from the lake table's, or there is no lake table.
        LakeFilesError: Another program added, removed or replaced files.
        CommitConflictError: Another run committed first; nothing of this change is visible.
    """
    started = time.perf_counter()
    if run.settings.column_policy.rules:
        message = f"{run.layout.name} has a {Attribute.COLUMN_POLICY}, and whether the rows obey it is unknown"
        remedy = "Change the rows at the source, or correct a raw file and reload the table; nothing was changed"
        raise RefusedChangeError(message, remedy=remedy)
    settings = replace(run.settings, max_quarantined_rows=0)
    run = replace(run, raw=run.log.store, raw_fs=run.lake_fs, settings=settings)
    before = run.current()
    base = before if before.exists else begin_after(before, watermark)
    if change.op != INSERT:
        _require_key(run, before)
    try:
        rows = change.rows(before)
        if is_empty_input(rows):
            return DirectResult()
        shape = _shape(run, before, rows)
        prepared = _prepare(run, backend, before, shape, change.op, rows)
        if not prepared.rows:
            return DirectResult(absent=prepared.keys.absent)
        parts = _slices(run, before, prepared)
        sets_history_time = _sets(run.settings.history_time_column, change.op, rows)
        result = compute(
            run,
            backend,
            before,
            shape,
            parts,
            started=started,
            ordering=before.ordering,
            sets_history_time=sets_history_time,
        )
        _check_applied(run, change.op, prepared.rows, result)
    except BaseException as error:
        _remove_staged(run, before)
        if isinstance(error, BadRowError):  # its remedy is for raw files
            raise _refused(run, error.message, "Correct the values") from error
        raise
    whole = replace(parts[0].file, size_bytes=sum(part.size_bytes for part in parts))
    reason, made_by = change.reason, change.made_by
    summary = commit(run, before, base, shape, result, ChangeKind.DIRECT, [whole], reason=reason, made_by=made_by)
    counts = result.resolution.counts
    absent = prepared.keys.absent if change.op == DELETE else 0
    return DirectResult(summary["change"], counts.inserted, counts.updated, counts.deleted, absent)


def _sets(column: str, op: str, rows: InputRows) -> bool:
    """Whether a change sets a column in all its rows. If not, the column keeps an older value from the lake."""
    tables = ({one.name.lower() for one in columns} for columns in input_columns(rows))
    return op != DELETE and all(column.lower() in names for names in tables)


def _shape(run: TableRun, before: Snapshot, rows: InputRows) -> TableShape:
    schema = before.schema if before.exists else infer_schema(rows, run.settings.schema or Schema())
    shape = table_shape(run, schema, before)
    require_same_keys(run, before)
    return shape


def _require_key(run: TableRun, before: Snapshot) -> None:
    name = run.layout.name
    if not before.exists:
        message = f"There is no lake table {name} yet"
        raise ConfigurationError(message, remedy="Create it by inserting rows, or wait until the jobs load it")
    if not run.settings.primary_key:
        message = f"Rows of {name} can only be inserted, because the table has no key"
        remedy = f"Set {Attribute.PRIMARY_KEY} and reload the table to update or delete rows"
        raise ConfigurationError(message, remedy=remedy)


def _prepare(
    run: TableRun, backend: Backend, before: Snapshot, shape: TableShape, op: str, rows: InputRows
) -> Prepared:
    columns = [match_columns(op, table, shape.schema, shape.primary_key) for table in input_columns(rows)]
    order, declared = run.settings.order_column, run.settings.schema
    is_declared = declared is not None and declared.find(order) is not None
    request = PrepareRequest(op, shape, order, is_declared, before.files, locations_of(run, before))
    prepared = prepare(backend, request, rows, columns)
    problem = next(_problems(op, prepared, shape.primary_key), None)
    if problem:
        message, remedy, names = problem
        raise _refused(run, message, remedy, ", ".join(names))
    return prepared


def _problems(op: str, prepared: Prepared, key: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Problems of the input rows: message, remedy, columns. Messages contain no values, because they reach logs."""
    rows, keys = prepared.input_stats, prepared.keys
    if rows.invalid:
        counts = ", ".join(f"{name}: {count}" for name, count in rows.invalid.items())
        message = f"Some values do not fit the type of their column ({counts})"
        yield message, "Use values that the type can represent exactly", list(rows.invalid)
    if rows.null_keys:
        yield f"{rows.null_keys} rows have null in a key column", "Set the key of every row", key
    if keys.repeated:
        yield f"{keys.repeated} rows repeat the key of an earlier row", "Use each key once", key
    if op == INSERT and keys.present:
        yield f"{keys.present} keys are in the table already", "Update these rows, or leave them out", key
    if op == UPDATE and keys.absent:
        yield f"{keys.absent} keys are not in the table", "Insert these rows, or leave them out", key


def _refused(run: TableRun, message: str, remedy: str, column: str | None = None) -> RefusedChangeError:
    return RefusedChangeError(message, remedy=f"{remedy}. Nothing was changed", table=run.layout.name, column=column)


def _slices(run: TableRun, before: Snapshot, prepared: Prepared) -> list[Slice]:
    """The change files as the engine reads them: slices of one file, whose name is the time of the call."""
    now = run.clock()
    deletes = (file.newest for file in before.tombstones)
    applied = (file_order(before.watermark), *_last_direct(run, before))
    erased = (file_and_row(one.last)[0] for one in before.erased if one.last)
    stamp = call_stamp(now, [*applied, *deletes, *map(file_order, erased), *prepared.keys.newest])
    starts = accumulate((file.rows for file in prepared.files), initial=0)
    return [
        Slice(direct_file(file.key, stamp, file.size_bytes, now), file.size_bytes, first_row=start)
        for file, start in zip(prepared.files, starts, strict=False)
    ]


def _last_direct(run: TableRun, before: Snapshot) -> list[str]:
    """File order of the newest change if it is a direct one: two calls may happen in the same millisecond."""
    record = next(ancestry(run.log, before.change), None)
    return [file_order(name) for name in record.raw_names] if record and record.kind is ChangeKind.DIRECT else []


def _check_applied(run: TableRun, op: str, rows: int, result: Result) -> None:
    """Refuse a change if a later change of one of its keys supersedes a row.

    Raises:
        RefusedChangeError: Contains the number of superseded rows.
    """
    counts = result.resolution.counts
    lost = rows - {INSERT: counts.inserted, UPDATE: counts.updated, DELETE: counts.deleted}[op]
    if not lost:
        return
    message = f"{lost} rows are older than a change of their key that is already applied"
    if column := run.settings.order_column:
        raise _refused(run, f"{message}, according to {column}", f"Increase {column} in these rows", column)
    remedy = f"The clock of this machine shows {display_utc(run.clock())}: correct it, or wait"
    raise _refused(run, f"{message}, according to the time", remedy)


def _remove_staged(run: TableRun, before: Snapshot) -> None:
    """Delete this run's staged files, which contain rows but were not committed."""
    locations = locations_of(run, before)
    for prefix in (locations.staging, locations.tombstones):
        run.log.store.remove(prefix, lambda _: False)
