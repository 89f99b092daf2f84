"""Whether a change keeps the history of a table, from where it goes on, and what the history is after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.table_files import log_of_sibling, visible_history
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.scd2.tasks import HistoryPlan
from cdclake.lake.storage.key_ranges import without_key_ranges
from cdclake.model.layout import HISTORY, HISTORY_SUFFIX
from cdclake.model.names import Attribute
from cdclake.model.schema import Schema, merge_schemas
from cdclake.model.snapshot import History
from cdclake.model.table import TableState
from cdclake.model.versions import OWN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.merge.tasks import Locations
    from cdclake.lake.operations.engine import Rewrite
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, Snapshot

log = logs.bind(__name__)


def plan_history(
    run: TableRun,
    before: Snapshot,
    shape: TableShape,
    locations: Locations,
    *,
    loaded_utc: datetime | None,
    sets_history_time: bool,
) -> HistoryPlan | None:
    """What the next change of a table does to its history; None if none is kept.

    Args:
        before: The table before the change.
        shape: Its rows after it.
        locations: Where the table's own files lie.
        loaded_utc: Since when the rows of a full load are as they are; None if the change is no full load.
        sets_history_time: Whether rows of the change tell in the table's `HistoryTimeColumn` since when they are so.

    Raises:
        ConfigurationError: The table cannot have a history, or not with these settings.
        LakeFilesError: There are files of others where the history is to be.
    """
    now = before.history
    if not run.settings.history:
        if now and now.since is not None:
            log.warning("the history is no longer kept: its files stay as they are after change %d", before.change)
        return None
    _require_possible(run, shape, now)
    _require_own_folder(run)
    if not now and visible_history(run.log):
        message = f"The folder of the history of {run.layout.name} holds files that cdclake did not write"
        remedy = f"Empty it, or set {Attribute.HISTORY} to false"
        raise LakeFilesError(message, remedy=remedy, folder=run.layout.history_prefix)
    full_load, change = loaded_utc is not None, before.change + 1
    loads = (*(now.loads if now else ()), *((change,) if full_load or not before.exists else ()))
    compares = full_load or not now or now.since is None
    since = change if compares or not now else now.since
    has_gap = since is not None and since > max(loads, default=0)
    clock = run.clock()
    rewrite_all = now is not None and has_type_change(now.schema, shape.schema)
    opened, closed = (_relative(files, rewrite_all) for files in ((now.open, now.closed) if now else ((), ())))
    return HistoryPlan(
        change=change,
        open_files=opened,
        closed_files=closed,
        loads=loads,
        compare_all=compares,
        tombstones=before.tombstones if has_gap and not full_load else (),
        time_column=run.settings.history_time_column,
        change_time_column=run.settings.history_time_column if sets_history_time else "",
        loaded_utc=loaded_utc or _last_load(before) or clock,
        now_utc=clock,
        rewrite_all=rewrite_all,
        locations=replace(locations, table_prefix=run.layout.history_prefix, staging=locations.staging + "history-"),
    )


def history_after(
    before: Snapshot,
    shape: TableShape,
    work: HistoryPlan | None,
    staged: tuple[Rewrite, Rewrite] | None,
    load: int | None,
) -> History | None:
    """The history after a change.

    Args:
        before: The table before it.
        shape: Its rows after it.
        work: What the change does to the history; None if it is not kept.
        staged: What was staged of open and closed versions; new files still carry their staged key as path.
        load: Number of the change, if it is a full load.
    """
    now = before.history
    if not (work and staged):
        # What comes after a load is ordered anew, whether or not the history is kept meanwhile.
        return now and replace(now, since=None, loads=(*now.loads, *([load] if load else [])))
    opened, closed = staged
    return History(
        schema=shape.schema,
        primary_key=shape.primary_key,
        open=_after(now.open if now else (), opened),
        closed=_after(now.closed if now else (), closed),
        loads=work.loads,
        since=work.change if work.compare_all or not now else now.since,
    )


def base_schema(run: TableRun, before: Snapshot, *, reloads: bool) -> Schema:
    """Columns that the table has after a change, whatever comes with it.

    A table that keeps its history keeps every column of it in a type as wide, a full load or not: both have the same.

    Args:
        reloads: Whether the change is a full load.

    Raises:
        SchemaMismatchError: The table had a full load with another type while its history was not kept.
    """
    columns = Schema() if reloads else before.schema
    if run.settings.history and before.history:
        return merge_schemas(columns, before.history.schema, "the history")
    return columns


def has_type_change(before: Schema, after: Schema) -> bool:
    """Whether a column there was has another type now: readers want one type in all files of a table."""
    return any((now := after.find(was.name)) is not None and now.type != was.type for was in before)


def _typed(schema: Schema) -> set[tuple[str, str]]:
    return {(column.name.lower(), column.type) for column in schema}


def _after(files: tuple[DataFile, ...], staged: Rewrite) -> tuple[DataFile, ...]:
    return (*unchanged_files(files, staged.rewritten), *staged.written)


def _relative(files: Sequence[DataFile], rewrite_all: bool) -> tuple[DataFile, ...]:
    """Data files with their paths in the history's folder."""
    inside = tuple(replace(file, path=file.path[len(HISTORY) :]) for file in files)
    return without_key_ranges(inside) if rewrite_all else inside


