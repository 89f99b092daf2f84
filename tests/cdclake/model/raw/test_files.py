"""Names of DMS's files, their order, and the table of a key."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cdclake.errors import UnreadableFileError
from cdclake.model.position import position
from cdclake.model.raw.files import (
    ListedObject,
    RawFormat,
    RawKind,
    file_order,
    parse_raw_file,
    raw_files,
    split_raw_key,
)

NOW = datetime(2024, 3, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("relative", "kind", "written_as"),
    [
        ("LOAD00000001.parquet", RawKind.FULL_LOAD, RawFormat.PARQUET),
        ("LOAD0000000A.csv", RawKind.FULL_LOAD, RawFormat.CSV),
        ("LOAD00000010.csv.gz", RawKind.FULL_LOAD, RawFormat.CSV_GZ),
        ("part0/LOAD00000001.parquet", RawKind.FULL_LOAD, RawFormat.PARQUET),
        ("SEGMENT1_LOAD00000001.parquet", RawKind.FULL_LOAD, RawFormat.PARQUET),
        ("20240305-101500123.parquet", RawKind.CHANGE, RawFormat.PARQUET),
        ("20240305-1015001234.csv", RawKind.CHANGE, RawFormat.CSV),
        ("2024/03/05/20240305-101500123.csv.gz", RawKind.CHANGE, RawFormat.CSV_GZ),
        ("03-2024-05-05/20240305-101500123.csv", RawKind.CHANGE, RawFormat.CSV),
        ("2021/9/11/20210911_113913.parquet", RawKind.CHANGE, RawFormat.PARQUET),
        ("20210911_113913.csv.gz", RawKind.CHANGE, RawFormat.CSV_GZ),
    ],
)
def test_the_names_dms_writes_are_recognized(relative: str, kind: RawKind, written_as: RawFormat) -> None:
    file = parse_raw_file(ListedObject(f"s/t/{relative}", 1, NOW), "s/t/")
    assert file is not None
    assert (file.kind, file.format) == (kind, written_as)


@pytest.mark.parametrize(
    "relative",
    [
        "",
        "0.parquet",
        "LOAD1.parquet",
        "LOAD00000001.parquet.tmp",
        "20240305-1015.csv",
        "20240305_101500123.csv",
        "20240305-101500.csv",
        "2024/03/05/",
        "notes.txt",
        "٢٠٢٤٠٣٠٥-١٠١٥٠٠١٢٣.csv",
    ],
)
def test_other_names_are_not_raw_files(relative: str) -> None:
    assert parse_raw_file(ListedObject(f"s/t/{relative}", 1, NOW), "s/t/") is None


def test_change_files_are_ordered_by_time_in_any_folder() -> None:
    names = [
        "20240305-101500123.parquet",
        "05032024/20240305-1015001235.csv",
        "2024/03/05/20240305-111500000.csv",
        "01042024/20240401-000000000.csv",
        "20240402-000000000.csv",
    ]
    objects = [ListedObject(f"s/t/{name}", 1, NOW) for name in reversed(names)]
    changes = raw_files(objects, "s/t/").changes
    assert [file.relative for file in changes] == names


@pytest.mark.parametrize(
    "name",
    [
        "20260101-096500000.parquet",
        "20240230-101500123.csv",
        "2024/03/05/20240305-2415001234.csv",
        "00000101-101500123.csv",
    ],
)
def test_an_invalid_time_in_the_name_of_a_change_file_is_an_error_that_names_the_file(name: str) -> None:
    objects = [ListedObject(f"s/t/{one}", 1, NOW) for one in ("20240305-101500123.csv", name, "20240305-235959999.csv")]
    with pytest.raises(UnreadableFileError, match="has an invalid time") as caught:
        raw_files(objects, "s/t/")
    assert caught.value.details == {"file": f"s/t/{name}"}
    assert "Rename it" in caught.value.remedy


def test_the_order_of_files_is_the_order_of_their_rows_positions() -> None:
    names = [
        "2024/3/4/20240304_235959.csv",
        "20240305-101500000.csv",
        "2024/3/5/20240305_101500.csv",
        "20240305_101500.csv",
        "20240305-101500123.csv",
        "20240305-101500123.parquet",
        "a/20240305-101500123.csv",
        "20240305-1015001230.csv",
        "b/20240305-1015001230.csv",
        "20240305-101500124.csv",
    ]
    assert sorted(names, key=file_order) == names
    positions = [position(name, row) for name in names for row in (0, 1, 9, 10, 123_456)]
    assert sorted(positions) == positions


def test_a_sentinel_sorts_before_every_change_file() -> None:
    assert file_order("0.parquet") == file_order("") == ""


@pytest.mark.parametrize(
    ("key", "prefix", "expected"),
    [
        ("shop/orders/LOAD00000001.csv", "", ("shop/", "orders/", "LOAD00000001.csv")),
        (
            "dms/shop/orders/2024/03/05/20240305-101500123.csv",
            "dms/",
            ("dms/shop/", "orders/", "2024/03/05/20240305-101500123.csv"),
        ),
        (
            "dms/abc/devices/2021/9/11/20210911_113913.parquet",
            "dms/",
            ("dms/abc/", "devices/", "2021/9/11/20210911_113913.parquet"),
        ),
        ("shop/orders/LOAD00000001.csv", "dms/", None),
        ("shop/LOAD00000001.csv", "", None),
        ("shop/orders/notes.txt", "", None),
        ("s3_validation_failures/orders/LOAD00000001.csv", "", None),
        ("shop/awsdms_apply_exceptions/LOAD00000001.csv", "", None),
    ],
)
def test_a_key_tells_its_table(key: str, prefix: str, expected: tuple[str, str, str] | None) -> None:
    assert split_raw_key(key, prefix) == expected


def test_objects_of_a_table_folder_that_hold_no_data_are_not_unread() -> None:
    markers = {
        "": 0,
        "2024/": 0,
        "2024_$folder$": 0,
        "_SUCCESS": 0,
        "_temporary/0/part-0.parquet": 5,
        ".part-0.parquet.crc": 12,
        "awsdms_status/x.csv": 3,
        "s3_validation_failures/x.csv": 3,
        "done": 0,
    }
    data = {"20240305-1015.csv": 5, "broken.parquet": 0, "load00000001.csv": 1, "notes.txt": 3, "part-0.orc": 9}
    objects = [ListedObject(f"s/t/{name}", size, NOW) for name, size in {**markers, **data}.items()]
    objects += [ListedObject(f"s/t/{name}", 1, NOW) for name in ("LOAD00000001.csv", "20240305-101500123.csv")]
    found = raw_files(objects, "s/t/")
    assert found.unread == sorted(data)
    assert [file.relative for file in (*found.full_load, *found.changes)] == [
        "LOAD00000001.csv",
        "20240305-101500123.csv",
    ]


@pytest.mark.parametrize(
    ("glob", "is_ignored"),
    [("a[1]/*.csv", True), ("a[1]/20240305-10150012?.csv", True), ("a[01]/*", False), ("a[!2]/*", False)],
)
def test_brackets_in_a_glob_mean_themselves(glob: str, *, is_ignored: bool) -> None:
    found = raw_files([ListedObject("s/t/a[1]/20240305-101500123.csv", 1, NOW)], "s/t/", [glob])
    assert bool(found.ignored) is is_ignored


def test_files_that_a_glob_covers_are_ignored_whatever_they_are() -> None:
    names = ["LOAD00000001.csv", "2024/20240305-101500123.csv", "2024/notes.txt", "notes.txt"]
    objects = [ListedObject(f"s/t/{name}", 1, NOW) for name in names]
    objects.append(ListedObject("s/cdc/CDC_TXN-20240305101500123.csv", 1, NOW))
    found = raw_files(objects, "s/t/", ["2024/*", "LOAD*", "CDC_TXN-2024030510*"])
    assert (list(found.full_load), list(found.changes), list(found.unread)) == ([], [], ["notes.txt"])
    assert [file.relative for file in found.ignored] == [
        "2024/20240305-101500123.csv",
        "CDC_TXN-20240305101500123.csv",
        "LOAD00000001.csv",
    ]
