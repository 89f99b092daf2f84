"""pyiceberg reads the manifests of several lists at the same time, and writes each at most once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from cdclake.commit.log import ChangeLog
from cdclake.lake.operations.load import load_incremental
from cdclake.lake.storage.object_io import StoreIO
from cdclake_devkit.memory import MemoryStore
from tests.cdclake.lake.over_time import TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.ports import ObjectStore

COLUMNS = pa.schema([("id", pa.int64())])


class MeetingStore(MemoryStore):
    """Returns objects only to readers who read at the same time."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self.barrier = Barrier(readers, timeout=20)

    def get(self, key: str) -> bytes | None:
        self.barrier.wait()
        return super().get(key)


def test_objects_are_read_at_the_same_time() -> None:
    store = MeetingStore(2)
    inputs = [StoreIO(store).new_input(store.url(key)) for key in ("a", "b")]
    for one, content in zip(inputs, (b"1", b"22"), strict=True):
        store.put(one.location.removeprefix(store.url("")), content)
    with ThreadPoolExecutor(2) as pool:
        assert [stream.read() for stream in pool.map(lambda one: one.open(), inputs)] == [b"1", b"22"]


def test_an_object_is_read_once() -> None:
    store = MeetingStore(1)
    store.put("a", b"1")
    one = StoreIO(store).new_input(store.url("a"))
    assert (len(one), one.open().read()) == (1, b"1")
    store.put("a", b"2")
    assert one.open().read() == b"1"


class RefusingStore:
    """Passes on all calls, but refuses to write one kind of object."""

    def __init__(self, store: ObjectStore, ending: str) -> None:
        self.store, self.ending = store, ending
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def put(self, key: str, content: bytes) -> None:
        if key.endswith(self.ending):
            self.refused.append(key)
            raise PermissionError(key)
        self.store.put(key, content)


@pytest.mark.parametrize("ending", ["-m00001.avro", "-snapshot.avro"])
def test_a_manifest_that_could_not_be_written_is_not_written_when_its_memory_is_freed(
    tmp_path: Path, ending: str
) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg"})
    table.load([{"id": 1}])
    table.write_changes("20240305-101000000.parquet", [("I", {"id": 2})])
    run = table.run()
    store = RefusingStore(run.log.store, ending)
    refused = replace(run, log=ChangeLog(cast("ObjectStore", store), table.layout))
    with pytest.raises(PermissionError):
        load_incremental(refused, table.spark, "", "")
    gc.collect()
    assert len(store.refused) == 1
