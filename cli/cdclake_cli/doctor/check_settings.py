"""Checks settings that name columns against the columns of a table's raw files, before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.adapters.filesystem import FetchedFile
from cdclake.control.plan.raw_scan import scan_raw
from cdclake.errors import ConfigurationError, InputError, similar_names
from cdclake.lake.raw.reader import inspect_raw_file, read_errors_reported
from cdclake.model.schema import OP_COLUMN, Schema
from cdclake.model.snapshot import RELOAD
from cdclake.model.table.attributes import Attribute
from cdclake.model.type_widening import clashes
from cdclake_cli.doctor.sampling import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader

_UNCHECKED = "or add --unchecked if the files are still to come"
_FETCHED_BYTES = 1 << 17
"""A file up to this size is fetched whole, in one request: of 1,000 tables 128 MiB at most. To open one takes two or
three, which read 64 KiB of Parquet, or 256 KiB of CSV."""


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


def check_columns(
    raw: RawReader,
    state: TableState,
    changed: Collection[str],
    now: datetime,
    lake: Snapshot,
    *,
    reloads: bool = False,
) -> None:
    """Refuse settings that name columns which the newest raw file lacks, or leave out the type of one in the lake.

    The columns come from the newest change file, else from the newest LOAD file, else from `Schema`, else from the lake
    table.

    Args:
        raw: The raw bucket.
        state: The table's item with the new settings.
        changed: Attributes to check.
        lake: The lake table.
        reloads: Whether it is loaded again, and may get other types.

    Raises:
        ConfigurationError: There is no such column, or nothing to check against; or a column would be read as a type
            that the lake table cannot have.
    """
    named = {attribute: names for attribute, names in state.settings.named_columns.items() if attribute in changed}
    keeps_types = Attribute.SCHEMA in changed and lake.exists and not reloads
    if not (named or keeps_types):
        return
    newest = _newest_file(raw, state, now)
    if named:
        _check_names(named, _known_columns(raw, newest, state, lake), state)
    if newest and keeps_types:
        _check_undeclared(raw, newest, state, lake)


def _newest_file(raw: RawReader, state: TableState, now: datetime) -> RawFile | None:
    files = scan_raw(raw.store, state, now).files
    return next(reversed([*files.full_load, *files.changes]), None)


def _check_names(named: Mapping[str, Sequence[str]], known: KnownColumns | None, state: TableState) -> None:
    if known is None:
        message = f"There are no raw files yet to check {', '.join(named)} against"
        raise ConfigurationError(message, remedy=f"Set Schema too, {_UNCHECKED}", table=state.name)
    lower = {name.lower() for name in known.names}
    for attribute, names in named.items():
        for name in names:
            if name.lower() not in lower:
                raise _no_such_column(state, attribute, name, known)


def _known_columns(raw: RawReader, newest: RawFile | None, state: TableState, lake: Snapshot) -> KnownColumns | None:
    settings = state.settings
    if newest is None and settings.schema:
        return KnownColumns(tuple(settings.schema.names), "Schema")
    if newest is None:
        return KnownColumns(tuple(lake.schema.names), "the lake table") if lake.exists else None
    try:
        source = _fetched(raw, newest) or raw.open_fs()
        columns = tuple(name for name in read_columns(source, newest, settings).columns if name != OP_COLUMN)
    except (InputError, ConfigurationError) as error:
        raise _unreadable(error, state, newest) from error
    by_header = newest.format.is_text and not settings.schema
    return KnownColumns(columns, newest.relative, by_header)


def _check_undeclared(raw: RawReader, newest: RawFile, state: TableState, lake: Snapshot) -> None:
    """Refuse a Schema without a column that the newest file has as another type than the lake table: text, in CSV."""
    try:
        read = inspect_raw_file(raw.open_fs(), newest, state.settings, _fetched(raw, newest)).schema
    except (InputError, ConfigurationError) as error:
        raise _unreadable(error, state, newest) from error
    for column in read:
        was = clashes(lake.schema, Schema((column,))).get(column.name)
        if was:
            message = (
                f"{Attribute.SCHEMA} does not declare {column.name}, which is {column.type} in the newest raw file and"
                f" {was} in the lake table"
            )
            remedy = f"Declare it as {was}, or reload the table: add --set '{RELOAD}'"
            raise ConfigurationError(message, remedy=remedy, table=state.name, file=newest.relative)


def _fetched(raw: RawReader, file: RawFile) -> FetchedFile | None:
    """A file in memory; None if it is large."""
    if file.size_bytes > _FETCHED_BYTES:
        return None
    with read_errors_reported(file):
        return FetchedFile.of(raw.open_fs(), file.key)


def _unreadable(error: InputError | ConfigurationError, state: TableState, file: RawFile) -> ConfigurationError:
    message = f"The settings cannot be checked, because the newest raw file cannot be read: {error.message}"
    remedy = f"{error.remedy}, or add --unchecked".lstrip(", ")
    return ConfigurationError(message, remedy=remedy, table=state.name, file=file.relative)


def _no_such_column(state: TableState, attribute: str, name: str, known: KnownColumns) -> ConfigurationError:
    message = f"{attribute} names {name!r}, which is not a column of {known.where}"
    if known.by_header:
        remedy = f"Correct it, set Schema too if the CSV files have no header line, {_UNCHECKED}"
    else:
        similar = similar_names(name, known.names)
        remedy = f"{similar}The columns are {', '.join(known.names)}. Correct it, {_UNCHECKED}"
    return ConfigurationError(message, remedy=remedy, table=state.name)
