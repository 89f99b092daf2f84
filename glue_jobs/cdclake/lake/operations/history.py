"""Plans how a change affects the history of its table, and builds the history after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.log import require_place_of_history, ways_out
from cdclake.commit.table_files import clear_history_folder
from cdclake.errors import ConfigurationError, LakeFilesError, SchemaMismatchError
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.scd2.tasks import HistoryPlan
from cdclake.lake.scd2.versions import history_field_ids
from cdclake.lake.storage.key_ranges import without_key_ranges
from cdclake.model.iceberg.field_ids import FieldIds
from cdclake.model.schema import Schema
from cdclake.model.snapshot import RELOAD, History, set_command
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.model.type_widening import clashes, merge_schemas
from cdclake.model.versions import OWN_COLUMNS

if TYPE_CHECKING:
    from cdclake.lake.merge.read_changes import Locations
    from cdclake.lake.operations.request import Rewrite
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
    released_utc: datetime | None,
    sets_history_time: bool,
) -> HistoryPlan | None:
    """Plan how a table's next change affects its history; None if the table keeps none.

    Args:
        shape: Columns and keys after it.
        locations: Where the change reads and writes the table's own files.
        loaded_utc: For a full load, the time since when its rows are valid; None for other changes.
        released_utc: See `cdclake.lake.operations.compute.compute`.
        sets_history_time: See `cdclake.lake.operations.compute.compute`.

    Raises:
        ConfigurationError: The table cannot have a history, or not with these settings.
        LakeFilesError: The history's folder contains files of another program.
    """
    existing = before.history
    if not run.settings.history:
        if existing and existing.is_kept:
            log.warning("history is turned off; its files stay as they were after change %d", before.change)
        return None
    _require_possible(run, shape, existing)
    own = f"Set {Attribute.HISTORY} to false, or rename that table with a DMS mapping rule"
    require_place_of_history(run.log, ways_out(run.layout.name) if existing else own)
    if not existing and clear_history_folder(run.log, before.change):
        message = f"The history folder of {run.layout.name} contains files that cdclake did not write"
        remedy = f"Empty it, or set {Attribute.HISTORY} to false"
        raise LakeFilesError(message, remedy=remedy, folder=run.layout.history.table_prefix)
    full_load, change = loaded_utc is not None, before.change + 1
    loads = (*(existing.loads if existing else ()), *((change,) if full_load or not before.exists else ()))
    compare_all = full_load or not (existing and existing.is_kept)
    since = change if compare_all or not existing else existing.since
    has_gap = since is not None and since > max(loads, default=0)
    now_utc = run.clock()
    type_changes = existing is not None and has_type_change(existing.schema, shape.schema)
    # Files of a folder lack the partition columns.
    becomes_iceberg = existing is not None and existing.iceberg is None and run.settings.readers.open_iceberg
    files = (existing.open, existing.closed) if existing else ((), ())
    opened, closed = map(without_key_ranges, files) if type_changes else files
    return HistoryPlan(
        change=change,
        open_files=opened,
        closed_files=closed,
        loads=loads,
        compare_all=compare_all,
        tombstones=before.tombstones if has_gap and not full_load else (),
        time_column=run.settings.history_time_column,
        change_time_column=run.settings.history_time_column if sets_history_time else "",
        loaded_utc=loaded_utc or released_utc or last_full_load_utc(before) or now_utc,
        now_utc=now_utc,
        rewrite_all=type_changes or becomes_iceberg,
        locations=replace(locations, staging=_staging(run, change)),
        field_ids=history_field_ids(shape, existing),
    )


def history_after(
    before: Snapshot,
    shape: TableShape,
    plan: HistoryPlan | None,
    staged: tuple[Rewrite, ...],
    load: int | None,
) -> History | None:
    """The history after a change.

    Args:
        shape: Columns and keys after it.
        plan: How the change affects the history; None if the table keeps none.
        staged: Staged files of open and of closed versions; empty if the table keeps no history. Paths of new files
            are still their staged keys.
        load: Number of the change if it is a full load; else None.
    """
    existing = before.history
    if not (plan and staged):
        # Positions start over after a full load, even if the table keeps no history at the time.
        return existing and replace(existing, since=None, loads=(*existing.loads, *([load] if load else [])))
    opened, closed = staged
    return History(
        schema=shape.schema,
        primary_key=shape.primary_key,
        open=_after(existing.open if existing else (), opened),
        closed=_after(existing.closed if existing else (), closed),
        loads=plan.loads,
        since=plan.change if plan.compare_all or not existing else existing.since,
        field_ids=plan.field_ids,
    )


def history_to_continue(run: TableRun, before: Snapshot, loaded: Schema) -> Snapshot:
    """The table before a full load, but without the versions of its history if the load cannot continue it.

    Versions that another `ColumnPolicy` made have values that the new one takes away, or other ones than later versions
    will have. A history that was turned off meanwhile may have another key, or a type that has no common type with the
    load's.

    Args:
        loaded: Columns of the load.

    Raises:
        SchemaMismatchError: A type has no common type with that in a history that was not turned off.
    """
    policy, history, change = run.settings.column_policy, before.history, before.change + 1
    if history is None:
        return before
    clashing = clashes(history.schema, loaded) if run.settings.history else {}
    other_key = history.schema.spelled(run.settings.primary_key) != history.schema.spelled(history.primary_key)
    if policy.applied(before.policy, change) != before.policy:
        reason = "the column policy changed"
    elif clashing and history.is_kept:
        raise _clash(run, before, *next(iter(clashing.items())))
    elif run.settings.history and (clashing or (other_key and not history.is_kept)):
        reason = "it was turned off, and the table has other types or another key now"
    else:
        return before
    log.warning("the history begins anew with change %d: %s", change, reason)
    ids = FieldIds(last=history.field_ids.last)  # of columns that may have other types now
    return replace(
        before,
        history=replace(
            history,
            schema=Schema(),
            primary_key=loaded.spelled(run.settings.primary_key),
            open=(),
            closed=(),
            since=None,
            field_ids=ids,
            iceberg=None,
        ),
    )


def _clash(run: TableRun, before: Snapshot, name: str, was: str) -> SchemaMismatchError:
    """A column that cannot be in table and history at once."""
    without = set_command(run.layout.name, f"{Attribute.HISTORY}=false", RELOAD)
    message = f"Column {name} is {was} in the history, and its new type has no common type with that"
    remedy = (
        f"Declare it as {was} in the Schema attribute, or load the table without its history ({without}). If"
        f" {Attribute.HISTORY} is then true in another reload, the history begins anew; a rollback to change"
        f" {before.change} brings the old one back"
    )
    return SchemaMismatchError(message, remedy=remedy, table=run.layout.name, column=name)


def base_schema(run: TableRun, before: Snapshot, *, reloads: bool) -> Schema:
    """Columns that the table must have after a change, with at least these types.

    They include the columns of a history that the table keeps, because both must have the same columns. This applies to
    full loads too.

    Args:
        reloads: Whether the change is a full load.

    Raises:
        SchemaMismatchError: A full load changed a type while history was turned off.
    """
    columns, history = Schema() if reloads else before.schema, before.history
    if not (run.settings.history and history):
        return columns
    clashing = clashes(history.schema, columns)
    if clashing:
        name, was = next(iter(clashing.items()))
        message = f"Column {name} is {was} in the history, which was turned off, and has another type in the table"
        anew = set_command(run.layout.name, RELOAD)
        remedy = f"Load the table again, then its history begins anew ({anew}), or set {Attribute.HISTORY} to false"
        raise SchemaMismatchError(message, remedy=remedy, table=run.layout.name, column=name)
    return merge_schemas(columns, history.schema, "the history")


def has_type_change(before: Schema, after: Schema) -> bool:
    """Whether the type of an existing column changes. Readers require one type in all files of a table."""
    return any((now := after.find(was.name)) is not None and now.type != was.type for was in before)


def _typed(schema: Schema) -> set[tuple[str, str]]:
    return {(column.name.lower(), column.type) for column in schema}


def _after(files: tuple[DataFile, ...], staged: Rewrite) -> tuple[DataFile, ...]:
    return (*unchanged_files(files, staged.rewritten), *staged.written)


def _staging(run: TableRun, change: int) -> str:
    """Beginning of the keys that tasks write versions to. Files of an Iceberg table stay there."""
    if run.settings.readers.list_folder:
        return run.layout.staging_prefix(change, run.run_id) + "history-"
    return run.layout.history.iceberg_data_prefix(change, run.run_id)


def last_full_load_utc(before: Snapshot) -> datetime | None:
    """When the newest `LOAD` file of the table was written; None if it was never loaded."""
    if not before.full_load_utc:
        return None
    return datetime.strptime(before.full_load_utc, TableState.DATE_FORMAT).replace(tzinfo=timezone.utc)


def _require_possible(run: TableRun, shape: TableShape, existing: History | None) -> None:
    settings, name = run.settings, run.layout.name
    off = f"set {Attribute.HISTORY} to false"
    if not shape.primary_key:
        message = f"{name} needs a primary key for a history, to identify the row of each version"
        raise ConfigurationError(message, remedy=f"Set {Attribute.PRIMARY_KEY}, or {off}", table=name)
    settings.check_history(name)
    if existing and existing.schema.spelled(shape.primary_key) != existing.schema.spelled(existing.primary_key):
        message = f"The history of {name} was created with {Attribute.PRIMARY_KEY} '{','.join(existing.primary_key)}'"
        remedy = f"Set it back, or {off}, which keeps its files unchanged; on again in a reload, it begins anew"
        raise ConfigurationError(message, remedy=remedy, table=name)
    if existing and _typed(merge_schemas(existing.schema, shape.schema, "the table")) != _typed(shape.schema):
        message = f"The history of {name} has columns, or wider column types, that the table no longer has"
        raise ConfigurationError(message, remedy=f"Apply the next change files first, or {off}", table=name)
    reserved = [column.name for column in OWN_COLUMNS if shape.schema.find(column.name)]
    if reserved:
        message = f"{name} has a column {reserved[0]}, which is reserved in its history"
        raise ConfigurationError(message, remedy=f"Rename it with a DMS mapping rule, or {off}", table=name)
    column = shape.schema.find(settings.history_time_column) if settings.history_time_column else None
    if settings.history_time_column and (column is None or column.type != "timestamp"):
        message = f"{name} has no timestamp column {settings.history_time_column}"
        raise ConfigurationError(message, remedy=f"Correct {Attribute.HISTORY_TIME_COLUMN}, or remove it", table=name)
