"""All rows of a lake table, piece by piece, for whoever compares it with something. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.storage.reader import as_full_load
from cdclake.lake.storage.shape import TableShape, is_deleted
from cdclake.lake.storage.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.lake.read.as_of import TableAsOf, TableLocation


def row_batches(place: TableLocation, as_of: TableAsOf) -> Iterator[pa.Table]:
    """The source's columns of all rows of a table as it was after a change, in no order; the first piece is empty.

    Raises:
        PastRetentionError: A file is no longer kept.
        LakeFilesError: A file vanished from the table's folder or was overwritten.
    """
    snapshot = as_of.snapshot
    shape = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
    kept_files = RetainedFileReader(place)
    yield arrow_schema(snapshot.schema).empty_table()
    for kept in as_of.files:
        for group in kept_files.row_groups(kept):
            rows = as_full_load(group)
            rows = rows.filter(pc.invert(is_deleted(rows))) if kept.file.deleted else rows
            yield pa.table(shape.source_columns(rows, kept.file.partition))
