"""Partition values that are too long for the key of a data file."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.memory import MemoryStore
from cdclake.commit import log as commit_log
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import compare, repair
from cdclake.commit.takeover import take_over
from cdclake.errors import InputError, PastRetentionError
from cdclake.model.change import ChangeKind, StagedFile
from cdclake.model.layout import LakeLayout
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.ports import ObjectStore

NOW = datetime(2024, 4, 5, tzinfo=timezone.utc)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path)


def path_of(value: str) -> str:
    return LakeLayout.data_path(2, 1, ("day", "city"), ("2024-03-05", value))


def too_long_for(store: ObjectStore) -> str:
    return "ü" * (500 if isinstance(store, MemoryStore) else 130)


def commit_unpublishable(lake: LakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a change as earlier versions of cdclake did, of a good and a bad file, and let its run die."""
    good = lake.layout.data_path(2, 2, (), ())
    with monkeypatch.context() as patch:
        patch.setattr(commit_log, "require_storable", lambda *_: None)
        staged = [f"{lake.layout.staging_prefix(2, 'run-2')}{i}.parquet" for i in range(2)]
        added = (StagedFile(staged[0], path_of(too_long_for(lake.store))), StagedFile(staged[1], good))
        before = lake.snapshot.files
        record = lake.stage(2, retired=[before[0].path], added=added, snapshot=snapshot_of(lake, added))
        lake.log.commit(record)


def snapshot_of(lake: LakeBuilder, added: tuple[StagedFile, ...]) -> dict[str, object]:
    template = lake.snapshot.files[0]
    return {"files": tuple(replace(template, path=file.path) for file in added)}


@pytest.mark.parametrize("value", ["x" * 1000, "ü" * 500, "%" * 330, "/" * 330])
def test_a_key_of_more_than_1024_bytes_is_refused_before_the_commit(value: str) -> None:
    lake = LakeBuilder(MemoryStore())
    with pytest.raises(InputError, match=r"too long for the name of a data file: a key of .* 1024 in S3") as caught:
        lake.change(added=(StagedFile("staged", path_of(value)),))
    assert caught.value.details["column"] == "city"
    assert value[:5] not in str(caught.value)
    assert "PartitionKey" in caught.value.remedy
    assert lake.log.head() == 0


def test_the_longest_key_that_a_file_may_ever_have_counts() -> None:
    lake = LakeBuilder(MemoryStore())
    room = 1024 - len(LAYOUT.retired_key(path_of("")).replace("__HIVE_DEFAULT_PARTITION__", ""))
    with pytest.raises(InputError, match="a key of 1025 bytes"):
        lake.change(added=(StagedFile("staged", path_of("x" * (room + 1))),))
    lake.store.put("staged", b"rows")
    lake.log.commit(lake.stage(added=(StagedFile("staged", path_of("x" * room)),)))


def test_a_file_system_limits_each_name(tmp_path: Path) -> None:
    lake = LakeBuilder(FolderStore(tmp_path))
    with pytest.raises(InputError, match="a name of 256 bytes, of at most 255 in a file system"):
        lake.change(added=(StagedFile("staged", path_of("x" * 251)),))
    assert not lake.store.key_fault(path_of("x" * 250))


def test_a_change_that_cannot_be_published_is_rolled_back(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeBuilder(store)
    lake.change(2)
    visible = lake.visible()
    commit_unpublishable(lake, monkeypatch)
    assert roll_forward(lake.log) == 3
    assert roll_forward(lake.log) == 3
    record = lake.log.record(3)
    assert (record.kind, record.as_of, record.fencing_token) == (ChangeKind.ROLLBACK, 1, 1)
    assert "cannot hold files of change 2" in record.reason
    assert lake.visible() == visible
    assert not compare(lake.log, lake.snapshot.all_files)


def test_a_table_with_such_a_change_goes_on(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeBuilder(store)
    first = lake.change(2)
    commit_unpublishable(lake, monkeypatch)
    lake.token = 2
    assert take_over(lake.log, "run-3", 2, "the run died", lake.clock) == 4
    lake.change(1)
    repair(lake.log, lake.log.head(), compare(lake.log, lake.snapshot.all_files))
    lake.rollback(0)
    lake.rollback(first.change)
    plan = plan_clean_up(lake.log, timedelta(hours=1), NOW)
    clean_up(lake.log, plan)
    assert len(lake.visible()) == 2


def test_a_change_that_was_withdrawn_cannot_be_reapplied(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeBuilder(store)
    lake.change(2)
    commit_unpublishable(lake, monkeypatch)
    roll_forward(lake.log)
    with pytest.raises(PastRetentionError, match="no longer retained"):
        lake.reapply()
