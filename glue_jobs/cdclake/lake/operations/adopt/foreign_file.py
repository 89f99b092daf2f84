"""What the footer and the folders of a Parquet file tell, of a file that another program wrote.

A file is taken only if its columns have the very types that cdclake writes: when a change rewrites one of the files,
readers must still find one type of each column in all of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import LakeFilesError
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT
from cdclake.lake.storage.reader import open_parquet
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.layout import LakeLayout
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN, Column, Schema, merge_schemas, parse_partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq
    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.rawfiles import ListedObject

MEND = "Mend it with the program that wrote it, or empty the folder and load the table anew"
_ADDED = frozenset({OP_COLUMN.lower(), POSITION})
"""Columns, in lower case, that cdclake writes besides the source's."""
_IN_FLIGHT = frozenset({LEADING_KEY, KEY, UNSENT})
_READ_AS_MICROSECONDS = ("ms", "us")
_INT96 = "INT96"


@dataclass(frozen=True)
class ForeignFile:
    """A Parquet file in a table's folder.

    Attributes:
        path: Key relative to the table's folder.
        partition: Texts of its partition columns in the order of the partition key; None for null.
        schema: The source's columns in the file.
    """

    path: str
    rows: int
    bytes: int
    partition: Partition
    schema: Schema


def look(fs: FileSystem, table_prefix: str, entry: ListedObject, partition_key: Sequence[str]) -> ForeignFile:
    """Look at a file's folders and footer.

    Args:
        fs: Lake file system.
        table_prefix: The table's folder.
        entry: The file as it was listed.
        partition_key: The table's partition columns.

    Raises:
        LakeFilesError: It cannot be a data file of the table; names it and says why.
    """
    path = entry.key[len(table_prefix) :]
    if LakeLayout.is_data_path(path):
        message = "A file in the lake folder has a name that cdclake gives to its own, and it never uses a name twice"
        remedy = "If cdclake made this table, bring its change log back from the bucket's versions; or rename the file"
        raise LakeFilesError(message, remedy=remedy, file=path)
    partition = _partition(path, partition_key)
    with reading(path), open_parquet(fs, entry.key) as parquet:
        rows, schema = parquet.metadata.num_rows, _source_columns(parquet, path, partition_key)
    return ForeignFile(path, rows, entry.size_bytes, partition, schema)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what Arrow says of a damaged, foreign or vanished file into our error."""
    try:
        yield
    except FileNotFoundError as error:
        remedy = "See to it that no other job writes there, then give the command again"
        raise LakeFilesError("A file vanished from the lake folder", remedy=remedy, file=path) from error
    except (pa.ArrowException, OSError) as error:
        message = f"A file in the lake folder cannot be read as Parquet: {error}"
        remedy = "Move it out of the folder if it is no data, or mend it; then give the command again"
        raise LakeFilesError(message, remedy=remedy, file=path) from error


def common_schema(files: Sequence[ForeignFile]) -> Schema:
    """All columns of some files: those of the first, then what others add.

    Raises:
        LakeFilesError: A column has another type in one file than in another.
    """
    schema, told_by = Schema(), dict[str, str]()
    for file in files:
        for column in file.schema:
            known = schema.find(column.name)
            if known and known.type != column.type:
                message = (
                    f"Column {known.name} is {known.type} in one file of the lake folder and {column.type} in another"
                )
                remedy = f"Readers need one type in all files. {MEND}"
                first = told_by[column.name.lower()]
                raise LakeFilesError(message, remedy=remedy, file=file.path, other_file=first)
            told_by.setdefault(column.name.lower(), file.path)
        schema = merge_schemas(schema, file.schema, file.path)
    return schema


def _partition(path: str, partition_key: Sequence[str]) -> Partition:
    folders = path.split("/")[:-1]
    told = [parse_partition_folder(folder) for folder in folders]
    names, wanted = [one[0] if one else None for one in told], list(partition_key)
    if names == wanted:
        return tuple(one[1] for one in told if one)
    if names and all(names):
        message = f"A file in the lake folder lies in partitions by {','.join(filter(None, names))}"
        remedy = f"PartitionKey is '{','.join(wanted) or 'null'}': set it as the folders are, or mend the folders"
    else:
        lies, should = "/".join(folders) or "no folder", "/".join(f"{name}=..." for name in wanted) or "no folder"
        message = f"A file in the lake folder lies in {lies}, and should lie in {should}"
        remedy = "Move it, or correct PartitionKey; then give the command again"
    raise LakeFilesError(message, remedy=remedy, file=path)


def _source_columns(parquet: pq.ParquetFile, path: str, partition_key: Sequence[str]) -> Schema:
    columns: list[Column] = []
    seen: set[str] = set()
    folders = {name.lower() for name in partition_key}
    for number, field in enumerate(parquet.schema_arrow):
        name = field.name.lower()
        if name in seen or name in _IN_FLIGHT:
            message = f"A file in the lake folder has two columns {field.name}, or one named as cdclake's own"
            raise LakeFilesError(message, remedy=f"Case does not tell columns apart. {MEND}", file=path)
        if name in folders:
            message = f"A file in the lake folder has the partition column {field.name}, which its folder tells"
            raise LakeFilesError(message, remedy=MEND, file=path)
        seen.add(name)
        # A nested column is refused at once, so a column's number is that of its values.
        kind = _lake_type(field.type, parquet.schema.column(number).physical_type)
        if kind is None or (name in _ADDED and kind != "string"):
            message = f"Column {field.name} of a file in the lake folder has the type {field.type}"
            remedy = f"cdclake would write another, and readers need one type in all files. {MEND}"
            raise LakeFilesError(message, remedy=remedy, file=path)
        if name not in _ADDED:
            columns.append(Column(field.name, kind))
    return Schema(tuple(columns))


def _lake_type(kind: pa.DataType, physical: str) -> str | None:
    """Lake type of a column whose Parquet type is the one that cdclake writes, or that readers take for the same.

    Spark's older timestamps (INT96) and those in milliseconds are read as those in microseconds are. A timestamp
    without a zone is not: Spark takes it for a type of its own.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        in_utc = kind.tz is not None and kind.unit in _READ_AS_MICROSECONDS
        return "timestamp" if in_utc or physical == _INT96 else None
    lake = from_arrow(kind)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return lake
    return lake if lake and to_arrow(lake) == kind else None
