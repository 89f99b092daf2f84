"""Builds the raw files that DMS would write for the rows of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.model.schema import OP_COLUMN
from cdclake_cli.dms.files import (
    BEFORE_PREFIX,
    ChangeRows,
    TableChangeRows,
    change_bytes,
    full_load_bytes,
    transaction_bytes,
)
from cdclake_cli.dms.names import DmsFile, change_path, full_load_path, table_folder, transactions_key
from cdclake_cli.dms.settings import CHANGE_SEQUENCE, KILOBYTE, BeforeImages, ParallelLoad
from cdclake_cli.sources.tables import logged_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from cdclake.model.table.name import TableName
    from cdclake.ports import Clock
    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.sources.tables import SourceColumn, SourceTable
    from cdclake_devkit.replicate.batch import CommittedRow
    from cdclake_devkit.replicate.transactions import ChangeRow


def check_settings(settings: DmsSettings) -> None:
    """Check that the stand-in for DMS supports the settings.

    Raises:
        ConfigurationError: A setting is not supported; the message names it.
    """
    unsupported = {
        "ParallelLoad": settings.parallel_load is not ParallelLoad.NONE,
        "HeaderColumns": set(settings.header_columns) - {CHANGE_SEQUENCE},
    }
    for name, value in unsupported.items():
        if value:
            message = f"The stand-in for DMS does not support this value of {name}"
            raise ConfigurationError(message, remedy=f"Leave {name} out (HeaderColumns: only {CHANGE_SEQUENCE})")


def check_columns(table: TableName, columns: Sequence[SourceColumn], key: Sequence[str], settings: DmsSettings) -> None:
    """Check that no column of a table has the name of an added column, ignoring case.

    Raises:
        ConfigurationError: A name is used twice; the error names the column.
    """
    added = [OP_COLUMN, settings.timestamp_column_name, *_added(columns, key, settings)]
    taken = {name.lower() for name in added if name}
    for column in columns:
        if column.name.lower() in taken:
            message = "The source has a column with the name of a column that the DMS settings add"
            remedy = "Choose another TimestampColumnName, leave the table out, or rename the column at the source"
            raise ConfigurationError(message, remedy=remedy, table=table, column=column.name)


def untold_keys(row: ChangeRow, settings: DmsSettings) -> str:
    """Why an update does not tell the key that its row had before; empty if it does, or is another operation.

    As in DMS, the filter `pk-only` adds the columns of the primary key alone, and a before image has what is logged.
    """
    if row.operation != "U":
        return ""
    images = settings.before_images
    if images is BeforeImages.NONE:
        return "BeforeImages is none"
    if not row.key and images is BeforeImages.PRIMARY_KEY:
        return "the table has no primary key, and BeforeImages is pk-only: set it to all"
    added = {column.name for column in _before_columns(row.columns, row.key, images)}
    without = [name for name in row.key or [column.name for column in row.columns] if name not in added]
    if without:
        return f"BeforeImages is {images.value}, which leaves out {', '.join(without)}: set it to all"
    unlogged = [name for name in row.key if (row.before or {}).get(name) is None]
    return f"the log has no {', '.join(unlogged)} of the row before it (replica identity)" if unlogged else ""


def full_load_files(
    table: SourceTable, batches: Iterable[pa.Table], settings: DmsSettings, clock: Clock
) -> Iterator[DmsFile]:
    """The `LOAD` files of a table; none if it has no rows.

    Args:
        batches: The table's rows.
        clock: Returns the time of each file, for the timestamp column.
    """
    pending: list[pa.Table] = []
    number = 0
    for batch in batches:
        pending.append(batch)
        if sum(rows.nbytes for rows in pending) >= settings.max_file_size * KILOBYTE:
            number += 1
            yield _full_load_file(table, pending, number, settings, clock())
            pending = []
    if any(rows.num_rows for rows in pending):
        yield _full_load_file(table, pending, number + 1, settings, clock())


def change_file(rows: Sequence[CommittedRow], settings: DmsSettings, written_utc: datetime) -> DmsFile:
    """A change file.

    Args:
        rows: Rows of one table with the same columns, at least one.
        written_utc: Time in the file's name.

    Raises:
        ConfigurationError: See `check_columns`.
    """
    key = f"{table_folder(settings, rows[0].row.table)}{change_path(settings, written_utc)}"
    return DmsFile(key, change_bytes(_change_rows(rows, settings), settings))


def transaction_file(rows: Sequence[CommittedRow], settings: DmsSettings, written_utc: datetime) -> DmsFile:
    """A transaction file.

    Args:
        rows: Rows of all tables, in commit order.
        written_utc: Time in the file's name.

    Raises:
        ConfigurationError: See `check_columns`.
    """
    sent = [committed for committed in rows if committed.row.operation in settings.operations]
    shapes: dict[object, list[CommittedRow]] = {}
    for committed in sent:
        shapes.setdefault(_shape(committed), []).append(committed)
    tables = [TableChangeRows(group[0].row.table, _change_rows(group, settings)) for group in shapes.values()]
    index = {shape: number for number, shape in enumerate(shapes)}
    order = np.array([index[_shape(committed)] for committed in sent], np.int64)
    return DmsFile(transactions_key(settings, written_utc), transaction_bytes(tables, order, settings))


def _shape(committed: CommittedRow) -> object:
    """What determines the columns of a row."""
    return committed.row.table, committed.row.columns, committed.row.key


def _change_rows(rows: Sequence[CommittedRow], settings: DmsSettings) -> ChangeRows:
    """Rows of one table with the same columns, at least one, as columns.

    Raises:
        ConfigurationError: See `check_columns`.
    """
    first = rows[0].row
    check_columns(first.table, first.columns, first.key, settings)
    sequences = [committed.sequence for committed in rows]
    return ChangeRows(
        operations=pa.array([committed.row.operation for committed in rows], pa.string()),
        committed_utc=pa.array([committed.committed_utc for committed in rows], pa.timestamp("us", tz="UTC")),
        rows=logged_rows(first.columns, [committed.row.values for committed in rows]),
        before=_before(rows, settings),
        headers=pa.table({CHANGE_SEQUENCE: sequences}) if settings.header_columns else None,
        unsent=_unsent(rows),
    )


def added_columns(table: SourceTable, settings: DmsSettings) -> list[str]:
    """Names of the columns that mapping rules append to the source's, in order."""
    return _added(table.columns, table.key, settings)


