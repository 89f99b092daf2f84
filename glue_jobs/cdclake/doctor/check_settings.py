"""Checks settings that name columns against the columns of a table's raw files, before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.raw_scan import scan_raw
from cdclake.doctor.sampling import read_columns
from cdclake.errors import ConfigurationError, InputError, similar_names
from cdclake.model.rawfiles import RawFormat
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.ports import ObjectReader

_UNCHECKED = "or add --unchecked if the files are still to come"


class RawReader(NamedTuple):
    """The raw bucket.

    Attributes:
        store: Lists it.
        open_fs: Opens it for reading; called only if there is a raw file.
    """

    store: ObjectReader
    open_fs: Callable[[], FileSystem]


class KnownColumns(NamedTuple):
    """The columns that settings may name.

    Attributes:
        names: The columns.
        where: Where they are from, for the error.
        by_header: Whether they are the first line of a CSV file, which may be data.
    """

    names: tuple[str, ...]
    where: str
    by_header: bool = False


def check_columns_exist(
    raw: RawReader, state: TableState, changed: Collection[str], now: datetime, lake: Snapshot
) -> None:
    """Refuse settings that name columns which the newest raw file lacks.

    The columns come from the newest change file, else from the newest LOAD file, else from `Schema`, else from the lake
    table.

    Args:
        raw: The raw bucket.
        state: The table's item with the new settings.
        changed: Attributes to check.
        lake: The lake table.

    Raises:
        ConfigurationError: There is no such column, or nothing to check against.
    """
    named = {attribute: names for attribute, names in state.settings.named_columns.items() if attribute in changed}
    if not named:
        return
    known = _known_columns(raw, state, now, lake)
    if known is None:
        message = f"There are no raw files yet to check {', '.join(named)} against"
        raise ConfigurationError(message, remedy=f"Set Schema too, {_UNCHECKED}", table=state.name)
    lower = {name.lower() for name in known.names}
    for attribute, names in named.items():
        for name in names:
            if name.lower() not in lower:
                raise _no_such_column(state, attribute, name, known)


def _known_columns(raw: RawReader, state: TableState, now: datetime, lake: Snapshot) -> KnownColumns | None:
    scan, settings = scan_raw(raw.store, state, now), state.settings
    newest = [*scan.files.full_load, *scan.files.changes][-1:]
    if not newest and settings.schema:
        return KnownColumns(tuple(settings.schema.names), "Schema")
    if not newest:
        return KnownColumns(tuple(lake.schema.names), "the lake table") if lake.exists else None
    (file,) = newest
    try:
        columns = tuple(name for name in read_columns(raw.open_fs(), file, settings).columns if name != OP_COLUMN)
    except (InputError, ConfigurationError) as error:
        message = f"The settings cannot be checked, because the newest raw file cannot be read: {error.message}"
        remedy = f"{error.remedy}, or add --unchecked".lstrip(", ")
        raise ConfigurationError(message, remedy=remedy, table=state.name, file=file.relative) from error
    by_header = file.format is not RawFormat.PARQUET and not settings.schema
    return KnownColumns(columns, file.relative, by_header)


def _no_such_column(state: TableState, attribute: str, name: str, known: KnownColumns) -> ConfigurationError:
    message = f"{attribute} names {name!r}, which is not a column of {known.where}"
    if known.by_header:
        remedy = f"Correct it, set Schema too if the CSV files have no header line, {_UNCHECKED}"
    else:
        similar = similar_names(name, known.names)
        remedy = f"{similar}The columns are {', '.join(known.names)}. Correct it, {_UNCHECKED}"
    return ConfigurationError(message, remedy=remedy, table=state.name)
