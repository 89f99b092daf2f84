"""A reader lists and reads a table while changes are published."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.commit.log import ChangeLog
from cdclake.errors import CommitConflictError
from cdclake.lake.operations.load import load_incremental
from tests.builders import LAYOUT, LakeBuilder, parquet_bytes
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.ports import ObjectStore
    from cdclake_devkit.memory import ManualClock

FILES, ROWS_PER_FILE, CHANGES = 3, 10, 3


def parquet_file(key: str) -> bytes:
    """Ten rows, with enough bytes to notice a torn file."""
    return parquet_bytes(pa.table({"id": range(ROWS_PER_FILE), "text": [key * 50] * ROWS_PER_FILE}))


class Reader(Thread):
    """Repeatedly lists the table's folder and reads every file in it.

    Attributes:
        views: Number of rows of each listing whose files could all be read.
        errors: Files that could not be read.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store
        self._stopped = Event()
        self.views: list[int] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            rows = [self._rows(entry.key) for entry in self._store.list(LAYOUT.table_prefix)]
            if None not in rows:
                self.views.append(sum(count or 0 for count in rows))

    def _rows(self, key: str) -> int | None:
        data = self._store.get(key)
        if data is None:
            return None  # retired after it was listed
        try:
            return int(pq.read_table(BytesIO(data)).num_rows)
        except pa.ArrowInvalid as error:
            self.errors.append(f"{key}: {error}")
            return 0

    def wait_for_a_view(self) -> None:
        """Wait until the reader has seen the table once more: other threads may leave it little time."""
        seen = len(self.views)
        while len(self.views) == seen and self.is_alive():
            sleep(0.001)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def test_a_reader_never_sees_a_half_written_file_nor_misses_a_row(store: ObjectStore, clock: ManualClock) -> None:
    lake = LakeBuilder(store, clock, content=parquet_file)
    lake.change(files=FILES)
    reader = Reader(store)
    reader.start()
    for _ in range(CHANGES):
        lake.change(files=FILES, retired=[file.path for file in lake.snapshot.files])
        lake.rollback()
        lake.reapply()
        reader.wait_for_a_view()
    reader.stop()
    assert reader.errors == []
    assert len(reader.views) > 1
    assert min(reader.views) >= FILES * ROWS_PER_FILE
    assert max(reader.views) <= 2 * FILES * ROWS_PER_FILE


class WatchedStore:
    """Before each call to a store, notes the ids in each partition of a table.

    Attributes:
        views: Ids by partition.
    """

    calls_at_once = 1

    def __init__(self, table: Table) -> None:
        self._table = table
        self.views: list[dict[str, set[int]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            view: dict[str, set[int]] = {}
            for row in self._table.rows():
                view.setdefault(row.row["city"], set()).add(row.row["id"])
            self.views.append(view)
            return getattr(self._table.log.store, name)(*arguments, **named)

        return call


def test_a_listing_in_one_request_has_every_row_and_one_in_parts_may_miss_rows_that_move(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "PartitionKey": "city"})
    table.load([{"id": 1, "city": "b"}, {"id": 2, "city": "b"}])
    table.write_changes("20240305-101500000.parquet", [("U", {"id": 1, "city": "a"})])
    run, watched = table.run(), WatchedStore(table)
    watched.views.append({"b": {1, 2}})
    load_incremental(replace(run, log=ChangeLog(cast("ObjectStore", watched), table.layout)), table.spark, "", "")
    watched.views.append({"a": {1}, "b": {2}})
    assert all(set[int]().union(*view.values()) == {1, 2} for view in watched.views)
    first, last = watched.views[0], watched.views[-1]
    assert first.get("a", set()) | last["b"] == {2}, "guarantees.md says that such a listing may miss a row"


def test_a_listed_file_never_changes(store: ObjectStore, clock: ManualClock) -> None:
    """Not after undone changes either, nor if another run had files for the number of a change."""
    lake = LakeBuilder(store, clock)
    contents: dict[str, set[bytes]] = {}

    def look() -> None:
        for path, content in lake.contents().items():
            contents.setdefault(path, set()).add(content)

    for _ in range(2):
        loser = lake.stage(files=2, run_id="loser")
        lake.change(files=2, retired=[file.path for file in lake.snapshot.files[:1]])
        with pytest.raises(CommitConflictError):
            lake.log.commit(loser)
        look()
        lake.rollback()
        look()
        lake.reapply()
        look()
        lake.rollback()
        lake.change(files=2)  # a new branch
        look()
    assert len(contents) == 8
    assert {len(one) for one in contents.values()} == {1}
