"""Reads raw files of any format into rows in flight (ingestion)."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.adapters.filesystem import FetchedFile
from cdclake.errors import ConfigurationError, InputError, SchemaMismatchError, UnreadableFileError, without_values
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.memory_errors import does_not_fit, memory_errors_reported, too_large
from cdclake.lake.raw.added_columns import SEQUENCE_COLUMN
from cdclake.lake.raw.formats import format_of
from cdclake.lake.raw.normalize import normalize, order_type
from cdclake.lake.raw.ordering import order_kind
from cdclake.lake.raw.policy.treat import treated, treated_columns
from cdclake.lake.raw.rows import REWRITE_OR_IGNORE
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSEEN, UNSENT
from cdclake.lake.storage.shape import with_constant
from cdclake.lake.storage.types import from_arrow, has_fraction, is_convertible, schema_of
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.raw.files import RawFile, RawKind
from cdclake.model.schema import ADDED_PREFIXES, OP_COLUMN, Column, Schema
from cdclake.model.table.column_policy import is_excluded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.raw.rows import RawRows, ReadBatch, Slice
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import ObjectStore

RESERVED_COLUMNS = frozenset({OP_COLUMN.lower(), LEADING_KEY, KEY, UNSEEN, UNSENT})
RESERVED_PREFIX = "_cdc_"
"""Names, in lower case, that no source column may have, and the prefix of others."""
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Inspection:
    """The columns and slices of a raw file.

    Attributes:
        schema: The source's columns in lake types, or `UNTYPED`, without operation and added columns.
        parts: Slices for tasks to read: one per Parquet row group, one for a CSV file.
        ordering: What orders the rows of a change file: `file name`, `AR_H_CHANGE_SEQ` or `column <name>`. If the lake
            does not store that column, the kind of its values follows. Empty for a full load.
        may_have_no_header: Whether the columns' names may be values of a row, see `formats.Format.may_be_row`.
        with_rules: Columns of the file, in lower case, that `ColumnPolicy` has rules for.
    """

    schema: Schema
    parts: tuple[Slice, ...]
    ordering: str = ""
    may_have_no_header: bool = False
    with_rules: frozenset[str] = frozenset()


def joined(parts: Sequence[Slice]) -> Slice:
    """Slices that end before each other, as one without a key range."""
    if len(parts) == 1:
        return parts[0]
    row_groups = tuple(chain.from_iterable(part.row_groups or () for part in parts))
    size_bytes = sum(part.size_bytes for part in parts)
    return replace(parts[0], size_bytes=size_bytes, row_groups=row_groups, key_range=(None, None))


def is_reserved(name: str) -> bool:
    """Whether cdclake has a column of that name."""
    return name.lower() in RESERVED_COLUMNS or name.lower().startswith(RESERVED_PREFIX)


def fetch_raw_file(raw: ObjectStore, fs: FileSystem, file: RawFile) -> FetchedFile:
    """Fetch a whole raw file with one request; a file system would ask for the size first.

    Args:
        fs: The same bucket.

    Raises:
        InputError: The file is missing.
    """
    with read_errors_reported(file):
        content = raw.get(file.key)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.key)
        return FetchedFile(fs, content)


def inspect_raw_file(
    fs: FileSystem,
    file: RawFile,
    settings: TableSettings,
    fetched: FetchedFile | None = None,
    limits: EngineLimits = DEFAULT_LIMITS,
) -> Inspection:
    """Read a raw file's columns and size, but not its rows.

    Args:
        fetched: The file, if it is in memory: it stays there with its slices.

    Raises:
        UnreadableFileError: The file is not of the format in its name.
        SchemaMismatchError: A column has an unsupported type or no known name.
        ConfigurationError: It is a transaction file, and the Schema attribute is not set; or that declares a type that
            values of a column cannot have.
        InputError: The file is missing.
    """
    with read_errors_reported(file):
        source = fetched or fs
        raw_schema, parts = format_of(file).inspect(source, file, settings, limits)
        slices = tuple(replace(part, fetched=fetched) for part in parts)
        if any(map(settings.column_policy.find, settings.primary_key)):  # hashes have another order
            slices = tuple(replace(part, key_range=(None, None)) for part in slices)
        ordering = _ordering(raw_schema, settings) if file.kind is RawKind.CHANGE else ""
        schema = _source_columns(raw_schema, file, settings)
        with_rules = frozenset(name.lower() for name in raw_schema.names if settings.column_policy.find(name))
        unsure = format_of(file).may_be_row(raw_schema.names, settings)
        return Inspection(schema, slices, ordering, unsure, with_rules)


def _ordering(raw: pa.Schema, settings: TableSettings) -> str:
    types = {field.name.lower(): field.type for field in raw}
    name = settings.order_column
    if SEQUENCE_COLUMN.lower() in types:
        return SEQUENCE_COLUMN
    if not name:
        return "file name"
    if not name.startswith(ADDED_PREFIXES) or name.lower() not in types:
        return f"column {name}"
    return f"column {name} ({order_kind(order_type(name, types[name.lower()], settings))})"


def read(
    fs: FileSystem, part: Slice, shape: TableShape, settings: TableSettings, table: TableName | None = None
) -> Iterator[ReadBatch]:
    """Read and convert the rows of a slice, in file order.

    Args:
        shape: The lake table. A column missing from the file is null; an additional one is ignored.
        table: The table whose rows to read from a transaction file, which contains rows of many tables.

    Raises:
        UnreadableFileError: The file is damaged.
        SchemaMismatchError: The file lacks a key column or the ordering column.
        InputError: The file is missing.
    """
    for raw in read_raw(fs, part, settings, table, shape.limits):
        yield from convert([(part, raw)], shape, settings)


def convert(rows: Sequence[tuple[Slice, RawRows]], shape: TableShape, settings: TableSettings) -> Iterator[ReadBatch]:
    """Convert rows of slices of which each can be converted with the next, see `is_convertible_with`.

    All are converted at once, or those of each slice by themselves if a row is bad, or a file: that tells which.

    Raises:
        SchemaMismatchError: A file lacks a key column or the ordering column.
        TooLargeError: The rows of a slice need more memory than there is.
    """
    together = None
    if len(rows) > 1:
        with suppress(InputError):  # it names the first file
            together = _converted(rows, shape, settings)
    if together and not together.bad_rows:
        yield together
        return
    for one in rows:
        yield _converted([one], shape, settings)


def _converted(rows: Sequence[tuple[Slice, RawRows]], shape: TableShape, settings: TableSettings) -> ReadBatch:
    part, files, raws = rows[0][0], [part.file for part, _ in rows], [raw for _, raw in rows]
    numbered = not part.unnumbered
    with memory_errors_reported(part.file.relative, part.row_groups):
        batch = normalize(raws, files, shape, settings, part.later_columns, numbered=numbered, encoded=part.encoded)
    return _as_full_load(batch) if part.only_rows is not None and part.file.kind is RawKind.FULL_LOAD else batch


def is_convertible_with(one: tuple[Slice, RawRows], other: tuple[Slice, RawRows]) -> bool:
    """Whether rows of two slices can be converted together: all that the conversion depends on is equal."""
    (part, raw), (other_part, other_raw) = one, other
    return (
        _conversion(part) == _conversion(other_part)
        and raw.columns.schema.equals(other_raw.columns.schema)
        and not any(each.file.direct or each.only_rows is not None for each in (part, other_part))
        and not (raw.bad_rows or other_raw.bad_rows)
    )


def _conversion(part: Slice) -> tuple[object, ...]:
    return part.file.kind, part.file.format, part.later_columns, part.unnumbered, part.encoded, part.erasures


def read_raw(
    fs: FileSystem,
    part: Slice,
    settings: TableSettings,
    table: TableName | None = None,
    limits: EngineLimits = DEFAULT_LIMITS,
) -> Iterator[RawRows]:
    """Read the rows of a slice, in file order, with all columns of the file that the lake may have; see `treated`.

    Args:
        table: The table whose rows to read from a transaction file, which contains rows of many tables.

    Raises:
        UnreadableFileError: The file is damaged.
        InputError: The file is missing.
        ConfigurationError: A column is to be hashed, and the secret is missing.
    """
    file = part.file
    batches = format_of(file).batches(fs, part, settings, table, limits)
    while (raw := _next(batches, part)) is not None:
        yield treated(raw if part.only_rows is None else raw.select(part.only_rows), file, settings)


def _as_full_load(batch: ReadBatch) -> ReadBatch:
    """Give rows of an already applied full load its position: older than every change."""
    return replace(batch, rows=with_constant(batch.rows, POSITION, FULL_LOAD_POSITION))


def _next(batches: Iterator[RawRows], part: Slice) -> RawRows | None:
    with read_errors_reported(part.file, part.row_groups):
        return next(batches, None)


@contextmanager
def read_errors_reported(file: RawFile, row_groups: Sequence[int] | None = None) -> Iterator[None]:
    """Raise cdclake's errors in place of Arrow's if a raw file is damaged, missing or too large.

    Args:
        row_groups: Numbers of the row groups that are read; None for the whole file.
    """
    try:
        yield
    except FileNotFoundError as error:
        remedy = "Run the DMS task's reload for this table, or put the file back"
        raise InputError("A raw file vanished before it was read", remedy=remedy, file=file.relative) from error
    except UnicodeDecodeError as error:  # values are checked row by row, so this is a name
        message = "The name of a column of a raw file is not UTF-8 text"
        remedy = f"Nothing of it was applied. {_remedy_of_name(file)}"
        raise SchemaMismatchError(message, remedy=remedy, file=file.relative) from error
    except (OSError, pa.ArrowException, EOFError, MemoryError) as error:
        if does_not_fit(error):
            raise too_large(error, file.relative, row_groups) from error
        # Arrow reports broken compressed data and truncated Parquet pages as plain OSError without an errno.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        message = f"A raw file cannot be read as {file.format.value}: {without_values(error)}"
        raise UnreadableFileError(message, remedy=REWRITE_OR_IGNORE, file=file.relative) from error


def _source_columns(raw: pa.Schema, file: RawFile, settings: TableSettings) -> Schema:
    """Columns of the source, without the operation and added columns; the Schema attribute overrides types."""
    _check_names(raw, file, settings)
    policy, declared = settings.column_policy, settings.lake_schema
    for column in raw:
        if not is_excluded(policy.rule_of(column.name)):
            _check_conversion(column, (settings.schema or Schema()).find(column.name), file, settings)
    return Schema(
        tuple(
            declared.find(column.name) or column
            for column in schema_of(treated_columns(raw, policy), file.relative)
            if column.name != OP_COLUMN and not column.name.startswith(ADDED_PREFIXES)
        )
    )


def _check_conversion(field: pa.Field, declared: Column | None, file: RawFile, settings: TableSettings) -> None:
    """Check that the type in the Schema attribute can hold a column of a raw file.

    Raises:
        ConfigurationError: The values have no meaning as that type, or a key or partition value has several texts.
    """
    kind = from_arrow(field.type)
    if declared is None or kind is None:
        return
    message = remedy = ""
    named = {name.lower() for name in (*settings.primary_key, *settings.partition_key)}
    if not is_convertible(field.type, declared.type):
        message = f"Schema declares {declared.name} as {declared.type}, and in a raw file it is {field.type}"
        remedy = f"declare it as {kind}, or convert it at the source or with a DMS mapping rule"
    elif declared.type == "string" and field.name.lower() in named and has_fraction(kind):
        message = f"Schema declares {declared.name} as string, and in a raw file it is {kind}: one value has many texts"
        remedy = f"declare it as {kind}, and reload the table if it was loaded with the text"
    if message:
        remedy = f"Nothing of it was applied. In Schema, {remedy}"
        raise ConfigurationError(message, remedy=remedy, file=file.relative, column=field.name)


def _remedy_of_name(file: RawFile) -> str:
    """What to do about a column that the lake cannot have: in CSV its name may be no name at all."""
    return format_of(file).remedy_of_name("Rename or remove the column with a DMS mapping rule")


def _check_names(raw: pa.Schema, file: RawFile, settings: TableSettings) -> None:
    """Check the column names of a raw file. If they may be values of a row, the error has the column's number.

    Raises:
        SchemaMismatchError: The lake cannot have a column of such a name.
    """
    seen: set[str] = set()
    unsure = format_of(file).may_be_row(raw.names, settings)
    for number, name in enumerate(raw.names):
        column = str(number + 1) if unsure else name
        if is_reserved(name) and name != OP_COLUMN:
            fault = f"Column {column} of a raw file has a name that is reserved by cdclake"
        elif name.lower() in seen:
            fault = f"Column {column} of a raw file appears twice; names ignore case"
        elif name == OP_COLUMN and number and file.kind is RawKind.CHANGE:
            fault = (
                f"Column {column} of a change file is not the first, as DMS's own is, so it is a column of the source"
            )
        elif not name.strip() or _CONTROL_CHARACTER.search(name):
            fault = "A column of a raw file has an empty name, or one with control characters"
        else:
            seen.add(name.lower())
            continue
        raise SchemaMismatchError(fault, remedy=_remedy_of_name(file), file=file.relative, column=column)
