"""A change of an old table takes hardly more requests than one of a young table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from cdclake.adapters.filesystem import lake_filesystem, open_input
from cdclake.commit.log import ChangeLog
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.load import load_incremental
from cdclake.lake.storage import reader
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.tombstones import write_tombstone_file
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import position
from cdclake.model.snapshot import DataFile
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cdclake.model.raw.files import ListedObject
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import ObjectStore

COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
FIRST, SECOND = "20240305-101500000.parquet", "20240305-101600000.parquet"
PAGE_OBJECTS = 100
"""Objects of a page of a listing; S3 lists 1,000 at a time, and a test should have fewer."""
TOMBSTONES, RECORDS, FILES = 200_000, 3_000, 6_000


class CountingStore:
    """Forwards calls to a store, and counts them by name; a listing counts once for each page."""

    def __init__(self, store: ObjectStore, calls: Counter[str]) -> None:
        self._store, self._calls, self._lock = store, calls, Lock()
        self.calls_at_once = store.calls_at_once

    def _count(self, name: str) -> None:
        with self._lock:
            self._calls[name] += 1

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        for number, entry in enumerate(self._store.list(prefix, start_after)):
            if number % PAGE_OBJECTS == 0:
                self._count("list")
            yield entry

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name != "key_fault":  # no request
                self._count(name)
            return getattr(self._store, name)(*arguments, **named)

        return call


def young_table(root: Path) -> Table:
    """A table of a few files that has had a change."""
    limits = EngineLimits(checked_files=FILES // 6)
    table = Table(root, COLUMNS, {"PrimaryKey": "id", "TargetFileBytes": "2000"}, limits=limits)
    table.load([{"id": key, "text": f"text {key * 7919 % 1009}"} for key in range(1000)])
    table.apply_file(FIRST, changes(0))
    return table


def changes(first: int) -> list[tuple[str, dict[str, Any]]]:
    return [("UD"[key % 2], {"id": key, "text": f"new {key}"}) for key in range(first, 900, 300)]


def requests_of_a_change(table: Table, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Apply a change, and count the calls of stores, and the files of the lake that are opened."""
    calls: Counter[str] = Counter()
    table.write_changes(SECOND, changes(3))

    def opened(*arguments: Any) -> Any:
        calls["open"] += 1
        return open_input(*arguments)

    run = table.run()
    store = cast("ObjectStore", CountingStore(run.log.store, calls))
    with monkeypatch.context() as patched:
        patched.setattr(reader, "open_input", opened)
        summary = load_incremental(replace(run, log=ChangeLog(store, table.layout)), table.spark, "", "")
    assert summary["books"]["applied"] == len(changes(3))
    return calls


def write_snapshot(table: Table, snapshot: Snapshot) -> None:
    """Replace the newest snapshot."""
    record = table.log.record(table.log.head())
    table.log.store.put(record.snapshot_key, snapshot.to_bytes())


def add_tombstones(table: Table) -> None:
    """Remember deletes of many keys, between and after those of the table."""
    fs = lake_filesystem(table.lake.as_uri()).open()
    keys = pa.array(range(500, 500 + TOMBSTONES), pa.int64())
    positions = pa.array([position(FIRST, number) for number in range(TOMBSTONES)])
    rows = pa.table({LEADING_KEY: keys, KEY: keys, POSITION: positions})
    kept = rows.filter(pa.compute.greater_equal(rows[KEY], 1000))
    file = write_tombstone_file(fs, table.layout.tombstones_key(2, "old") + ".parquet", kept, FIRST, ("bigint",))
    snapshot = table.log.snapshot(2)
    write_snapshot(table, replace(snapshot, tombstones=(*snapshot.tombstones, file)))


def add_records(table: Table) -> None:
    """Continue the table's log with many changes that changed no row."""
    log, layout = table.log, table.layout
    record, snapshot = log.record(2), log.snapshot(2)
    last = 2 + RECORDS
    for change in range(3, last + 1):
        key = layout.snapshot_key(change, "old")
        copy = replace(record, change=change, added=(), retired=(), raw_files=(), snapshot_key=key)
        log.store.put(layout.change_key(change), copy.to_bytes())
        log.store.put(layout.published_key(change), b"")
    log.store.put(layout.snapshot_key(last, "old"), replace(snapshot, change=last).to_bytes())
    log.store.put(layout.newest_published_key, str(last).encode())


def add_files(table: Table) -> None:
    """Add many data files whose keys follow those of the table."""
    files = []
    for number in range(FILES):
        path, key = f"000000000002-old-{number:05d}.parquet", 10_000 + number
        (table.folder / path).write_bytes(b"PAR1")
        files.append(DataFile(path, 1, 4, (), key, key))
    snapshot = table.log.snapshot(2)
    write_snapshot(table, replace(snapshot, files=(*snapshot.files, *files)))


@pytest.mark.sampled(test=1)
@pytest.mark.slow
@pytest.mark.parametrize("grow_old", [add_tombstones, add_records, add_files])
def test_a_change_of_an_old_table_takes_at_most_twice_the_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grow_old: Callable[[Table], None]
) -> None:
    few = requests_of_a_change(young_table(tmp_path / "young"), monkeypatch)
    table = young_table(tmp_path / "old")
    grow_old(table)
    many = requests_of_a_change(table, monkeypatch)
    assert few.total() > 10
    assert many.total() <= 2 * few.total(), (few, many)
