"""The changes that made a table's content are found with one read for each change on the way."""

from __future__ import annotations

from cdclake.adapters.memory import ManualClock, MemoryStore
from cdclake.commit.ancestry import ancestry
from tests.builders import LAYOUT, LakeBuilder


class ReadRecords(MemoryStore):
    """Notes which change records are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes | None:
        if key.startswith(LAYOUT.changes_prefix):
            self.read.append(key)
        return super().get(key)


def test_each_record_is_read_once() -> None:
    store = ReadRecords()
    lake = LakeBuilder(store, ManualClock())
    for _ in range(4):
        lake.change()
    lake.rollback(2)
    lake.change()
    store.read.clear()
    changes = [record.change for record in ancestry(lake.log, 6)]
    assert changes == [6, 2, 1]
    assert store.read == [LAYOUT.change_key(number) for number in (6, 5, 2, 1)]


def test_a_table_that_is_as_before_its_first_change_has_no_ancestry() -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    lake.change()
    lake.rollback(0)
    assert list(ancestry(lake.log, 2)) == list(ancestry(lake.log, 0)) == []
