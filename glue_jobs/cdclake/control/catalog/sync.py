"""Keeps the catalog in line with a lake table, under the table's lease.

The catalog is compared with the lake's snapshot, and the difference is sent. Whatever a run that died has left, or
somebody else has changed, the next run that polls finds and mends it. What goes wrong with the catalog stands in the
item, and never keeps rows from the lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake import logs
from cdclake.control.catalog.plan import (
    ADDED,
    LIVE_ROWS_SUFFIX,
    LIVE_SUFFIX,
    catalog_entry,
    emptied,
    live_view,
    plan_catalog,
    table_name,
)
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.errors import CdclakeError, ConfigurationError, LeaseLostError
from cdclake.model.catalog import CatalogEntry, CatalogName
from cdclake.model.layout import HISTORY_SUFFIX
from cdclake.model.names import Attribute
from cdclake.model.versions import as_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.commit.publish import KeepAlive
    from cdclake.control.catalog.plan import CatalogPlan
    from cdclake.model.catalog import CatalogPartition, CatalogTable
    from cdclake.model.layout import LakeLayout
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.ports import Catalog

T = TypeVar("T")
OpenCatalog = Callable[[str], "Catalog"]
"""Gives the catalog of a database."""
BATCH = 100
"""Partitions sent between two polls at the lease."""
PAGE = 1000
"""Partitions read between two."""


def sync_catalog(
    catalog: Catalog | None, state: TableState, layout: LakeLayout, lake: Snapshot, keep_alive: KeepAlive
) -> dict[str, str]:
    """Bring the catalog in line, and tell what the item must say of it from now on.

    Args:
        catalog: The database to show the table in; None: it is shown in none.
        state: The table's item.
        layout: Where the lake table lies.
        lake: The lake table after its newest change.
        keep_alive: Renews the lease.

    Returns:
        Attributes that are otherwise in the item; none if all is as the item says.

    Raises:
        LeaseLostError: Another run took the table over.
        StoppedError: The run was told to stop.
    """
    said = {Attribute.LAST_CATALOG_ERROR: ""}
    if catalog:
        try:
            shown = show(catalog, state, layout, lake, keep_alive)
            if shown:
                said[Attribute.LAST_CATALOG_TABLE] = str(shown)
        except (LeaseLostError, StoppedError):
            raise
        except Exception as error:
            said[Attribute.LAST_CATALOG_ERROR] = error_line(error)
            log = logs.bind(__name__, table=str(layout.name), change=lake.change or None)
            defect = None if isinstance(error, CdclakeError) else error
            log.error("the catalog could not be brought in line", extra={"error": error_line(error)}, exc_info=defect)
    return {name: value for name, value in said.items() if state.item.get(name, "") != value}


def show(
    catalog: Catalog, state: TableState, layout: LakeLayout, lake: Snapshot, keep_alive: KeepAlive
) -> CatalogName | None:
    """Have the catalog show a lake table, its history and the view of its live rows as they are.

    Costs one request for each of them that there is to be, if it does already.

    Args:
        As `sync_catalog`.

    Returns:
        Where it is shown; None if there is no lake table yet.

    Raises:
        ConfigurationError: The catalog cannot take the table, or has another of that name.
        RetryableError: The catalog is busy or out of reach.
        CdclakeError: It refuses.
        LeaseLostError: Another run took the table over.
    """
    chosen = state.settings.catalog_table
    name = CatalogName(catalog.database, table_name(layout.name, chosen))
    versions, beside = as_table(lake, layout)
    of_versions = CatalogName(catalog.database, table_name(beside.name, chosen and chosen + HISTORY_SUFFIX))
    has_view = state.settings.soft_delete or lake.deleted_rows > 0
    is_shown = _show_one(catalog, name, layout, lake, ADDED, keep_alive, has_view=has_view)
    if lake.history or state.settings.history:
        _show_one(catalog, of_versions, beside, versions, (), keep_alive)
    if not is_shown:
        return None
    former = CatalogName.parse(state.item.get(Attribute.LAST_CATALOG_TABLE, ""))
    if former and former.database == name.database and former != name:
        _drop_if_ours(catalog, former.table, str(layout.name))
        _drop_if_ours(catalog, former.table + HISTORY_SUFFIX, str(beside.name))
        _drop_if_ours(catalog, former.table + LIVE_SUFFIX, str(layout.name) + LIVE_ROWS_SUFFIX)
    return name


def _show_one(
    catalog: Catalog,
    name: CatalogName,
    layout: LakeLayout,
    lake: Snapshot,
    added: tuple[Column, ...],
    keep_alive: KeepAlive,
    *,
    has_view: bool = False,
) -> bool:
    """Have the catalog show one folder as it is; False if there is nothing to show, and it shows nothing."""
    found = catalog.table(name.table)
    if found is None and not lake.exists:
        return False
    if found:
        _check_ours(found, name, layout)
    if lake.exists or found is None:
        wanted = catalog_entry(lake, layout, added, has_view=has_view)
    else:
        wanted = emptied(found, lake.change)
    if found and found.has_view and not wanted.table.has_view:  # before the table forgets that there is one
        _drop_if_ours(catalog, name.table + LIVE_SUFFIX, wanted.table.source + LIVE_ROWS_SUFFIX)
    if found != wanted.table:
        before = CatalogEntry(found, tuple(_partitions(catalog, name.table, keep_alive))) if found else None
        apply_plan(catalog, name.table, plan_catalog(wanted, before), keep_alive)
        _warn_of(wanted.table)
    if wanted.table.has_view:
        view = CatalogName(name.database, table_name(layout.name, name.table + LIVE_SUFFIX))
        _show_view(catalog, view, layout, live_view(wanted.table, name))
    return True


def _show_view(catalog: Catalog, name: CatalogName, layout: LakeLayout, wanted: CatalogTable) -> None:
    found = catalog.table(name.table)
    if found is None:
        catalog.create_table(name.table, wanted)
    elif found != wanted:
        _check_ours(found, name, layout, wanted.source)
        catalog.update_table(name.table, wanted)


def _warn_of(table: CatalogTable) -> None:
    if table.left_out:
        names = ", ".join(map(repr, table.left_out))
        log = logs.bind(__name__, table=table.source, change=table.change)
        log.warning("the catalog cannot take all columns", extra={"reason": names})


def _check_ours(found: CatalogTable, name: CatalogName, layout: LakeLayout, source: str = "") -> None:
    """Leave tables of others alone. One that shows this very folder, as a crawler makes it, is taken over.

    Args:
        source: What it must say that it shows, if that is not just the table of the layout.

    Raises:
        ConfigurationError: It shows something else.
    """
    here = f"s3://{layout.bucket}/{layout.table_prefix}"
    if found.source == (source or str(layout.name)) or (
        not (source or found.source) and f"{found.location.rstrip('/')}/" == here
    ):
        return
    whose = f"shows {found.source}" if found.source else f"is not cdclake's: it shows {found.location or 'no folder'}"
    message = f"The catalog's table {name} {whose}"
    remedy = f"Set {Attribute.CATALOG_TABLE} of {layout.name} to another name, or delete that table if nobody needs it"
    raise ConfigurationError(message, remedy=remedy, table=layout.name)


def _drop_if_ours(catalog: Catalog, table: str, source: str) -> None:
    """Drop what nobody would keep in line: a table under the name that it had before, a view that has no use now."""
    there = catalog.table(table)
    if there and there.source == source:
        catalog.drop_table(table)


def _partitions(catalog: Catalog, table: str, keep_alive: KeepAlive) -> Iterator[CatalogPartition]:
    for number, partition in enumerate(catalog.partitions(table)):
        if number % PAGE == 0:
            keep_alive()
        yield partition


def apply_plan(catalog: Catalog, table: str, plan: CatalogPlan, keep_alive: KeepAlive) -> None:
    """Do what a plan says.

    Args:
        catalog: The database.
        table: Name of the table in it.
        plan: From `plan_catalog`.
        keep_alive: Renews the lease; called before each request that changes what is there.

    Raises:
        As `show`.
    """
    if plan.drop_table:
        for values in _batches(plan.drop, keep_alive):  # else they would be found in the new table for a while
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


def _batches(all_of_them: Sequence[T], keep_alive: KeepAlive) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_of_them), BATCH):
        keep_alive()
        yield all_of_them[start : start + BATCH]
