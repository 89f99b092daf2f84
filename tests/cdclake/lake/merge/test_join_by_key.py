"""What the driver sends to the tasks that look up keys."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from cdclake.lake.merge.join_by_key import probe_files
from cdclake.lake.merge.messages import Batch
from cdclake.lake.merge.read_changes import ReadStats
from cdclake.lake.spark.in_process import InProcessBackend, InProcessPartitions
from cdclake.lake.storage.arrow_ipc import Rows
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.shape import TableShape
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Item = TypeVar("Item")
SHAPE = TableShape(Schema((Column("id", "string"),)), ("id",), ())
KEYS = [f"{number * 7919 % 10_007:036d}" for number in range(10_000)]


class RecordingBackend(InProcessBackend):
    """Notes the size of what it sends to tasks."""

    sent_bytes = 0

    def distribute(self, partitions: Sequence[Sequence[Item]]) -> InProcessPartitions[Item]:
        self.sent_bytes += len(pickle.dumps(partitions))
        backend = self

        class Recording(InProcessPartitions[Item]):
            def map_partitions(self, function: Any) -> InProcessPartitions[Any]:
                backend.sent_bytes += len(pickle.dumps(function))
                return super().map_partitions(function)

        return Recording(self, partitions)


def found_keys(
    wanted: Iterable[tuple[int, pa.Table]], *, files: Mapping[int, DataFile]
) -> Iterator[tuple[int, tuple[int, list[str]]]]:
    for i, rows in wanted:
        assert i in files
        yield 0, (i, rows[KEY].to_pylist())


def batches_of(*parts: Sequence[str]) -> InProcessPartitions[Batch[ReadStats]]:
    tables = [pa.table({LEADING_KEY: sorted(keys), KEY: sorted(keys)}) for keys in parts]
    return InProcessBackend().distribute([[Batch(ReadStats(inserts=table.num_rows), Rows(table)) for table in tables]])


def test_the_driver_sends_a_small_change_s_keys_once_however_many_files_may_contain_them() -> None:
    batches = batches_of(KEYS[:5_000], KEYS[5_000:])
    sent = []
    for count in (4, 200):
        files = [DataFile(str(i), 1, 1, (), KEYS[0], max(KEYS)) for i in range(count)]
        backend = RecordingBackend()
        found = dict(pair for _, pair in probe_files(backend, batches, files, SHAPE, found_keys).collect())
        assert found == dict.fromkeys(range(count), sorted(KEYS))
        sent.append(backend.sent_bytes)
    assert sent[1] < 1.2 * sent[0]


def test_the_driver_sends_only_the_files_that_may_contain_keys() -> None:
    sent = []
    for others in (0, 1_000):
        files = [DataFile(str(i), 1, 1, (), f"x{i}", f"x{i}") for i in range(others)]
        backend = RecordingBackend()
        found = probe_files(backend, batches_of("ab"), [*files, DataFile("f", 1, 1, (), "a", "b")], SHAPE, found_keys)
        assert [i for _, (i, _) in found.collect()] == [others]
        sent.append(backend.sent_bytes)
    assert sent[1] < sent[0] + 10


def test_each_file_gets_the_keys_of_its_range_from_all_batches() -> None:
    files = [DataFile("a", 1, 1, (), "a", "f"), DataFile("b", 1, 1, (), "x", "z"), DataFile("c", 1, 1, (), "d", "m")]
    found = probe_files(InProcessBackend(), batches_of("ekb", "dn"), files, SHAPE, found_keys).collect()
    assert dict(pair for _, pair in found) == {0: ["b", "d", "e"], 2: ["d", "e", "k"]}
