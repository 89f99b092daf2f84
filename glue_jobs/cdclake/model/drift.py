"""Schema drift: columns that a source adds, drops or changes the type of, as its raw files show it. Pure.

A table's snapshot holds the columns of the newest raw file applied. Each newer file is compared with the file before
it, so a column that goes is reported once, and again when it returns. The lake keeps the column. A renamed column shows
as one dropped and one added.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.names import DRIFT_SEPARATOR
from cdclake.model.raw.files import file_order
from cdclake.model.schema import Schema
from cdclake.model.type_widening import merge_schemas, wider_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import Snapshot


class DriftKind(str, Enum):
    """What happened to a column."""

    ADDED = "added"
    DROPPED = "dropped"
    RETYPED = "retyped"


@dataclass(frozen=True)
class ColumnDrift:
    """A column that changed at the source.

    Attributes:
        kind: A value of `DriftKind`.
        column: Its name.
        type: Its type; of a dropped column the last one.
        was: Its type before, if it changed; else empty.
        file: The first raw file that shows it, relative to the table's raw folder.
    """

    kind: str
    column: str
    type: str
    was: str = ""
    file: str = ""

    def __str__(self) -> str:
        """Without the file, such as `note string added`."""
        if self.kind == DriftKind.RETYPED:
            return f"{self.column} retyped from {self.was} to {self.type}"
        return f"{self.column} {self.type} {self.kind}"


def drift_text(changes: Iterable[ColumnDrift]) -> str:
    """All changes on one line; each text once."""
    return DRIFT_SEPARATOR.join(dict.fromkeys(map(str, changes)))


class SourceDrift(NamedTuple):
    """The drift of a change.

    Attributes:
        changes: In the order of the files.
        source: Columns of the newest file.
    """

    changes: tuple[ColumnDrift, ...]
    source: Schema | None


def incremental_drift(before: Snapshot, files: Sequence[tuple[RawFile, Schema]]) -> SourceDrift:
    """The drift that change files show.

    A late file may be older than the last drift. So only columns that the lake lacks, and types that it cannot hold,
    are drift in it.

    Args:
        before: The table before the change.
        files: The change files with their columns, in the order of `RawFile.order`.
    """
    if not before.exists:
        return SourceDrift((), files[-1][1] if files else None)
    lake, source, watermark = before.schema, before.source, file_order(before.watermark)
    changes: list[ColumnDrift] = []
    for file, columns in files:
        if file.order <= watermark:
            changes += _widenings(lake, columns, file.relative)
        else:
            changes += _changes(lake, source, columns, file.relative)
            source = columns
        lake = merge_schemas(lake, columns, file.relative)
    return SourceDrift(tuple(changes), source)


def reload_drift(before: Snapshot, loaded: Schema, file: str) -> SourceDrift:
    """The drift that a full load shows.

    Args:
        before: The table before the load.
        loaded: Columns of all its files.
        file: Relative key of one of them.
    """
    if not before.exists:
        return SourceDrift((), loaded)
    return SourceDrift(tuple(_changes(before.schema, before.source, loaded, file)), loaded)


def _changes(lake: Schema, source: Schema | None, columns: Schema, file: str) -> list[ColumnDrift]:
    """Differences from the newest file before; from the lake table if its columns are unknown."""
    if source:
        return _differences(source, columns, file)
    return [*_widenings(lake, columns, file), *_dropped(lake, columns, file)]


def _differences(known: Schema, columns: Schema, file: str) -> list[ColumnDrift]:
    changes = []
    for column in columns:
        was = known.find(column.name)
        if was is None:
            changes.append(ColumnDrift(DriftKind.ADDED.value, column.name, column.type, file=file))
        elif was.type != column.type:
            changes.append(ColumnDrift(DriftKind.RETYPED.value, column.name, column.type, was.type, file))
    return [*changes, *_dropped(known, columns, file)]


def _dropped(known: Schema, columns: Schema, file: str) -> list[ColumnDrift]:
    return [
        ColumnDrift(DriftKind.DROPPED.value, was.name, was.type, file=file)
        for was in known
        if columns.find(was.name) is None
    ]


def _widenings(lake: Schema, columns: Schema, file: str) -> list[ColumnDrift]:
    held = Schema(tuple(was for was in lake if (now := columns.find(was.name)) and _holds(was.type, now.type)))
    changed = Schema(tuple(column for column in columns if held.find(column.name) is None))
    return [one for one in _differences(lake, changed, file) if one.kind != DriftKind.DROPPED]


def _holds(lake_type: str, kind: str) -> bool:
    return wider_type(lake_type, kind) == lake_type
