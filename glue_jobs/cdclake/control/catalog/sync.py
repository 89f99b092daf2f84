"""Updates the catalog from a lake table, under the table's lease.

A run compares the catalog with the lake's snapshot and sends the difference. So it also repairs what a dead run left,
or what another program changed. A catalog error is recorded in the item, and never keeps rows from the lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake import logs
from cdclake.control.catalog.live_view import LIVE_SOURCE_SUFFIX, LIVE_SUFFIX, live_view
from cdclake.control.catalog.plan import (
    ADDED_COLUMNS,
    ICEBERG_SOURCE_SUFFIX,
    ICEBERG_SUFFIX,
    catalog_entry,
    empty_entry,
    iceberg_table,
    plan_catalog,
    shows_history,
    table_name,
)
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.errors import CdclakeError, ConfigurationError, LeaseLostError
from cdclake.model.catalog import CatalogEntry, CatalogName
from cdclake.model.layout import HISTORY_SUFFIX
from cdclake.model.table.attributes import Attribute
from cdclake.model.versions import history_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.commit.publish import KeepAlive
    from cdclake.control.catalog.plan import CatalogPlan
    from cdclake.model.catalog import CatalogPartition, CatalogTable
    from cdclake.model.layout import LakeLayout
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import Catalog

T = TypeVar("T")
OpenCatalog = Callable[[str], "Catalog"]
"""Opens the catalog of a database."""
PARTITIONS_PER_RENEWAL = 100
"""Number of partitions to write between two renewals of the lease."""
PARTITION_READS_PER_RENEWAL = 1000


def sync_catalog(
    catalog: Catalog | None, state: TableState, layout: LakeLayout, lake: Snapshot, keep_alive: KeepAlive
) -> dict[str, str]:
    """Update the catalog, and return the changed attributes of the table's item. An error becomes an attribute.

    Args:
        catalog: The database to show the table in; None for none.
        lake: The lake table after its newest change.

    Returns:
        The attributes that differ from the item; empty if none does.

    Raises:
        LeaseLostError: Another run took over the table.
        StoppedError: The run was stopped.
    """
    attributes = {Attribute.LAST_CATALOG_ERROR: ""}
    if catalog:
        try:
            name = sync_tables(catalog, state, layout, lake, keep_alive)
            if name:
                attributes[Attribute.LAST_CATALOG_TABLE] = str(name)
        except (LeaseLostError, StoppedError):
            raise
        except Exception as error:
            attributes[Attribute.LAST_CATALOG_ERROR] = error_line(error)
            log = logs.bind(__name__, table=str(layout.name), change=lake.change or None)
            defect = None if isinstance(error, CdclakeError) else error
            log.error("the catalog could not be updated", extra={"error": error_line(error)}, exc_info=defect)
    return {name: value for name, value in attributes.items() if state.item.get(name, "") != value}


def sync_tables(
    catalog: Catalog, state: TableState, layout: LakeLayout, lake: Snapshot, keep_alive: KeepAlive
) -> CatalogName | None:
    """Update the catalog tables of a lake table, its history, and the view of its live rows.

    If nothing changed, this takes one request for each of them.

    Args:
        As `sync_catalog`.

    Returns:
        Name of the table in the catalog; None if the lake table does not exist yet.

    Raises:
        ConfigurationError: The catalog refuses the table, or has another table of that name.
        RetryableError: The catalog is busy or out of reach.
        CdclakeError: The catalog refuses a request.
        LeaseLostError: Another run took over the table.
    """
    chosen = state.settings.catalog_table
    name = CatalogName(catalog.database, table_name(layout.name, chosen))
    history, history_layout = history_table(lake, layout)
    history_name = CatalogName(catalog.database, table_name(history_layout.name, chosen and chosen + HISTORY_SUFFIX))
    has_view = state.settings.soft_delete or lake.deleted_rows > 0

    def sync_history() -> None:
        entry = catalog.table(history_name.table)
        if lake.history or (entry and shows_history(entry)):  # else another table has the name
            _sync_table(catalog, entry, history_name, history_layout, history, (), keep_alive)

    current = catalog.table(name.table)
    if current and shows_history(current) and not lake.exists:  # of another table, in whose place this one is not yet
        current = None
    if current and current.has_history and not lake.history:  # while the table still shows that it has one
        sync_history()
    is_shown = _sync_table(catalog, current, name, layout, lake, ADDED_COLUMNS, keep_alive, has_view=has_view)
    if lake.history or state.settings.history:
        sync_history()
    if not is_shown:
        return None
    former = CatalogName.parse(state.item.get(Attribute.LAST_CATALOG_TABLE, ""))
    if former and former.database == name.database and former != name:
        _drop_if_owned(catalog, former.table, str(layout.name))
        _drop_if_owned(catalog, former.table + LIVE_SUFFIX, str(layout.name) + LIVE_SOURCE_SUFFIX)
        _drop_if_owned(catalog, former.table + ICEBERG_SUFFIX, str(layout.name) + ICEBERG_SOURCE_SUFFIX)
        versions, source = former.table + HISTORY_SUFFIX, str(history_layout.name)
        _drop_if_owned(catalog, versions + ICEBERG_SUFFIX, source + ICEBERG_SOURCE_SUFFIX, only_history=True)
        _drop_if_owned(catalog, versions, source, only_history=True)
    return name


def _sync_table(
    catalog: Catalog,
    current: CatalogTable | None,
    name: CatalogName,
    layout: LakeLayout,
    lake: Snapshot,
    added: tuple[Column, ...],
    keep_alive: KeepAlive,
    *,
    has_view: bool = False,
) -> bool:
    """Update the catalog table of one folder. False if neither the lake table nor the catalog table exists.

    Args:
        current: The catalog table as it is now.
    """
    if current is None and not lake.exists:
        return False
    if current:
        _check_owner(current, name, layout)
    if lake.exists or current is None:
        target = catalog_entry(lake, layout, added, has_view=has_view)
    else:
        target = empty_entry(current, layout, lake.change)
    is_ahead = current is not None and current.metadata_location and (current.change or 0) > lake.change
    if current and is_ahead and shows_history(current) == shows_history(target.table):
        return True  # another run has taken over, and published a later change
    if current and current.has_view and not target.table.has_view:  # while the table still shows that it has a view
        _drop_if_owned(catalog, name.table + LIVE_SUFFIX, target.table.source + LIVE_SOURCE_SUFFIX)
    if current and current.has_iceberg and not target.table.has_iceberg:
        _drop_if_owned(catalog, name.table + ICEBERG_SUFFIX, target.table.source + ICEBERG_SOURCE_SUFFIX)
    if current != target.table:
        partitions = _partitions(catalog, name.table, keep_alive) if current and current.partition_columns else ()
        before = CatalogEntry(current, tuple(partitions)) if current else None
        apply_plan(catalog, name.table, plan_catalog(target, before), keep_alive)
        _warn_of_missing_columns(target.table)
    if target.table.has_view:
        view = CatalogName(name.database, table_name(layout.name, name.table + LIVE_SUFFIX))
        _sync_companion(catalog, view, layout, live_view(target.table, name))
    if target.table.has_iceberg:
        iceberg = CatalogName(name.database, table_name(layout.name, name.table + ICEBERG_SUFFIX))
        _sync_companion(catalog, iceberg, layout, iceberg_table(lake, layout, added, ICEBERG_SOURCE_SUFFIX))
    return True


def _sync_companion(catalog: Catalog, name: CatalogName, layout: LakeLayout, target: CatalogTable) -> None:
    """Update a table or view that stands beside a table and has no partitions."""
    current = catalog.table(name.table)
    if current:
        _check_owner(current, name, layout, target.source)
    if current and shows_history(current) != shows_history(target):
        catalog.drop_table(name.table)
        current = None
    if current is None:
        catalog.create_table(name.table, target)
    elif current != target and (current.change or 0) <= (target.change or 0):
        catalog.update_table(name.table, target)  # else another run has taken over, and published a later change


def _warn_of_missing_columns(table: CatalogTable) -> None:
    if table.left_out:
        names = ", ".join(map(repr, table.left_out))
        log = logs.bind(__name__, table=table.source, change=table.change)
        log.warning("the catalog does not accept all columns", extra={"reason": names})


def _check_owner(current: CatalogTable, name: CatalogName, layout: LakeLayout, source: str = "") -> None:
    """Refuse to update tables of other owners. A table of this folder, as a crawler creates it, is taken over.

    Args:
        source: The source that the table must have; empty: the table of the layout.

    Raises:
        ConfigurationError: The table has another source.
    """
    places = (layout.iceberg_prefix,) if source else (layout.iceberg_prefix, layout.table_prefix)
    is_own = current.source == (source or str(layout.name)) or (
        not current.source and f"{current.location.rstrip('/')}/" in [f"s3://{layout.bucket}/{one}" for one in places]
    )
    if is_own and current.metadata_location and not _is_own_metadata(current.metadata_location, layout):
        message = f"Another program changed the Iceberg table {name}: it shows {current.metadata_location}"
        remedy = (
            "Its change is not part of the table. Only cdclake may write there: take the program's permissions away,"
            f" then delete the catalog's table {name}; the next run creates it again"
        )
        raise ConfigurationError(message, remedy=remedy, table=layout.name)
    if is_own:
        return
    location = current.location or "no folder"
    owner = f"shows {current.source}" if current.source else f"is not cdclake's: it shows {location}"
    message = f"The catalog's table {name} {owner}"
    unneeded = f"{current.source} is no longer in the lake" if current.source else "it is not needed"
    remedy = f"Set {Attribute.CATALOG_TABLE} of {layout.name} to another name, or delete that table if {unneeded}"
    raise ConfigurationError(message, remedy=remedy, table=layout.name)


def _is_own_metadata(location: str, layout: LakeLayout) -> bool:
    """Whether cdclake wrote metadata, here or in the bucket from which the lake was moved."""
    folder, name = layout.iceberg_metadata_folder, location.rpartition("/")[2]
    return location.endswith(f"/{folder}{name}") and layout.is_iceberg_metadata(folder + name)


def _drop_if_owned(catalog: Catalog, table: str, source: str, *, only_history: bool = False) -> None:
    """Drop a table or view that is no longer updated: under an earlier name, or without use.

    Args:
        only_history: Whether another table may have the same source.
    """
    current = catalog.table(table)
    if current and current.source == source and (shows_history(current) or not only_history):
        catalog.drop_table(table)


def _partitions(catalog: Catalog, table: str, keep_alive: KeepAlive) -> Iterator[CatalogPartition]:
    for number, partition in enumerate(catalog.partitions(table)):
        if number % PARTITION_READS_PER_RENEWAL == 0:
            keep_alive()
        yield partition


def apply_plan(catalog: Catalog, table: str, plan: CatalogPlan, keep_alive: KeepAlive) -> None:
    """Carry out a plan.

    Args:
        table: Name of the table in the catalog.
        keep_alive: Renews the lease; called before each writing request.

    Raises:
        As `show`.
    """
    if plan.drop_table:
        for values in _batches(plan.drop, keep_alive):  # otherwise the new table would show them for a while
            catalog.drop_partitions(table, values)
        catalog.drop_table(table)
    if plan.create_table:
        catalog.create_table(table, plan.create_table)
    for batch in _batches(plan.create, keep_alive):
        catalog.create_partitions(table, batch)
    for batch in _batches(plan.update, keep_alive):
        catalog.update_partitions(table, batch)
    if not plan.drop_table:
        for values in _batches(plan.drop, keep_alive):
            catalog.drop_partitions(table, values)
    if plan.update_table:
        keep_alive()
        catalog.update_table(table, plan.update_table)


def _batches(partitions: Sequence[T], keep_alive: KeepAlive) -> Iterator[Sequence[T]]:
    for start in range(0, len(partitions), PARTITIONS_PER_RENEWAL):
        keep_alive()
        yield partitions[start : start + PARTITIONS_PER_RENEWAL]
