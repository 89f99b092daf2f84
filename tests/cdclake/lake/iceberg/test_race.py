"""Sixteen runs work on one table with Iceberg readers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.commit.takeover import take_over
from cdclake.errors import CommitConflictError, LeaseLostError
from cdclake.lake.operations.load import load_incremental
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.over_time import START, TableOverTime, versioned_bucket
from tests.dying_store import PausingStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.ports import ObjectStore

RUNS = 16
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])
CHANGES = "20240305-101000000.parquet"
ITEM = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": "iceberg"}
DATABASE = "lake_tables"


def loaded(table: TableOverTime) -> TableOverTime:
    table.load([{"id": 1, "city": "Kiel"}, {"id": 2, "city": "Ulm"}])
    return table


@pytest.fixture(params=["iceberg", "both"])
def on_folder(tmp_path: Path, request: pytest.FixtureRequest) -> TableOverTime:
    return loaded(TableOverTime(tmp_path, COLUMNS, {**ITEM, "Readers": request.param}))


@pytest.fixture
def in_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableOverTime]:
    with versioned_bucket(monkeypatch, "lake"):
        aws_clients.client("glue").create_database(DatabaseInput={"Name": DATABASE})
        yield loaded(TableOverTime(tmp_path, COLUMNS, ITEM, bucket="lake"))


class _Together(PausingStore):
    """Lets sixteen runs commit at the same moment."""

    def __init__(self, store: ObjectStore, barrier: Barrier) -> None:
        super().__init__(store, 1, barrier.wait, ("put_if_absent",))


def race(table: TableOverTime) -> list[dict[str, Any]]:
    """Sixteen runs apply the same changes. Returns the summaries of those that commit them."""
    table.write_changes(CHANGES, [("I", {"id": 3, "city": "Kiel"}), ("D", {"id": 2, "city": "Ulm"})])
    barrier = Barrier(RUNS, timeout=60)

    def run(number: int) -> TableRun:
        one = table.run()
        store = cast("ObjectStore", _Together(one.log.store, barrier))
        return replace(one, run_id=f"racing-{number}", log=ChangeLog(store, table.layout))

    def attempt(one: TableRun) -> dict[str, Any] | None:
        try:
            return load_incremental(one, table.spark, "", "")
        except CommitConflictError:
            return None

    runs = [replace(run(number), fencing_token=RUNS) for number in range(RUNS)]
    with ThreadPoolExecutor(RUNS) as pool:
        return [summary for summary in pool.map(attempt, runs) if summary]


def clean_up_twice(table: TableOverTime) -> set[str]:
    """Keys of the Iceberg table's files after two clean-ups; the second deletes what the first expired."""
    log = table.log
    for days in (10_000, 20_000):  # the store's clock is the real one
        clean_up(log, plan_clean_up(log, timedelta(0), START + timedelta(days=days)))
    return {entry.key for entry in log.store.list(table.layout.iceberg_prefix)}


def needed_keys(table: TableOverTime) -> set[str]:
    snapshot = table.log.snapshot(table.log.head())
    assert snapshot.iceberg
    data = {file.path for file in snapshot.files if not snapshot.iceberg.in_folder}
    own = {table.layout.iceberg_metadata_key(snapshot.change), table.layout.version_hint_key}
    return {*map(table.layout.data_key, data), *snapshot.iceberg.keys, *own}


@pytest.mark.slow
def test_of_16_runs_that_commit_one_number_readers_see_exactly_one(on_folder: TableOverTime) -> None:
    (winner,) = race(on_folder)
    assert winner["change"] == on_folder.log.head() == 2
    readers = IcebergReaders(on_folder.lake, on_folder.layout)
    assert readers.version == 2
    assert [one["id"] for one in readers.rows()] == [1, 3]
    if on_folder.item["Readers"] == "iceberg":
        assert sorted(one["id"] for one in readers.rows(change=1)) == [1, 2]
        assert len(list(readers.folder.glob("data/000000000002-*"))) == RUNS  # the losers' files, which nothing names
    else:
        snapshot = on_folder.log.snapshot(2)
        assert on_folder.files() == sorted(file.path for file in snapshot.files)
    assert len(list(readers.folder.glob("metadata/000000000002-*.avro"))) > RUNS
    assert clean_up_twice(on_folder) == needed_keys(on_folder)
    assert [one["id"] for one in readers.rows()] == [1, 3]


