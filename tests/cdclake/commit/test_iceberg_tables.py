"""The metadata of an Iceberg table and the version hint, whoever else writes them at the same time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdclake.commit.clean_up import deletable_since, plan_clean_up
from cdclake.commit.erasure import replace_object
from cdclake.commit.iceberg.tables import prepare_iceberg
from cdclake.commit.log import ChangeLog
from cdclake.commit.report import change_summaries
from cdclake.commit.table_files import check_files, compare_with_history
from cdclake.commit.undo import plan_rollback
from cdclake.errors import CommitConflictError, ConfigurationError, IntegrityError
from cdclake.model.change.record import ChangeKind
from cdclake.model.iceberg.field_ids import FieldIds
from cdclake.model.iceberg.table import IcebergFiles
from cdclake.model.retained import Retained
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder, change_record

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

HINT = LAYOUT.version_hint_key


@pytest.fixture
def lake() -> LakeBuilder:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    lake.change()
    lake.change()
    return lake


def prepared(lake: LakeBuilder, store: Any = None, *, url: str = "memory://", **fields: Any) -> Any:
    """Prepare to publish change 2 as one of an Iceberg table; returns what moves the hint."""
    files = IcebergFiles(f"{LAYOUT.manifest_prefix(2, 'run-2')}.avro", (), 1, 1, in_folder=False, lake_url=url)
    ids = FieldIds({"id": 1, "op": 2, "_cdc_position": 3}, 3)
    snapshot = replace(lake.snapshot, iceberg=files, field_ids=ids)
    record = change_record(2, iceberg=True, **fields)
    (move,) = prepare_iceberg(ChangeLog(store or lake.store, LAYOUT), record, snapshot)
    return move


def written(lake: LakeBuilder) -> Any:
    return json.loads(lake.store.get(LAYOUT.iceberg_metadata_key(2)) or b"{}")


@pytest.mark.parametrize("hint", [None, b"1", b"0", b"x", b"2", b"3"])
def test_the_hint_names_the_newest_change(lake: LakeBuilder, hint: bytes | None) -> None:
    """A hint that names a later one is of another table that was here."""
    move = prepared(lake)
    if hint:
        lake.store.put(HINT, hint)
    move()
    assert lake.store.get(HINT) == b"2"


@pytest.mark.parametrize(("hint", "after"), [(None, b"2"), (b"1", b"2"), (b"2", b"2"), (b"3", b"3")])
def test_the_hint_names_a_change_unless_it_names_a_later_one(
    lake: LakeBuilder, hint: bytes | None, after: bytes
) -> None:
    move = prepared(lake)
    lake.change()
    if hint:
        lake.store.put(HINT, hint)
    move()
    assert lake.store.get(HINT) == after


def test_a_hint_that_another_run_writes_at_the_same_moment_is_read_again(lake: LakeBuilder) -> None:
    class Raced:
        """A store in which another run writes the first hint right before this one does."""

        def __getattr__(self, name: str) -> Any:
            return getattr(lake.store, name)

        def put_if_absent(self, key: str, data: bytes) -> bool:
            if key == HINT:
                lake.store.put(HINT, b"1")
            return lake.store.put_if_absent(key, data)

    prepared(lake, cast("ObjectStore", Raced()))()
    assert lake.store.get(HINT) == b"2"


def test_a_run_that_pauses_before_it_writes_the_first_hint_offers_no_table_that_was_withdrawn(
    lake: LakeBuilder,
) -> None:
    class Paused:
        """A store in which others publish the change and roll it back right before the first hint is written."""

        def __getattr__(self, name: str) -> Any:
            return getattr(lake.store, name)

        def put_if_absent(self, key: str, data: bytes) -> bool:
            if key == HINT:
                prepared(lake)()
                lake.change()
                (withdraw,) = prepare_iceberg(lake.log, change_record(3, iceberg=False, switched=True))
                withdraw()
            return lake.store.put_if_absent(key, data)

    prepared(lake, cast("ObjectStore", Paused()))()
    assert lake.store.get(HINT) == b"3"
    assert lake.store.get(LAYOUT.iceberg_metadata_key(3)) is None


def test_metadata_before_that_is_missing_or_of_another_place_is_left_out(
    lake: LakeBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    prepared(lake)
    assert "so its readers cannot go back to earlier changes" in caplog.text
    metadata = written(lake)
    elsewhere = {**metadata, "location": "memory://elsewhere", "current-snapshot-id": 1}
    lake.store.put(LAYOUT.iceberg_metadata_key(1), json.dumps(elsewhere).encode())
    lake.store.delete([LAYOUT.iceberg_metadata_key(2)])
    prepared(lake)
    assert [one["snapshot-id"] for one in written(lake)["snapshots"]] == [2]
    assert written(lake)["location"] == metadata["location"]


def test_a_change_without_manifests_is_named(lake: LakeBuilder) -> None:
    with pytest.raises(IntegrityError, match="Change 2 lacks the manifests of its Iceberg table"):
        prepare_iceberg(lake.log, change_record(2, iceberg=True, switched=True), lake.snapshot)


def test_a_rollback_to_a_table_whose_manifests_name_another_place_is_refused(lake: LakeBuilder) -> None:
    files = IcebergFiles("list.avro", (), 1, 1, in_folder=False, lake_url="memory://elsewhere/")
    lake.change(snapshot={"iceberg": files})
    lake.change()
    with pytest.raises(ConfigurationError, match="was made while the lake was at memory://elsewhere/"):
        plan_rollback(lake.log, 3)


def test_an_erasure_cannot_be_undone_by_undoing_the_last_change(lake: LakeBuilder) -> None:
    lake.change(kind=ChangeKind.ERASURE)
    with pytest.raises(ConfigurationError, match="change 3, erased rows permanently and cannot be undone"):
        plan_rollback(lake.log)


def test_an_object_that_another_erasure_changed_is_not_replaced(lake: LakeBuilder) -> None:
    lake.store.put("key", b"another")
    with pytest.raises(CommitConflictError, match="Another run changed an object"):
        replace_object(lake.store, "key", b"new", b"old")


def test_changes_are_summarized_in_order(lake: LakeBuilder) -> None:
    assert [one.change for one in change_summaries(lake.log, 0)] == [1, 2]
    assert [one.change for one in change_summaries(lake.log, 1, 2)] == [2]


def test_files_of_an_iceberg_table_stay_for_the_grace_after_the_last_clean_up(lake: LakeBuilder) -> None:
    prepared(lake)()
    lake.store.put(LAYOUT.iceberg_metadata_key(1), b"{}")
    tomorrow = lake.clock() + timedelta(days=10_000)  # the store's clock is the real one
    assert plan_clean_up(lake.log, timedelta(30), tomorrow).iceberg == (LAYOUT.iceberg_metadata_key(1),)
    lake.log.mark_retained(Retained(1))
    assert plan_clean_up(lake.log, timedelta(30), lake.clock()).iceberg == ()
    lake.store.put(LAYOUT.iceberg_metadata_key(1), b"{}")
    assert deletable_since(lake.log, 2, just_cleaned=True).retired_utc


def test_files_of_a_table_that_has_the_place_of_a_history_are_not_stale(lake: LakeBuilder) -> None:
    LakeBuilder(ChangeLog(lake.store, LAYOUT.history), ManualClock()).change()
    assert not compare_with_history(lake.log, lake.snapshot)


def test_a_stale_file_that_no_retained_change_needs_is_deleted(lake: LakeBuilder) -> None:
    (old, _) = lake.snapshot.files
    lake.change(retired=[old.path])
    lake.log.mark_retained(Retained(3))
    key, retired_key = LAYOUT.data_key(old.path), LAYOUT.retired_key(old.path)
    lake.store.restore(key, retired_key)
    check_files(lake.log, lake.snapshot)
    assert not lake.store.is_retained(key, retired_key)
