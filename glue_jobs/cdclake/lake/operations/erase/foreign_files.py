"""Finds rows in the files that a repair moved out of the table's folders, and removes them.

Such a file may be a copy of the table's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.commit.erasure import replace_object
from cdclake.errors import LakeFilesError
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.keys import key_of, matches
from cdclake.lake.storage.reader import damage_reported, parquet_file
from cdclake.lake.storage.shape import TableShape
from cdclake.model.partition_folder import parse_partition_folder

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import ObjectStore


class ForeignFile(NamedTuple):
    """A foreign file that contains rows to erase.

    Attributes:
        key: Key of the object.
        rows: Number of its rows to erase.
        content: The file's content.
        rest: The content without them; empty for none.
    """

    key: str
    rows: int
    content: bytes
    rest: bytes


@dataclass
class ForeignFiles:
    """Foreign files to erase rows from.

    Attributes:
        files: Files with rows to erase.
        unread: Keys of the files that cannot be searched: they are damaged, not Parquet, or do not have each column of
            the keys once.
    """

    files: list[ForeignFile] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def search(log: ChangeLog, lake: Snapshot, keys: RowKeys) -> ForeignFiles:
    """Search the files."""
    found = ForeignFiles()
    for entry in log.store.list(log.layout.foreign_folder):
        content = log.store.get(entry.key) or b""
        try:
            with damage_reported(entry.key):
                file = _search(entry.key, content, lake, keys)
        except LakeFilesError:
            file = None
        if file is None:
            found.unread.append(entry.key)
        elif file.rows:
            found.files.append(file)
    return found


def _search(key: str, content: bytes, lake: Snapshot, keys: RowKeys) -> ForeignFile | None:
    """Search a file; None if it does not have each column of the keys once.

    Raises:
        pa.ArrowException: It is no Parquet file, or damaged.
        OSError: Likewise.
        UnicodeDecodeError: Likewise.
    """
    rows = parquet_file(pa.BufferReader(content)).read(use_threads=False)
    mask = _mask(key, rows, lake, keys)
    if mask is None:
        return None
    rest = rows.filter(pc.invert(mask))
    remaining = _written(rest) if 0 < rest.num_rows < rows.num_rows else b""
    return ForeignFile(key, pc.sum(mask).as_py() or 0, content, remaining)


def _mask(key: str, rows: pa.Table, lake: Snapshot, keys: RowKeys) -> pa.Array | None:
    """Whether each row has one of the keys; None if that is unknown."""
    key_filter = keys.filter_for(TableShape(lake.schema, keys.names, ()))
    columns = [name.lower() for name in rows.column_names]
    folders = dict(filter(None, map(parse_partition_folder, key.split("/")[:-1])))
    values = []
    for name in keys.names:
        column = lake.schema.find(name)
        if columns.count(name.lower()) == 1:
            raw = rows.column(columns.index(name.lower())).combine_chunks()
        elif name in folders and name.lower() not in columns:
            raw = pa.repeat(pa.scalar(folders[name], pa.string()), rows.num_rows)
        else:
            return None
        typed, bad = cast_column(raw, column.type if column else "string")
        if bad:
            return None
        values.append(typed)
    return matches(key_of(values), key_filter.keys) if key_filter else None


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False)
    return bytes(sink.getvalue())


def rewrite(store: ObjectStore, files: list[ForeignFile]) -> None:
    """Write the files without the rows, and delete files that would be empty.

    Raises:
        CommitConflictError: As `replace_object`.
    """
    for file in files:
        if file.rest:
            replace_object(store, file.key, file.rest, file.content)
        else:
            store.delete([file.key])