def sync(table: TableOverTime, change: int) -> None:
    table.show_in(GlueCatalog(aws_clients.client("glue"), DATABASE), change)


def metadata_in_catalog() -> str:
    table = aws_clients.client("glue").get_table(DatabaseName=DATABASE, Name="shop_orders")["Table"]
    return table["Parameters"]["metadata_location"]


@pytest.mark.aws
@pytest.mark.thorough
def test_16_runs_that_take_over_in_turn_leave_the_catalog_at_the_newest_change(in_catalog: TableOverTime) -> None:
    table = in_catalog
    sync(table, 1)
    (winner,) = race(table)
    first: int = winner["change"]
    barrier = Barrier(RUNS, timeout=60)

    def take_over_and_show(number: int) -> int:
        barrier.wait()
        try:
            change = take_over(table.log, f"next-{number}", RUNS + 1 + number, "a race", table.next_time)
        except (LeaseLostError, CommitConflictError):  # another run has taken over meanwhile
            return first
        sync(table, change)
        return change

    with ThreadPoolExecutor(RUNS) as pool:
        changes = list(pool.map(take_over_and_show, range(RUNS)))
    head = table.log.head()
    assert max(changes) == head > first
    assert table.log.store.get(table.layout.version_hint_key) == str(head).encode()
    assert metadata_in_catalog() == f"s3://lake/{table.layout.iceberg_metadata_key(head)}"
    assert clean_up_twice(table) == needed_keys(table)


@pytest.mark.aws
def test_a_run_that_pauses_before_it_updates_the_catalog_does_not_take_readers_back(
    in_catalog: TableOverTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = in_catalog
    sync(table, 1)
    table.apply(("I", {"id": 3, "city": "Kiel"}))
    update = GlueCatalog.update_table

    def pause_once(catalog: GlueCatalog, *arguments: Any) -> None:
        monkeypatch.setattr(GlueCatalog, "update_table", update)
        table.apply(("I", {"id": 4, "city": "Kiel"}))
        sync(table, 3)
        update(catalog, *arguments)

    monkeypatch.setattr(GlueCatalog, "update_table", pause_once)
    sync(table, 2)
    assert metadata_in_catalog() == f"s3://lake/{table.layout.iceberg_metadata_key(3)}"


def test_a_publisher_that_was_paused_does_not_offer_again_what_a_clean_up_has_expired(tmp_path: Path) -> None:
    """It pauses after it has read the metadata before, and another run publishes the same change meanwhile."""
    table = loaded(TableOverTime(tmp_path, COLUMNS, ITEM))
    for number in range(3, 6):
        table.apply(("I", {"id": number, "city": "Kiel"}))
    head = table.log.head()
    readers = IcebergReaders(table.lake, table.layout)
    assert readers.offered == [1, 2, 3, 4]

    def clean() -> None:
        for later in (timedelta(), timedelta(hours=2)):
            table.clean_up(timedelta(hours=1) + later, later)

    paused = PausingStore(table.log.store, 3, clean, ("get", "put", "put_if_absent"))  # it looks, reads and writes
    log, snapshot = ChangeLog(cast("ObjectStore", paused), table.layout), table.log.snapshot(head)
    publish(log, table.log.record(head), snapshot=snapshot)
    assert paused.calls > 3
    assert readers.offered == [4]
    assert all(readers.rows(change=change) for change in readers.offered)


def test_metadata_of_a_log_that_was_lost_is_written_again(tmp_path: Path) -> None:
    """An older log was restored, so the number of the next change was given before."""
    table = loaded(TableOverTime(tmp_path, COLUMNS, ITEM))
    store, layout = table.log.store, table.layout
    store.put(layout.iceberg_metadata_key(2), store.get(layout.iceberg_metadata_key(1)) or b"")
    table.apply(("I", {"id": 3, "city": "Kiel"}))
    assert sorted(one["id"] for one in IcebergReaders(table.lake, layout).rows()) == [1, 2, 3]
