"""The shape of a table's rows: columns and keys, in data files and in flight between tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.storage.keys import (
    KEY,
    LEADING_KEY,
    UNSEEN,
    UNSENT,
    key_of,
    leading_key_of,
    leading_key_range_of,
    row_keys,
)
from cdclake.lake.storage.partitions import partition_column
from cdclake.lake.storage.types import arrow_schema, to_arrow
from cdclake.model.iceberg.field_ids import NO_FIELD_IDS, FieldIds
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN, Column, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import KeyValue

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Arrow type of text that stays dictionary-encoded."""


@dataclass(frozen=True)
class TableShape:
    """The shape of a table's rows.

    Attributes:
        schema: The source's columns, including partition columns.
        primary_key: Key columns; may be empty.
        partition_key: Partition columns; they are in the folder names, not in the files.
        partial: Whether changes may omit columns; rows in flight then show which.
        complete: Whether `schema` contains all columns of the files; if not, they also have operation and position.
        soft_delete: Whether deleted rows stay in the files, with the operation `D`.
        order_type: See `Snapshot.order_type`.
        leading: Number of key columns in the leading key; None for all.
        added: See `Snapshot.added`; empty if updates do not keep the values of columns that their file lacks.
        field_ids: Of the columns, to be written into data files; empty to write none.
        partitions_inside: Whether data files to be written also contain the partition columns, as readers of Iceberg
            tables need them.
        limits: Up to which sizes rows are read, held and written at once; tasks get them with the shape.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    partition_key: tuple[str, ...]
    partial: bool = False
    complete: bool = False
    soft_delete: bool = False
    order_type: str = ""
    leading: int | None = None
    added: Mapping[str, str] = field(default_factory=dict, hash=False)
    field_ids: FieldIds = NO_FIELD_IDS
    partitions_inside: bool = False
    limits: EngineLimits = DEFAULT_LIMITS

    @cached_property
    def stored(self) -> pa.Schema:
        """Arrow schema of a data file."""
        folders = {name.lower() for name in self.partition_key}
        in_files = Schema(tuple(c for c in self.schema if c.name.lower() not in folders))
        return pa.schema([*arrow_schema(in_files), *(pa.field(name, pa.string()) for name in self._own_columns())])

    def _own_columns(self) -> tuple[str, ...]:
        return () if self.complete else (OP_COLUMN, POSITION)

    def with_field_ids(self, before: FieldIds, schema: Schema) -> TableShape:
        """The same shape with field ids.

        Args:
            before: The ids before the change that makes this shape.
            schema: The columns before it.
        """
        own = tuple(Column(name, "string") for name in self._own_columns())
        return replace(self, field_ids=before.after((*schema, *own), (*self.schema, *own)))

    @property
    def in_flight(self) -> pa.Schema:
        """Arrow schema of rows in flight: all columns, `Op`, position, what was not sent, leading key, key."""
        texts = [*self._own_columns(), *([UNSENT] if self.partial else [])]
        full = pa.schema([*arrow_schema(self.schema), *(pa.field(name, pa.string()) for name in texts)])
        if self.primary_key:
            leading_key, key = row_keys([pa.array([], to_arrow(kind)) for kind in self.key_types], self.leading)
            own = ((UNSEEN, pa.bool_()), (LEADING_KEY, leading_key.type), (KEY, key.type))
            full = pa.schema([*full, *(pa.field(*one) for one in own)])
        return full

    @property
    def key_types(self) -> tuple[str, ...]:
        """Types of the key columns."""
        return tuple(column.type for name in self.primary_key if (column := self.schema.find(name)))

    def key_columns_stored(self) -> list[str]:
        """Key columns that are in the files."""
        folders = {name.lower() for name in self.partition_key}
        return [c.name for name in self.primary_key if (c := self.schema.find(name)) and name.lower() not in folders]

    def source_columns(self, rows: pa.Table, partition: Partition) -> dict[str, pa.Array]:
        """All source columns of a data file's rows in the table's types, including partition columns.

        Args:
            rows: The file's rows with all columns.
            partition: The file's partition.
        """
        folders = dict(zip((name.lower() for name in self.partition_key), partition, strict=True))
        stored = conform(rows, self.stored)
        return {
            column.name: partition_column(folders[column.name.lower()], column.type, rows.num_rows)
            if column.name.lower() in folders
            else stored[column.name]
            for column in self.schema
        }

    def keys_of(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> tuple[pa.Array, pa.Array]:
        """Leading key and key of a data file's rows.

        Args:
            rows: The file's rows with at least the stored key columns.
            partition: The file's partition.
        """
        return row_keys([self.key_column(name, rows, partition) for name in self.primary_key], self.leading)

    def key_of(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> pa.Array:
        """Key alone, see `keys_of`."""
        return key_of([self.key_column(name, rows, partition) for name in self.primary_key])

    def leading_key_of(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> pa.Array:
        """Leading key alone, see `keys_of`."""
        return leading_key_of([self.key_column(name, rows, partition) for name in self.leading_columns])

    def leading_key_range(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> tuple[KeyValue, KeyValue]:
        """Smallest and largest leading key; two None if there are no rows."""
        return leading_key_range_of([self.key_column(name, rows, partition) for name in self.leading_columns])

    @property
    def leading_columns(self) -> tuple[str, ...]:
        """Key columns in the leading key."""
        return self.primary_key[: self.leading]

    def key_column(self, name: str, rows: pa.Table | pa.RecordBatch, partition: Partition) -> pa.Array:
        """A key column of a data file's rows, see `keys_of`."""
        column = self.schema.find(name)
        if column is None:
            message = "A key column is missing from the columns of a lake table"
            raise IntegrityError(message, remedy="Reload the table", column=name)
        folders = dict(zip((name.lower() for name in self.partition_key), partition, strict=True))
        if name.lower() in folders:
            return partition_column(folders[name.lower()], column.type, rows.num_rows)
        stored = rows.column(column.name)
        stored = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
        return stored.cast(to_arrow(column.type))


