"""Changes and plans in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.commit.adopt import adopt
from cdclake.commit.describe import action_text, clock_text, effect_text
from cdclake.commit.log import ChangeLog
from cdclake.commit.table_files import check_next_files
from cdclake.commit.undo import plan_reapply, plan_rollback
from cdclake.errors import ConfigurationError, IntegrityError, LakeFilesError
from cdclake.model.change.record import ChangeKind
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake_devkit.memory import ManualClock
from tests.builders import SCHEMA, LakeBuilder, change_record
from tests.cdclake.commit.conftest import in_memory

if TYPE_CHECKING:
    from cdclake.model.change.record import ChangeRecord

pytestmark = in_memory


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (change_record(3), "incremental"),
        (change_record(3, kind=ChangeKind.TAKEOVER, as_of=2), "takeover"),
        (change_record(3, kind=ChangeKind.ROLLBACK, as_of=1), "rollback to change 1"),
        (change_record(3, kind=ChangeKind.ROLLBACK, as_of=0), "rollback to the table before any change"),
        (change_record(3, kind=ChangeKind.REAPPLY, as_of=2), "reapply of change 2"),
    ],
)
def test_a_change_names_the_state_that_it_brought_back(record: ChangeRecord, text: str, lake: LakeBuilder) -> None:
    del lake
    assert effect_text(record) == text


def test_a_clock_that_was_behind_is_told(lake: LakeBuilder) -> None:
    del lake
    assert clock_text(change_record(3)) == ""
    late = change_record(3, clock_utc="2024-03-05T09:00:00+00:00")
    assert clock_text(late) == "the writer's clock showed 2024-03-05 09:00:00 UTC, so the time is from change 2"


def test_a_plan_is_an_order_and_names_its_changes(lake: LakeBuilder) -> None:
    for _ in range(3):
        lake.change()
    back = plan_rollback(lake.log, 1)
    name = lake.layout.name
    assert action_text(name, back) == f"Roll {name} back to change 1"
    assert [one.change for one in lake.log.records_of(back.undone)] == [2, 3]
    assert [one.change for one in lake.log.records_of([3, 1])] == [3, 1]
    assert action_text(name, plan_rollback(lake.log, 0)) == f"Roll {name} back to the table before any change"
    lake.apply(back)
    assert action_text(name, plan_reapply(lake.log)) == f"Reapply change 2 of {name}"


def test_files_are_adopted_once_and_only_as_they_were_read(lake: LakeBuilder) -> None:
    key = lake.layout.data_key("part-1.parquet")
    lake.store.put(key, b"rows")
    files = Snapshot(schema=SCHEMA, files=(DataFile("part-1.parquet", 0, 4),))
    changed = Snapshot(schema=SCHEMA, files=(DataFile("part-1.parquet", 0, 5),))
    with pytest.raises(LakeFilesError, match="changed while its files were read"):
        adopt(lake.log, changed, "by-hand", 1, ManualClock())
    assert adopt(lake.log, files, "by-hand", 1, ManualClock()).kind is ChangeKind.ADOPTION
    with pytest.raises(ConfigurationError, match="is already a lake table, at change 1"):
        adopt(lake.log, files, "by-hand", 1, ManualClock())
    with pytest.raises(ConfigurationError, match="adopted existing files"):
        plan_rollback(lake.log, 0)
    check_next_files(lake.log, lake.snapshot, 1)


def test_a_missing_record_is_named_and_what_others_put_beside_the_records_is_none(lake: LakeBuilder) -> None:
    lake.change()
    lake.store.put(lake.layout.changes_prefix + "notes.txt", b"of an operator")
    assert lake.log.head() == 1
    assert lake.log.delays([]) == {}
    lake.store.delete([lake.layout.change_key(1)])
    with pytest.raises(IntegrityError, match="An object of the change log of"):
        ChangeLog(lake.store, lake.layout).record(1)