def _last_load(before: Snapshot) -> datetime | None:
    if not before.full_load_utc:
        return None
    return datetime.strptime(before.full_load_utc, TableState.DATE_FORMAT).replace(tzinfo=timezone.utc)


def _require_own_folder(run: TableRun) -> None:
    """Refuse a history where another table lies; that one is refused where a history is, see `table_files.compare`."""
    name = run.layout.name
    other = log_of_sibling(run.log, f"{name.table}{HISTORY_SUFFIX}")
    if other.head():
        message = f"The history of {name} would lie in the folder of {other.layout.name}"
        remedy = f"Set {Attribute.HISTORY} to false, or have DMS rename that table by a mapping rule"
        raise ConfigurationError(message, remedy=remedy, table=name)


def _require_possible(run: TableRun, shape: TableShape, now: History | None) -> None:
    settings, name = run.settings, run.layout.name
    off = f"set {Attribute.HISTORY} to false"
    if not shape.primary_key:
        message = f"{name} has no primary key, and its history could not tell of which row a version is"
        raise ConfigurationError(message, remedy=f"Set {Attribute.PRIMARY_KEY}, or {off}", table=name)
    if shape.partial:
        message = f"{name} has {Attribute.CSV_NO_SUP_VALUE}, and a change that leaves columns out is no whole version"
        remedy = f"Have the source log all columns and remove {Attribute.CSV_NO_SUP_VALUE}, or {off}"
        raise ConfigurationError(message, remedy=remedy, table=name)
    if now and now.primary_key != shape.primary_key:
        message = f"The history of {name} was made with {Attribute.PRIMARY_KEY} '{','.join(now.primary_key)}'"
        raise ConfigurationError(message, remedy=f"Set it back, or {off}: its files then stay as they are", table=name)
    if now and _typed(merge_schemas(now.schema, shape.schema, "the table")) != _typed(shape.schema):
        message = f"The history of {name} has columns, or wider types of columns, that the table has no more"
        raise ConfigurationError(message, remedy=f"Apply the next change files first, or {off}", table=name)
    taken = [column.name for column in OWN_COLUMNS if shape.schema.find(column.name)]
    if taken:
        message = f"{name} has a column {taken[0]}, which its history has for itself"
        raise ConfigurationError(message, remedy=f"Rename it by a DMS mapping rule, or {off}", table=name)
    column = shape.schema.find(settings.history_time_column) if settings.history_time_column else None
    if settings.history_time_column and (column is None or column.type != "timestamp"):
        message = f"{name} has no timestamp column {settings.history_time_column}"
        raise ConfigurationError(message, remedy=f"Correct {Attribute.HISTORY_TIME_COLUMN}, or remove it", table=name)
