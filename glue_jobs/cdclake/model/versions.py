"""What the history of a table tells of each version of a row, beside the source's columns."""

from __future__ import annotations

from dataclasses import replace

from cdclake.model import position
from cdclake.model.layout import HISTORY, HISTORY_SUFFIX, LakeLayout
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot
from cdclake.model.table import TableName

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
"""Columns of a history beside the source's. Year and month are those of `valid_from`, and lie in the folders."""


def as_table(lake: Snapshot, layout: LakeLayout) -> tuple[Snapshot, LakeLayout]:
    """The history of a table as a table of its own, for whoever reads it.

    Args:
        lake: The table; without a history, that of a table that was never made is given.
        layout: Where it lies.
    """
    name = TableName(layout.name.schema, layout.name.table + HISTORY_SUFFIX)
    made = Snapshot(change=lake.change)
    if lake.history:
        made = replace(
            made,
            schema=Schema((*lake.history.schema, *OWN_COLUMNS)),
            partition_key=(YEAR, MONTH),
            files=tuple(replace(file, path=file.path[len(HISTORY) :]) for file in lake.history.files),
        )
    return made, replace(layout, name=name)
