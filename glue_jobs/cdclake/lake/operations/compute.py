"""What every change of a table computes with: the shape of its rows, and the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.lake.merge.tasks import Locations
from cdclake.lake.operations.engine import Engine, Request
from cdclake.lake.operations.history import has_type_change, history_after, plan_history
from cdclake.lake.storage.key_ranges import without_key_ranges
from cdclake.lake.storage.shape import TableShape
from cdclake.model.names import Attribute, Sentinel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.lake.operations.engine import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.spark.backend import Backend
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import Snapshot


def table_shape(run: TableRun, schema: Schema) -> TableShape:
    """Shape of a table with these columns and the keys that a person has set.

    Raises:
        ConfigurationError: A key column is not among them.
    """
    for name in (*run.settings.primary_key, *run.settings.partition_key):
        if schema.find(name) is None:
            message = f"{run.layout.name} has no column {name}"
            remedy = f"Correct PrimaryKey or PartitionKey; the columns are {', '.join(schema.names)}"
            raise ConfigurationError(message, remedy=remedy)
    partial = run.settings.csv.no_sup_value is not None
    return TableShape(
        schema,
        run.settings.primary_key,
        run.settings.partition_key,
        partial,
        soft_delete=run.settings.soft_delete,
    )


def require_same_keys(run: TableRun, before: Snapshot, shape: TableShape) -> None:
    """Refuse to go on from a table that was made with other keys, or another order of changes.

    Raises:
        ConfigurationError: Names the attribute that was changed.
    """
    if not before.exists:
        return
    settings = run.settings
    for attribute, was, now in (
        (Attribute.PRIMARY_KEY, ",".join(before.primary_key), ",".join(shape.primary_key)),
        (Attribute.PARTITION_KEY, ",".join(before.partition_key), ",".join(shape.partition_key)),
        (Attribute.ORDER_COLUMN, before.order_column, settings.order_column),
    ):
        if was != now:
            message = f"The lake table was made with {attribute} '{was}', and the settings say '{now}'"
            remedy = (
                f"Set it back, or load the table anew: set {Attribute.LAST_FULL_LOAD_DATE} to {Sentinel.NEVER_LOADED}"
            )
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)


def locations_of(run: TableRun, before: Snapshot) -> Locations:
    """Where the change that comes after a table's newest reads and writes."""
    layout, change = run.layout, before.change + 1
    return Locations(
        raw=run.raw_fs,
        lake=run.lake_fs,
        table_prefix=layout.table_prefix,
        staging=layout.staging_prefix(change, run.run_id),
        tombstones=layout.tombstones_key(change, run.run_id),
        quarantine=layout.quarantine_prefix(change, run.run_id),
    )


def compute(
    run: TableRun,
    spark: Backend,
    before: Snapshot,
    shape: TableShape,
    parts: Sequence[Slice],
    *,
    loaded_utc: datetime | None = None,
    sets_history_time: bool = True,
) -> Result:
    """Compute the change that comes after a table's newest, and stage its files.

    Args:
        before: The table before it.
        shape: Its rows after it.
        parts: What to read, in the place that the run has its raw files in.
        loaded_utc: For a full load, which replaces the table, since when its rows are as they are; None for changes.
        sets_history_time: Whether rows of the change tell in the table's `HistoryTimeColumn` since when they are so.

    Raises:
        InputError: A raw file or row cannot be taken.
        IntegrityError: The lake's files are not what the snapshot says.
        ConfigurationError: The table is to have a history and cannot.
    """
    full_load, change = loaded_utc is not None, before.change + 1
    files = () if full_load else before.files
    rewrite_all = has_type_change(before.schema, shape.schema)
    if rewrite_all:
        files = without_key_ranges(files)
    locations = locations_of(run, before)
    work = plan_history(run, before, shape, locations, loaded_utc=loaded_utc, sets_history_time=sets_history_time)
    request = Request(
        table=run.layout.name,
        parts=tuple(parts),
        files=files,
        tombstones=() if full_load else before.tombstones,
        oldest=before.horizon,
        shape=shape,
        settings=run.settings,
        locations=locations,
        full_load=full_load,
        rewrite_all=rewrite_all,
        history=work,
    )
    result = Engine(spark).run(request)
    load = change if full_load else None
    return replace(result, history=history_after(before, shape, work, result.versions, load))
