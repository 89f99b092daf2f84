"""Rows of a source as the raw files that DMS would write of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.devkit.dms.files import BEFORE_PREFIX, ChangeRows, change_bytes, full_load_bytes
from cdclake.devkit.dms.names import DmsFile, change_path, full_load_path, table_folder
from cdclake.devkit.dms.settings import KILOBYTE, BeforeImages, ParallelLoad
from cdclake.devkit.replicate.mysql_types import logged
from cdclake.errors import ConfigurationError
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from cdclake.devkit.dms.settings import DmsSettings
    from cdclake.devkit.replicate.cut import StampedRow
    from cdclake.devkit.replicate.mysql_types import SourceColumn
    from cdclake.devkit.replicate.source_tables import SourceTable
    from cdclake.model.table import TableName
    from cdclake.ports import Clock

CHANGE_SEQUENCE = "AR_H_CHANGE_SEQ"
_LOBS = frozenset({"text", "mediumtext", "longtext", "blob", "mediumblob", "longblob", "json"})


def check_settings(settings: DmsSettings) -> None:
    """See that the stand-in can do what the settings ask for.

    Raises:
        ConfigurationError: Names the setting that it cannot obey.
    """
    refused = {
        "PreserveTransactions": settings.preserve_transactions,
        "ParallelLoad": settings.parallel_load is not ParallelLoad.NONE,
        "HeaderColumns": set(settings.header_columns) - {CHANGE_SEQUENCE},
    }
    for name, value in refused.items():
        if value:
            message = f"The stand-in for DMS does not know {name} of that value"
            raise ConfigurationError(message, remedy=f"Leave {name} out (HeaderColumns: only {CHANGE_SEQUENCE})")


def check_columns(table: TableName, columns: Sequence[SourceColumn], key: Sequence[str], settings: DmsSettings) -> None:
    """See that no column of a table is called as one that is added to it, in whatever case: nobody could tell the two.

    Raises:
        ConfigurationError: Names the column.
    """
    added = [OP_COLUMN, settings.timestamp_column_name, *_added(columns, key, settings)]
    taken = {name.lower() for name in added if name}
    for column in columns:
        if column.name.lower() in taken:
            message = "The source has a column of a name that DMS's settings give to a column of their own"
            remedy = "Choose another TimestampColumnName, leave the table out, or rename the column at the source"
            raise ConfigurationError(message, remedy=remedy, table=table, column=column.name)


def full_load_files(
    table: SourceTable, pieces: Iterable[pa.Table], settings: DmsSettings, clock: Clock
) -> Iterator[DmsFile]:
    """The `LOAD` files of a table; none if it has no rows.

    Args:
        table: The table.
        pieces: Its rows.
        settings: Of the replication.
        clock: Gives the rows their time.
    """
    waiting: list[pa.Table] = []
    number = 0
    for piece in pieces:
        waiting.append(piece)
        if sum(part.nbytes for part in waiting) >= settings.max_file_size * KILOBYTE:
            number += 1
            yield _full_load_file(table, waiting, number, settings, clock())
            waiting = []
    if any(part.num_rows for part in waiting):
        yield _full_load_file(table, waiting, number + 1, settings, clock())


def change_file(rows: Sequence[StampedRow], settings: DmsSettings, written_utc: datetime) -> DmsFile:
    """A change file.

    Args:
        rows: Rows of one table with one set of columns, at least one.
        settings: Of the replication.
        written_utc: The time that names it.

    Raises:
        ConfigurationError: See `check_columns`.
    """
    first = rows[0].change
    check_columns(first.table, first.columns, first.key, settings)
    headers = pa.table({CHANGE_SEQUENCE: [row.sequence for row in rows]}) if settings.header_columns else None
    changes = ChangeRows(
        operations=pa.array([row.change.operation for row in rows], pa.string()),
        committed_utc=pa.array([row.committed_utc for row in rows], pa.timestamp("us", tz="UTC")),
        rows=logged(first.columns, [row.change.values for row in rows]),
        before=_before(rows, settings),
        headers=headers,
    )
    key = f"{table_folder(settings, first.table)}{change_path(settings, written_utc)}"
    return DmsFile(key, change_bytes(changes, settings))


def added_columns(table: SourceTable, settings: DmsSettings) -> list[str]:
    """Names of the columns that mapping rules add behind the source's, in order."""
    return _added(table.columns, table.key, settings)


def _added(columns: Sequence[SourceColumn], key: Sequence[str], settings: DmsSettings) -> list[str]:
    before = _imaged(columns, key, settings.before_images)
    return [*settings.header_columns, *(f"{BEFORE_PREFIX}{column.name}" for column in before)]


def _full_load_file(
    table: SourceTable, pieces: Sequence[pa.Table], number: int, settings: DmsSettings, written_utc: datetime
) -> DmsFile:
    key = f"{table_folder(settings, table.name)}{full_load_path(settings, number)}"
    return DmsFile(
        key, full_load_bytes(pa.concat_tables(pieces), settings, written_utc, added_columns(table, settings))
    )


def _before(rows: Sequence[StampedRow], settings: DmsSettings) -> pa.Table | None:
    """Values before each update; null for other rows. None if no rule asks for them."""
    first = rows[0].change
    columns = _imaged(first.columns, first.key, settings.before_images)
    if not columns:
        return None
    nothing = dict.fromkeys((column.name for column in columns), None)
    return logged(columns, [row.change.before or nothing for row in rows])


def _imaged(columns: Sequence[SourceColumn], key: Sequence[str], which: BeforeImages) -> list[SourceColumn]:
    """Columns of whose values before an update a rule makes columns."""
    if which is BeforeImages.PRIMARY_KEY:
        return [column for column in columns if column.name in key]
    if which is BeforeImages.NON_LOB:
        return [column for column in columns if column.kind not in _LOBS]
    return list(columns) if which is BeforeImages.ALL else []
