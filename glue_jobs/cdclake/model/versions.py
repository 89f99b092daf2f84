"""Columns that the history of a table adds to the source's columns."""

from __future__ import annotations

from dataclasses import replace

from cdclake.model import position
from cdclake.model.layout import HISTORY, LakeLayout
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot

OPERATION, VALID_FROM, VALID_TO = "operation", "valid_from", "valid_to"
VALIDITY_FLAG, CHANGE_ID, YEAR, MONTH = "validity_flag", "change_id", "year", "month"
INSERTED, UPDATED, DELETED = "insert", "update", "delete"
"""Values of `operation`."""
OWN_COLUMNS = (
    Column(OPERATION, "string"),
    Column(VALID_FROM, "timestamp"),
    Column(VALID_TO, "timestamp"),
    Column(VALIDITY_FLAG, "int"),
    Column(CHANGE_ID, "bigint"),
    Column(position.COLUMN, "string"),
    Column(YEAR, "string"),
    Column(MONTH, "string"),
)
"""Columns of a history in addition to the source's. `year` and `month` come from `valid_from`, and partition it."""


def history_table(lake: Snapshot, layout: LakeLayout) -> tuple[Snapshot, LakeLayout]:
    """The history of a table as a table of its own, for readers. All its columns are in its schema.

    Args:
        lake: The table. Without a history, the result is a table that does not exist.
    """
    table = Snapshot(change=lake.change, policy=lake.policy)
    if lake.history:
        table = replace(
            table,
            schema=Schema((*lake.history.schema, *OWN_COLUMNS)),
            partition_key=(YEAR, MONTH),
            files=tuple(replace(file, path=file.path[len(HISTORY) :]) for file in lake.history.files),
            field_ids=lake.history.field_ids,
            iceberg=lake.history.iceberg,
        )
    return table, layout.history
