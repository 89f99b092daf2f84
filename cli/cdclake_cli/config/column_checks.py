"""Checks settings that name columns, for many tables, in few requests."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.control.admin.change_settings import checked_settings, starts_reload
from cdclake.model.table.settings import COLUMN_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyarrow.fs import FileSystem

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake_cli.aws.services import Services
    from cdclake_cli.target import Target


class Checks(NamedTuple):
    """What settings that name columns are checked with.

    Attributes:
        lake: Reads the lake table of a state. Of one that has none, it is empty: of many new tables, none must be
            looked for, and of an item that lost its lake, a run refuses other keys.
        columns: Refuses changed attributes of a table with its new settings, if they name columns which the table's raw
            files lack. Also needs its lake table, and whether the table is loaded again.
    """

    lake: Callable[[TableState], Snapshot]
    columns: Callable[[TableState, Collection[str], Snapshot, bool], None]


def check_change(checks: Checks, before: TableState, attributes: Mapping[str, str]) -> None:
    """Check changed settings of a table: against each other, and those that name columns against lake and raw files.

    Raises:
        ConfigurationError: One is invalid.
    """
    lake = None if COLUMN_ATTRIBUTES.isdisjoint(attributes) else checks.lake(before)
    after = checked_settings(before, attributes, lake)
    if lake:
        checks.columns(after, attributes.keys(), lake, starts_reload(attributes))


@contextmanager
def column_checks(
    target: Target, services: Services, tables: Collection[TableState], *, unchecked: bool
) -> Iterator[Checks]:
    """Prepare the checks of tables.

    Tables whose raw files are few share listings. Of each table one file is opened: in one request if it is small, else
    in two or three.

    Args:
        tables: The tables that will be checked, with their new settings.
        unchecked: Check no columns against raw files.
    """
    from cdclake.adapters.filesystem import lake_filesystem  # slow to import, and --help does not need it
    from cdclake.control.plan.shared_listings import SharedListings
    from cdclake_cli.aws.environment import aws_environment
    from cdclake_cli.config.neighbors import ListedNeighbors
    from cdclake_cli.doctor.check_settings import RawReader, check_columns

    def lake_table(state: TableState) -> Snapshot:
        log = services.log(state.name)
        return log.snapshot(log.head() if state.last_change else 0)

    if unchecked or not tables:
        yield Checks(lake_table, lambda *_: None)
        return
    now = services.clock()
    listed = ListedNeighbors.of(services.raw, [state.raw_prefix for state in tables])
    files = SharedListings.of_tables(listed, tables, now)
    lock = Lock()

    @cache
    def opened() -> FileSystem:
        return replace(lake_filesystem(target.raw_bucket), fetches_whole=True).open()

    def open_once() -> FileSystem:
        with lock:  # without it, threads that come at the same time each open it
            return opened()

    raw = RawReader(files, open_once)

    def columns(state: TableState, changed: Collection[str], lake: Snapshot, reloads: bool) -> None:
        check_columns(raw, state, changed, now, lake, reloads=reloads)

    with aws_environment(target):
        yield Checks(lake_table, columns)
