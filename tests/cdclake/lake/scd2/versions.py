"""Reads a table's history as a reader of its folder sees it, or one of its Iceberg table.

It uses none of the product's code for histories.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from cdclake.model.position import COLUMN as POSITION
from cdclake.model.versions import CHANGE_ID, OPERATION, VALID_FROM, VALID_TO, VALIDITY_FLAG
from cdclake_devkit.oracle import LakeRow, Version
from tests.cdclake.lake.iceberg.readers import IcebergReaders

if TYPE_CHECKING:
    from cdclake.lake.storage.partitions import Partition
    from tests.cdclake.lake.table import Table

_FOLDER = re.compile(r"year=(\d{4})/month=(\d\d)/\d{12}-\d{5,}\.parquet")
_FILE_TIME = re.compile(r"(\d{8}-\d{9})\S*\|\d+[+-]*$")


def version_files(table: Table) -> dict[str, bytes]:
    """All files in the history's folder, by path."""
    folder = table.lake / table.layout.history.table_prefix
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def version_rows(table: Table) -> list[dict[str, Any]]:
    """All rows of the history. Where readers list a folder and open an Iceberg table, both have the same."""
    history = table.log.snapshot(table.log.head()).history
    if not (history and history.iceberg):
        return _rows_in_folder(table)
    rows = IcebergReaders(table.lake, table.layout.history).rows()
    for row in rows:
        assert row.pop("year") == f"{row[VALID_FROM].year:04}"
        assert row.pop("month") == f"{row[VALID_FROM].month:02}"
    if history.iceberg.in_folder:
        absent: dict[str, Any] = dict.fromkeys(rows[0] if rows else ())  # files of before a column came lack it
        own = [{name: row[name] for name in row.keys() - {"year", "month"}} for row in _rows_in_folder(table)]
        in_folder = [{**absent, **row} for row in own]
        assert sorted(map(_as_text, in_folder)) == sorted(map(_as_text, rows))
    else:
        assert not version_files(table)
    return rows


def _rows_in_folder(table: Table) -> list[dict[str, Any]]:
    """All rows in the history's folder. Each is in that of its month, and the files are those of the snapshot."""
    folder = table.lake / table.layout.history.table_prefix
    rows = []
    for path in version_files(table):
        month = _FOLDER.fullmatch(path)
        assert month, path
        for row in pq.read_table(folder / path, partitioning=None).to_pylist():
            assert (row[VALID_FROM].year, row[VALID_FROM].month) == (int(month[1]), int(month[2]))
            rows.append(row)
    history = table.log.snapshot(table.log.head()).history
    live = [(file.path, file.rows) for file in history.files] if history else []
    assert sorted(path for path, _ in live) == sorted(f"_history/{path}" for path in version_files(table))
    assert sum(count for _, count in live) == len(rows)
    return rows


def table_rows(table: Table) -> list[LakeRow]:
    """Rows of the table, as a reader of its folder or of its Iceberg table sees them."""
    iceberg = table.log.snapshot(table.log.head()).iceberg
    if iceberg is None or iceberg.in_folder:
        return table.rows()
    rows = IcebergReaders(table.lake, table.layout).rows()
    own = ("Op", POSITION)
    return [LakeRow({name: row.get(name) for name in table.columns.names}, *(row[one] for one in own)) for row in rows]


def versions(table: Table, key: tuple[str, ...], loads: tuple[int, ...] = ()) -> list[Version]:
    """The history in the oracle's form. Each key has exactly one row whose flag is 1: its newest version.

    Args:
        loads: Numbers of the changes that were full loads.
    """

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in key), sum(load <= row[CHANGE_ID] for load in loads), row[POSITION]

    rows = sorted(version_rows(table), key=order)
    for row, following in zip(rows, [*rows, None][1:], strict=True):
        is_newest = following is None or order(row)[0] != order(following)[0]
        assert row[VALIDITY_FLAG] == is_newest, row
        assert is_newest == (row[VALID_TO] is None) or not is_newest, row
    return [
        Version(
            {name: row.get(name) for name in table.columns.names},
            row[OPERATION],
            row[POSITION],
            row[VALID_FROM],
            row[VALID_TO],
        )
        for row in rows
    ]


def check_newest_are_the_table(table: Table, key: tuple[str, ...]) -> None:
    """Every key has one newest version, and those that are not deletes equal the rows of the table."""
    newest = [row for row in version_rows(table) if row[VALIDITY_FLAG]]
    keys = [tuple(row[name] for name in key) for row in newest]
    assert len(set(keys)) == len(keys)
    live = [[printed(row.get(name)) for name in table.columns.names] for row in newest if row[OPERATION] != "delete"]
    rows = [[printed(one.row[name]) for name in table.columns.names] for one in table_rows(table) if one.op != "D"]
    assert sorted(live) == sorted(rows)


def printed(value: object) -> str:
    """A value as text, the same for equal numbers."""
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{Decimal(value).normalize():f}"
    return repr(value + 0.0 if isinstance(value, float) else value)


def file_time(position: str) -> datetime | None:
    """The time in the file name in a position; None for a loaded row."""
    found = _FILE_TIME.search(position)
    return datetime.strptime(found[1], "%Y%m%d-%H%M%S%f").replace(tzinfo=timezone.utc) if found else None


def partitions(files: dict[str, bytes]) -> set[Partition]:
    """Years and months of files of a history."""
    return {tuple(re.findall(r"=(\d+)/", path)) for path in files}


def _as_text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