def conform(rows: pa.Table, schema: pa.Schema, *, keep_encoded: bool = False) -> pa.Table:
    """Convert rows to exactly these columns: a missing column becomes null, a narrower type is widened.

    Args:
        keep_encoded: Leave dictionary-encoded texts encoded.
    """
    names = {name.lower(): i for i, name in enumerate(rows.schema.names)}
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for column in schema:
        i = names.get(column.name.lower())
        if i is None:
            columns[column.name] = pa.nulls(rows.num_rows, column.type)
        elif keep_encoded and column.type == pa.string() and rows.schema.field(i).type == ENCODED_TEXT:
            columns[column.name] = rows.column(i)
        else:
            values = rows.column(i)
            columns[column.name] = values if values.type == column.type else values.cast(column.type)
    return pa.table(columns)


def with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Replace the values of a column."""
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def as_flags(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Booleans, none of them null, for numpy."""
    flags: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return flags


def equals_before(*columns: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each row has the values of the row before it in all of these columns; null equals nothing."""
    equal = np.ones(len(columns[0]), dtype=bool)
    equal[:1] = False
    for column in columns:
        values = column.combine_chunks()
        equal[1:] &= as_flags(pc.fill_null(pc.equal(values[:-1], values[1:]), False))
    return equal


def with_constant(rows: pa.Table, name: str, value: str) -> pa.Table:
    """Set a text column to one value."""
    i = rows.schema.get_field_index(name)
    return rows.set_column(i, rows.schema.field(i), pa.repeat(value, rows.num_rows))


def is_deleted(rows: pa.Table) -> pa.Array:
    """Whether each row is soft-deleted; never null."""
    operations = rows[OP_COLUMN].cast(pa.string()).combine_chunks()
    return pc.fill_null(pc.equal(operations, DELETE), False)