def _added(columns: Sequence[SourceColumn], key: Sequence[str], settings: DmsSettings) -> list[str]:
    before = _before_columns(columns, key, settings.before_images)
    return [*settings.header_columns, *(f"{BEFORE_PREFIX}{column.name}" for column in before)]


def _full_load_file(
    table: SourceTable, batches: Sequence[pa.Table], number: int, settings: DmsSettings, written_utc: datetime
) -> DmsFile:
    key = f"{table_folder(settings, table.name)}{full_load_path(settings, number)}"
    rows = pa.concat_tables(batches)
    return DmsFile(key, full_load_bytes(rows, settings, written_utc, added_columns(table, settings)))


def _before(rows: Sequence[CommittedRow], settings: DmsSettings) -> pa.Table | None:
    """Values before each update; null for other rows. None if no rule adds before images."""
    first = rows[0].row
    columns = _before_columns(first.columns, first.key, settings.before_images)
    if not columns:
        return None
    nulls = dict.fromkeys((column.name for column in columns), None)
    return logged_rows(columns, [{**nulls, **(committed.row.before or {})} for committed in rows])


def _unsent(rows: Sequence[CommittedRow]) -> dict[str, pa.Array]:
    """By column, which rows lack its value; only columns that any row lacks."""
    names = frozenset[str]().union(*(committed.row.unsent for committed in rows))
    return {name: pa.array([name in committed.row.unsent for committed in rows]) for name in sorted(names)}


def _before_columns(columns: Sequence[SourceColumn], key: Sequence[str], images: BeforeImages) -> list[SourceColumn]:
    """The columns for which a rule adds before images."""
    if images is BeforeImages.PRIMARY_KEY:
        return [column for column in columns if column.name in key]
    if images is BeforeImages.NON_LOB:
        return [column for column in columns if not column.is_lob]
    return list(columns) if images is BeforeImages.ALL else []
