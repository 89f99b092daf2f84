"""Histories catch faults of the merge: with a fault put in on purpose, one of the first 100 histories fails."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from cdclake.control.plan import plan_table
from cdclake.lake.merge import resolve
from cdclake.lake.operations import load
from cdclake.lake.raw import normalize
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.partitions import partition_ids
from cdclake.model.due_files import Pending, pending_changes
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.rawfiles import file_order
from cdclake.model.schema import DELETE, OP_COLUMN
from tests.databases import test_mariadb, test_postgresql
from tests.databases.mariadb import MariadbDatabase
from tests.databases.postgresql import PostgresDatabase
from tests.databases.replay import DifferenceError, Tally, check

if TYPE_CHECKING:
    from cdclake.devkit.shop.mariadb import PrivateMariadb
    from cdclake.devkit.shop.postgresql import PrivatePostgresql
    from cdclake.lake.storage.shape import TableShape
    from tests.databases.history import History

    Fault = list[tuple[Any, str, Callable[..., Any]]]
    """What to replace: module, name of a function, and the faulty one."""

HISTORIES = 100


def deletes_after_inserts() -> Fault:
    right = resolve._last_of_each_key

    def wrong(rows: pa.Table, existing_rows: pa.Table, shape: TableShape) -> pa.Table:
        order = [(name, "ascending") for name in (LEADING_KEY, KEY, "_is_delete", POSITION)]
        marked = rows.append_column("_is_delete", pc.equal(rows[OP_COLUMN], DELETE).cast(pa.int8()))
        return right(rows.take(pc.sort_indices(marked, order)), existing_rows, shape)

    return [(resolve, "_last_of_each_key", wrong)]


def forgotten_tombstones() -> Fault:
    right = resolve._last_tombstones
    return [(resolve, "_last_tombstones", lambda tombstones: right(tombstones.slice(0, 0)))]


def superseded_rows_applied() -> Fault:
    right = resolve._not_after

    def wrong(rows: pa.Table, known: pa.Table) -> pa.ChunkedArray:
        return right(rows, known.slice(0, 0) if resolve.FILE_INDEX in known.column_names else known)

    return [(resolve, "_not_after", wrong)]


def late_files_lost() -> Fault:
    def wrong(snapshot: Any, files: Any, *arguments: Any) -> Pending:
        pending = pending_changes(snapshot, files, *arguments)
        return pending._replace(due=[file for file in pending.due if file.order > file_order(snapshot.watermark)])

    return [(load, "pending_changes", wrong), (plan_table, "pending_changes", wrong)]


def old_row_stays_when_its_partition_changes() -> Fault:
    right = resolve._removed_rows

    def wrong(existing_rows: pa.Table, stored: pa.Table, deleted: pa.Table, shape: TableShape) -> pa.Table:
        before = resolve._matching(existing_rows, stored[KEY])[resolve.PARTITION_ID]
        has_moved = pc.fill_null(pc.not_equal(partition_ids(stored, shape.partition_key), before), False)
        return right(existing_rows, stored.filter(pc.invert(has_moved)), deleted, shape)

    return [(resolve, "_removed_rows", wrong)]


def old_key_stays() -> Fault:
    return [(normalize, "_old_key_deletes", lambda rows, _: rows.slice(0, 0))]


FAULTS = [
    deletes_after_inserts,
    forgotten_tombstones,
    superseded_rows_applied,
    late_files_lost,
    old_row_stays_when_its_partition_changes,
    old_key_stays,
]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_histories_catch_a_fault_of_the_merge(
    mariadb: PrivateMariadb, postgres_server: PrivatePostgresql, tally: Tally, fault: Callable[[], Fault]
) -> None:
    def replay(history: History, is_mariadb: bool) -> None:
        on_mariadb = MariadbDatabase(mariadb.connection_options, "shop")
        on_postgresql = PostgresDatabase(postgres_server.connection_options, "shop")
        with on_mariadb if is_mariadb else on_postgresql as database:
            check(history, database, Tally())

    caught_after = histories_until_failure(replay, fault)
    tally.add("caught after histories", caught_after or 0)
    assert caught_after is not None, f"none of {HISTORIES} histories failed"


def histories_until_failure(replay: Callable[[History, bool], None], fault: Callable[[], Fault]) -> int | None:
    """The number of the first history that fails with the fault; None if none does."""
    number, failed = 0, None

    @settings(
        max_examples=HISTORIES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
        derandomize=True,
    )
    @given(test_mariadb.histories().map(lambda h: (h, True)) | test_postgresql.histories().map(lambda h: (h, False)))
    def run(drawn: tuple[History, bool]) -> None:
        nonlocal number, failed
        if failed:
            return
        number += 1
        try:
            replay(*drawn)
        except DifferenceError:
            failed = number

    with ExitStack() as faults:
        for module, name, wrong in fault():
            faults.enter_context(patch.object(module, name, wrong))
        run()
    return failed
