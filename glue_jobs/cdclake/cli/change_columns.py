"""The columns of printed lists of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.cli.output import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_COLUMNS = (
    Column("change", "Change", number=True),
    Column("created_utc", "Time", time=True),
    Column("what", "Kind"),
    Column("raw_files", "Raw\nfiles", number=True),
    Column("rows_read", "Rows\nread", number=True),
    Column("inserted", "Inserted", number=True),
    Column("updated", "Updated", number=True),
    Column("deleted", "Deleted", number=True),
    Column("rows", "Rows\nafter", number=True),
    Column("files_added", "Files\nadded", number=True),
    Column("files_retired", "Files\nretired", number=True),
    Column("files_restored", "Files\nrestored", number=True),
    Column("bytes_added", "Bytes\nadded", number=True),
    Column("seconds", "Secs", number=True),
    Column("note", "Note"),
)
"""Columns of `cdclake.commit.describe.entry_fields`. The note is last."""

STEP_COLUMNS = (
    Column("rows", "Rows", number=True),
    Column("inserted", "Inserted", number=True),
    Column("updated", "Updated", number=True),
    Column("deleted", "Deleted", number=True),
    Column("files", "Files\nrewritten", number=True),
    Column("seconds", "Secs", number=True),
)
"""Columns of `step_record`."""


def step_record(change: Mapping[str, object]) -> dict[str, object]:
    """The figures of a change, plus `files`: rewritten files of all files, such as `3 of 90`."""
    return {**change, "files": f"{change['files_rewritten']} of {change['files_before']}"}
