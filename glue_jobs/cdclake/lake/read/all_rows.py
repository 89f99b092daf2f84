"""Reads all rows of a lake table without Spark, in batches small enough to compare with another source."""

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


def row_batches(location: TableLocation, as_of: TableAsOf) -> Iterator[pa.Table]:
    """The source's columns of all rows of a table as of a change, in no order. The first batch is empty.

    Raises:
        PastRetentionError: A file is no longer retained.
        LakeFilesError: A file vanished from the table's folder or was overwritten.
    """
    snapshot = as_of.snapshot
    shape = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
    reader = RetainedFileReader(location)
    yield arrow_schema(snapshot.schema).empty_table()
    for retained in as_of.files:
        for group in reader.row_groups(retained):
            rows = as_full_load(group)
            rows = rows.filter(pc.invert(is_deleted(rows))) if retained.file.deleted else rows
            yield pa.table(shape.source_columns(rows, retained.file.partition))
