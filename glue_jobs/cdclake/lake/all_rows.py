"""All rows of a lake table at once, for whoever compares it with something. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.arrow_types import arrow_schema
from cdclake.lake.data_file import TableShape, as_full_load, is_deleted
from cdclake.lake.kept_files import KeptFiles

if TYPE_CHECKING:
    from cdclake.lake.as_of import TableAsOf, TablePlace


def all_rows(place: TablePlace, as_of: TableAsOf) -> pa.Table:
    """The source's columns of all rows of a table as it was after a change, in no order. They must fit in memory.

    Raises:
        PastRetentionError: A file is no longer kept.
        LakeFilesError: A file vanished from the table's folder or was overwritten.
    """
    snapshot = as_of.snapshot
    shape = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
    kept_files, pieces = KeptFiles(place), list[pa.Table]()
    for kept in as_of.files:
        for group in kept_files.row_groups(kept):
            rows = as_full_load(group)
            rows = rows.filter(pc.invert(is_deleted(rows))) if kept.file.deleted else rows
            pieces.append(pa.table(shape.source_columns(rows, kept.file.partition)))
    return pa.concat_tables(pieces) if pieces else arrow_schema(snapshot.schema).empty_table()
