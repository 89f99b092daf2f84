"""Files that appear, vanish or change in a table's folder are noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.commit.table_files import Differences, check_files, check_next_files, compare, repair
from cdclake.errors import IntegrityError, LakeFilesError
from cdclake.model.layout import HISTORY
from cdclake.model.snapshot import History
from cdclake_devkit.memory import MemoryStore
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject

TABLE = LAYOUT.table_prefix
FILES_PER_RUN = 4


def differences(lake: LakeBuilder) -> Differences:
    return compare(lake.log, lake.snapshot.files)


def test_a_table_as_cdclake_left_it_has_no_differences(lake: LakeBuilder) -> None:
    lake.change(files=3)
    assert not differences(lake)
    check_files(lake.log, lake.snapshot)


def test_a_foreign_file_is_named_and_repair_moves_it_away(lake: LakeBuilder) -> None:
    lake.change()
    visible = lake.visible()
    lake.store.put(f"{TABLE}day=2024-03-05/part-0.parquet", b"foreign")
    with pytest.raises(LakeFilesError, match=r"appeared .*day=2024-03-05/part-0.parquet.*cdclake repair shop.orders"):
        check_files(lake.log, lake.snapshot)
    repair(lake.log, lake.log.head(), differences(lake))
    assert lake.visible() == visible
    assert lake.store.get(LAYOUT.foreign_key("day=2024-03-05/part-0.parquet")) == b"foreign"


def test_a_file_in_the_folder_of_a_new_table_is_an_error_that_names_adoption(lake: LakeBuilder) -> None:
    lake.store.put(f"{TABLE}part-0.parquet", b"foreign")
    with pytest.raises(LakeFilesError, match=r"did not write.*cdclake adopt shop.orders"):
        check_files(lake.log, lake.snapshot)


def test_a_vanished_file_is_named_and_repair_restores_it_if_it_is_retained(lake: LakeBuilder) -> None:
    lake.change(files=2)
    visible = lake.visible()
    path = min(visible)
    lake.store.retire(TABLE + path, LAYOUT.retired_key(path))  # like a delete in a versioned bucket
    with pytest.raises(LakeFilesError, match=f"vanished .*{path}.*cdclake repair shop.orders"):
        check_files(lake.log, lake.snapshot)
    check_files(lake.log, lake.snapshot, reloads=True)
    repair(lake.log, lake.log.head(), differences(lake))
    assert lake.visible() == visible


def test_a_vanished_file_that_is_not_retained_stays_an_error(lake: LakeBuilder) -> None:
    lake.change(files=2)
    path = min(lake.visible())
    lake.store.retire(TABLE + path, LAYOUT.retired_key(path))
    lake.store.discard(TABLE + path, LAYOUT.retired_key(path))
    with pytest.raises(IntegrityError, match=path):
        repair(lake.log, lake.log.head(), differences(lake))


def test_an_overwritten_file_is_named_and_not_repaired(lake: LakeBuilder) -> None:
    lake.change()
    (path,) = lake.visible()
    lake.store.put(TABLE + path, b"other rows, and more of them than there were before")
    with pytest.raises(LakeFilesError, match=f"overwritten: {path}"):
        check_files(lake.log, lake.snapshot)
    with pytest.raises(LakeFilesError, match=f"overwritten: {path}"):
        repair(lake.log, lake.log.head(), differences(lake))


@pytest.mark.parametrize(
    "name",
    [
        *("_SUCCESS", "_temporary/0/part-0.parquet", ".hidden", ".part-1.crc"),
        *("day=1_$folder$", "day=1/_metadata", ".spark-staging/a/b"),
    ],
)
def test_files_that_readers_ignore_are_not_foreign(lake: LakeBuilder, name: str) -> None:
    lake.change()
    lake.store.put(TABLE + name, b"")
    assert not differences(lake)


def test_the_folder_of_a_partition_column_with_a_leading_underscore_is_read(lake: LakeBuilder) -> None:
    lake.change()
    lake.store.put(f"{TABLE}_day=1/part-0.parquet", b"")
    assert differences(lake).foreign == ("_day=1/part-0.parquet",)


def test_an_error_names_three_files_and_counts_the_rest(lake: LakeBuilder) -> None:
    lake.change()
    for number in range(5):
        lake.store.put(f"{TABLE}part-{number}.parquet", b"")
    with pytest.raises(LakeFilesError, match=r"part-0.parquet, part-1.parquet, part-2.parquet and 2 more"):
        check_files(lake.log, lake.snapshot)


@pytest.fixture
def large() -> LakeBuilder:
    """A table of 10 files, of which a run compares `FILES_PER_RUN`. All stores list the same."""
    lake = LakeBuilder(MemoryStore())
    lake.change(files=10)
    return lake


def runs_until_refused(lake: LakeBuilder, message: str) -> int:
    """Number of the first run that refuses to continue, from 1."""
    for number in range(1, 10):
        try:
            check_next_files(lake.log, lake.snapshot, FILES_PER_RUN)
        except LakeFilesError as error:
            assert message in str(error)
            return number
    raise AssertionError("no run noticed it")


@pytest.mark.parametrize(("index", "run"), [(0, 1), (3, 1), (4, 2), (7, 2), (8, 3), (9, 3)])
def test_runs_compare_a_large_table_part_by_part(large: LakeBuilder, index: int, run: int) -> None:
    path = sorted(large.visible())[index]
    large.store.retire(TABLE + path, LAYOUT.retired_key(path))
    # A lost file makes room for one more in a part, so only the first files behind it may be compared earlier.
    assert runs_until_refused(large, f"vanished from its lake folder: {path}") == run


def test_a_difference_stops_every_run_until_it_is_repaired(large: LakeBuilder) -> None:
    large.store.put(f"{TABLE}part-0.parquet", b"foreign")  # the last key
    assert runs_until_refused(large, "part-0.parquet") == 3
    assert runs_until_refused(large, "part-0.parquet") == 1
    repair(large.log, large.log.head(), differences(large))
    check_next_files(large.log, large.snapshot, FILES_PER_RUN)


def test_after_the_last_part_runs_begin_again(large: LakeBuilder) -> None:
    for _ in range(3):
        check_next_files(large.log, large.snapshot, FILES_PER_RUN)
    path = min(large.visible())
    large.store.put(TABLE + path, b"other rows, and more of them than there were before")
    assert runs_until_refused(large, f"overwritten: {path}") == 1


def test_parts_of_a_large_table_go_on_in_its_history(large: LakeBuilder) -> None:
    files = tuple(replace(file, path=f"{HISTORY}{file.path}") for file in large.snapshot.files[:3])
    for file in files:
        large.store.put(LAYOUT.data_key(file.path), b"x" * file.bytes)
    snapshot = replace(large.snapshot, history=History(large.snapshot.schema, (), open=files))
    for _ in range(4):
        check_next_files(large.log, snapshot, FILES_PER_RUN)
    large.store.put(f"{LAYOUT.history.table_prefix}part-0.parquet", b"foreign")
    for _ in range(3):
        check_next_files(large.log, snapshot, FILES_PER_RUN)
    with pytest.raises(LakeFilesError, match=f"{HISTORY}part-0.parquet"):
        check_next_files(large.log, snapshot, FILES_PER_RUN)


def test_hidden_files_count_as_compared(large: LakeBuilder) -> None:
    for number in range(20):
        large.store.put(f"{TABLE}_temporary/{number:02d}", b"")
    large.store.put(f"{TABLE}part-0.parquet", b"foreign")
    assert runs_until_refused(large, "part-0.parquet") == 8


def test_a_run_compares_a_large_table_in_few_requests(large: LakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    list_keys = large.store.list

    def listed(prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        for entry in list_keys(prefix, start_after):
            read.append(entry.key)
            yield entry

    monkeypatch.setattr(large.store, "list", listed)
    snapshot = large.snapshot
    read.clear()
    check_next_files(large.log, snapshot, FILES_PER_RUN)
    assert len(read) == 4
