"""Lists of changes: which are current, undone or retained, in any part of the log."""

from __future__ import annotations

import pytest

from cdclake.commit.report import LogReport, newest_changes
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LakeBuilder


@pytest.fixture
def lake() -> LakeBuilder:
    """Five changes, and a rollback to the third."""
    lake = LakeBuilder(MemoryStore(), ManualClock())
    for _ in range(5):
        lake.change()
    lake.rollback(to=3)
    return lake


def flags(report: LogReport) -> list[tuple[int, bool, bool]]:
    return [(entry.record.change, entry.current, entry.undone) for entry in report.entries]


def test_a_list_of_older_changes_considers_later_rollbacks(lake: LakeBuilder) -> None:
    assert flags(newest_changes(lake.log, 3, through=5)) == [(3, True, False), (4, False, True), (5, False, True)]
    assert flags(newest_changes(lake.log, 2, through=2)) == [(1, False, False), (2, False, False)]


def test_the_parts_of_a_list_equal_the_whole_list(lake: LakeBuilder) -> None:
    whole = newest_changes(lake.log, 6)
    parts = [newest_changes(lake.log, 2, through) for through in (2, 4, 6)]
    assert tuple(entry for part in parts for entry in part.entries) == whole.entries
    assert {(part.head, part.content_change) for part in parts} == {(6, 3)}


def test_a_list_beyond_the_newest_change_ends_with_the_newest(lake: LakeBuilder) -> None:
    assert newest_changes(lake.log, 2, through=99) == newest_changes(lake.log, 2)
