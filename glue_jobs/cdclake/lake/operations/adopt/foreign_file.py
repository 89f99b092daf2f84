"""Inspects the footer and the folders of a Parquet file that another program wrote.

A file's columns must have exactly the types that cdclake writes. Otherwise, once a change has rewritten some of the
files, readers would find different types of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import LakeFilesError
from cdclake.lake.raw.reader import is_reserved
from cdclake.lake.storage.reader import open_parquet
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.layout import LakeLayout
from cdclake.model.partition_folder import parse_partition_folder
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN, UNTYPED, Column, Schema
from cdclake.model.type_widening import merge_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import ParquetFile
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.raw.files import ListedObject

FIX_FILE = "Fix the file with the program that wrote it, or empty the folder and reload the table"
_ADDED = frozenset({OP_COLUMN.lower(), POSITION})
"""Columns, in lower case, that cdclake writes in addition to the source's."""
_READ_AS_MICROSECONDS = ("ms", "us")
_INT96 = "INT96"


@dataclass(frozen=True)
class ForeignFile:
    """A Parquet file in a table's folder.

    Attributes:
        path: Key relative to the table's folder.
        partition: Texts of its partition columns, in the order of the partition key; None for null.
        schema: The source's columns in the file.
    """

    path: str
    rows: int
    bytes: int
    partition: Partition
    schema: Schema


def inspect_file(fs: FileSystem, table_prefix: str, entry: ListedObject, partition_key: Sequence[str]) -> ForeignFile:
    """Inspect a file's folders and footer.

    Raises:
        LakeFilesError: The file cannot be a data file of the table. Contains the file and the reason.
    """
    path = entry.key[len(table_prefix) :]
    if LakeLayout.is_data_path(path):
        message = "A file in the lake folder has a name that is reserved for cdclake's own files"
        remedy = "Restore the table's change log from the bucket's versions if cdclake wrote the file; else rename it"
        raise LakeFilesError(message, remedy=remedy, file=path)
    partition = _partition(path, partition_key)
    with open_parquet(fs, entry.key) as parquet:
        rows, schema = parquet.metadata.num_rows, _source_columns(parquet, path, partition_key)
    return ForeignFile(path, rows, entry.size_bytes, partition, schema)


def common_schema(files: Sequence[ForeignFile]) -> Schema:
    """All columns of some files: those of the first file, then those that other files add.

    Raises:
        LakeFilesError: A column has different types in two files.
    """
    schema, first_files = Schema(), dict[str, str]()
    for file in files:
        for column in file.schema:
            known = schema.find(column.name)
            if known and known.type != column.type:
                message = (
                    f"Column {known.name} is {known.type} in one file of the lake folder and {column.type} in another"
                )
                remedy = f"Readers need one type in all files. {FIX_FILE}"
                first = first_files[column.name.lower()]
                raise LakeFilesError(message, remedy=remedy, file=file.path, other_file=first)
            first_files.setdefault(column.name.lower(), file.path)
        schema = merge_schemas(schema, file.schema, file.path)
    return schema


def _partition(path: str, partition_key: Sequence[str]) -> Partition:
    folders = path.split("/")[:-1]
    parsed = [parse_partition_folder(folder) for folder in folders]
    names, expected = [pair[0] if pair else None for pair in parsed], list(partition_key)
    if names == expected:
        return tuple(pair[1] for pair in parsed if pair)
    if names and all(names):
        message = f"A file in the lake folder is partitioned by {','.join(filter(None, names))}"
        remedy = f"PartitionKey is '{','.join(expected) or 'null'}': correct it, or rename the folders"
    else:
        actual, target = "/".join(folders) or "no folder", "/".join(f"{name}=..." for name in expected) or "no folder"
        message = f"A file in the lake folder is in {actual} instead of {target}"
        remedy = "Move it, or correct PartitionKey; then run the command again"
    raise LakeFilesError(message, remedy=remedy, file=path)


def _source_columns(parquet: ParquetFile, path: str, partition_key: Sequence[str]) -> Schema:
    columns: list[Column] = []
    seen: set[str] = set()
    folders = {name.lower() for name in partition_key}
    for number, field in enumerate(parquet.schema_arrow):
        name = field.name.lower()
        if name in seen or (is_reserved(name) and name not in _ADDED):
            message = f"A file in the lake folder has two columns {field.name}, or the name is reserved"
            raise LakeFilesError(
                message, remedy=f"Names that differ only in case are the same column. {FIX_FILE}", file=path
            )
        if name in folders:
            message = f"A file in the lake folder contains the partition column {field.name}, like its folder's name"
            raise LakeFilesError(message, remedy=FIX_FILE, file=path)
        seen.add(name)
        # Nested columns are refused, so Arrow's and Parquet's column numbers are the same.
        kind = _lake_type(field.type, parquet.schema.column(number).physical_type)
        if kind is None or (name in _ADDED and kind != "string"):
            message = f"Column {field.name} of a file in the lake folder has the type {field.type}"
            remedy = f"cdclake writes another type, and readers need one type in all files. {FIX_FILE}"
            raise LakeFilesError(message, remedy=remedy, file=path)
        if name not in _ADDED:
            columns.append(Column(field.name, kind))
    return Schema(tuple(columns))


def _lake_type(kind: pa.DataType, physical: str) -> str | None:
    """Lake type of a column if readers treat its Parquet type like the one that cdclake writes; else None.

    Readers treat Spark's older timestamps (INT96) and timestamps in milliseconds like timestamps in microseconds. They
    do not do so for timestamps without a zone, which are a separate type in Spark.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        in_utc = kind.tz is not None and kind.unit in _READ_AS_MICROSECONDS
        return "timestamp" if in_utc or physical == _INT96 else None
    lake = from_arrow(kind)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return lake
    return lake if lake and lake != UNTYPED and to_arrow(lake) == kind else None
