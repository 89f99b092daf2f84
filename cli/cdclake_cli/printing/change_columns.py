"""The columns of printed lists of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake_cli.printing.output import OutputColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_COLUMNS = (
    OutputColumn("change", "Change", number=True),
    OutputColumn("created_utc", "Time", time=True),
    OutputColumn("what", "Kind"),
    OutputColumn("raw_files", "Raw\nfiles", number=True),
    OutputColumn("rows_read", "Rows\nread", number=True),
    OutputColumn("inserted", "Inserted", number=True),
    OutputColumn("updated", "Updated", number=True),
    OutputColumn("deleted", "Deleted", number=True),
    OutputColumn("rows", "Rows\nafter", number=True),
    OutputColumn("files_added", "Files\nadded", number=True),
    OutputColumn("files_retired", "Files\nretired", number=True),
    OutputColumn("files_restored", "Files\nrestored", number=True),
    OutputColumn("bytes_added", "Bytes\nadded", number=True),
    OutputColumn("seconds", "Secs", number=True),
    OutputColumn("delay_seconds", "Delay", duration=True),
    OutputColumn("note", "Note"),
)
"""Columns of `cdclake.commit.describe.entry_fields`. The last two are not in `change_fields`."""

STEP_COLUMNS = (
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("inserted", "Inserted", number=True),
    OutputColumn("updated", "Updated", number=True),
    OutputColumn("deleted", "Deleted", number=True),
    OutputColumn("files", "Files\nrewritten", number=True),
    OutputColumn("seconds", "Secs", number=True),
)
"""Columns of `step_record`."""


def step_record(change: Mapping[str, object]) -> dict[str, object]:
    """The figures of a change, plus `files`: rewritten files of all files, such as `3 of 90`."""
    return {**change, "files": f"{change['files_rewritten']} of {change['files_before']}"}
