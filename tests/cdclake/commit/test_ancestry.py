"""The changes that made a table's content are found with about one read for each change on the way."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from cdclake.commit.ancestry import ancestry
from cdclake.commit.log import ChangeLog
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    import pytest

    from cdclake.model.change.record import ChangeRecord


class ReadRecords(MemoryStore):
    """Notes which change records are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes | None:
        if key.startswith(LAYOUT.changes_prefix):
            self.read.append(key)
        return super().get(key)


def test_no_record_is_read_twice() -> None:
    store = ReadRecords()
    lake = LakeBuilder(store, ManualClock())
    for _ in range(4):
        lake.change()
    lake.rollback(2)
    lake.change()
    store.read.clear()
    changes = [record.change for record in ancestry(ChangeLog(store, LAYOUT), 6)]
    assert changes == [6, 2, 1]
    assert sorted(store.read) == [LAYOUT.change_key(number) for number in (1, 2, 4, 5, 6)]


def test_many_records_are_read_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    for _ in range(40):
        lake.change()
    blocks: list[tuple[int, int]] = []
    records = lake.log.records

    def read(first: int, last: int) -> list[ChangeRecord]:
        blocks.append((first, last))
        return records(first, last)

    monkeypatch.setattr(lake.log, "records", read)
    assert next(ancestry(lake.log, 40)).change == 40
    assert blocks == [(40, 40)]
    blocks.clear()
    assert [record.change for record in islice(ancestry(lake.log, 40, 36), 5)] == [40, 39, 38, 37, 36]
    assert blocks == [(40, 40), (38, 39), (36, 37)]
    blocks.clear()
    assert [record.change for record in ancestry(lake.log, 40)] == list(range(40, 0, -1))
    assert blocks == [(40, 40), (38, 39), (34, 37), (26, 33), (10, 25), (1, 9)]


def test_a_table_that_is_as_before_its_first_change_has_no_ancestry() -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    lake.change()
    lake.rollback(0)
    assert list(ancestry(lake.log, 2)) == list(ancestry(lake.log, 0)) == []


def test_a_run_reads_the_newest_record_once() -> None:
    store = ReadRecords()
    lake = LakeBuilder(store, ManualClock())
    for _ in range(3):
        lake.change()
    log = ChangeLog(store, LAYOUT)
    store.read.clear()
    log.check_fence(3, 100)
    assert log.snapshot(3).change == 3
    assert [record.change for record in ancestry(log, 3)] == [3, 2, 1]
    assert log.fencing_token(3) == log.record(3).fencing_token
    assert sorted(store.read) == [LAYOUT.change_key(number) for number in (1, 2, 3)]
