"""Files that appear, vanish or change in a table's folder are noticed."""

from __future__ import annotations

import pytest

from cdclake.commit.table_files import Differences, check_files, compare, repair
from cdclake.errors import IntegrityError, LakeFilesError
from tests.builders import LAYOUT, LakeBuilder

TABLE = LAYOUT.table_prefix


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
    repair(lake.log, differences(lake))
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
    repair(lake.log, differences(lake))
    assert lake.visible() == visible


def test_a_vanished_file_that_is_not_retained_stays_an_error(lake: LakeBuilder) -> None:
    lake.change(files=2)
    path = min(lake.visible())
    lake.store.retire(TABLE + path, LAYOUT.retired_key(path))
    lake.store.discard(TABLE + path, LAYOUT.retired_key(path))
    with pytest.raises(IntegrityError, match=path):
        repair(lake.log, differences(lake))


def test_an_overwritten_file_is_named_and_not_repaired(lake: LakeBuilder) -> None:
    lake.change()
    (path,) = lake.visible()
    lake.store.put(TABLE + path, b"other rows, and more of them than there were before")
    with pytest.raises(LakeFilesError, match=f"overwritten: {path}"):
        check_files(lake.log, lake.snapshot)
    with pytest.raises(LakeFilesError, match=f"overwritten: {path}"):
        repair(lake.log, differences(lake))


@pytest.mark.parametrize(
    "name",
    ["_SUCCESS", "_temporary/0/part-0.parquet", ".hidden", "day=1_$folder$", "day=1/_metadata", ".spark-staging/a/b"],
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
