"""The delay of changes: the time from when DMS wrote raw files until readers see their rows. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.table.attributes import Attribute
from cdclake.model.times import iso_utc, parse_iso_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.raw.files import RawFile

DAY = timedelta(days=1)
MAX_KEPT = 100
"""A table that changes more often keeps this many of a day's delays in its item: 2 kB."""


class Delay(NamedTuple):
    """How long the change files of a change waited for it, in seconds: as precise as the times of S3.

    Attributes:
        visible_utc: When the change was fully visible.
        seconds: How long before that its oldest file was written, see `ChangeRecord.oldest_written_utc`.
        newest_seconds: How long before that its newest file was written.
    """

    visible_utc: datetime
    seconds: int
    newest_seconds: int

    @classmethod
    def of(cls, record: ChangeRecord, visible_utc: datetime | None) -> Delay | None:
        """The delay of a change; None if it applied no new file, or nobody knows when it became visible.

        The mark of a published change tells that. In a lake that was copied or restored, marks have the time of the
        copy. So one that is a day younger than its change tells nothing.
        """
        if not record.oldest_written_utc or visible_utc is None:
            return None
        if visible_utc - datetime.fromisoformat(record.created_utc) > DAY:
            return None
        written = (parse_iso_utc(record.oldest_written_utc), parse_iso_utc(record.newest_written_utc))
        return cls(visible_utc, *(max(round((visible_utc - one).total_seconds()), 0) for one in written))


def written_utc(files: Iterable[RawFile], up_to_date_utc: datetime | None) -> tuple[str, str]:
    """When the oldest and the newest of some change files were written, without those that a table contained before.

    After a reload, a rollback or a watermark set by hand, files are applied again; that says nothing about delays. Nor
    do the files that waited for a new table.

    Args:
        up_to_date_utc: When the table was last known to contain every file; None: never. Older files were in it.

    Returns:
        Two texts; empty if there are no such files.
    """
    written = [file.modified_utc for file in files if up_to_date_utc and file.modified_utc >= up_to_date_utc]
    return (iso_utc(min(written)), iso_utc(max(written))) if written else ("", "")


@dataclass(frozen=True)
class RecentDelays:
    """Delays of a table's changes of the last day, as its item holds them.

    Attributes:
        by_change: When each change became visible, in seconds since 1970, and its delay in seconds, by number.
    """

    by_change: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, item: Mapping[str, str], now: datetime) -> RecentDelays:
        """The delays that an item holds; none if it has no such text."""
        try:
            stored = [tuple(map(int, one)) for one in json.loads(item.get(Attribute.LAST_DELAYS, ""))]
            return cls._since({change: (visible, seconds) for change, visible, seconds in stored}, now)
        except (ValueError, TypeError):
            return cls()

    @classmethod
    def _since(cls, by_change: Mapping[int, tuple[int, int]], now: datetime) -> RecentDelays:
        begin = (now - DAY).timestamp()
        return cls({change: one for change, one in by_change.items() if one[0] > begin})

    def __str__(self) -> str:
        """The JSON that an item holds."""
        return json.dumps([[change, *one] for change, one in sorted(self.by_change.items())], separators=(",", ":"))

    def with_changes(self, delays: Mapping[int, Delay], now: datetime) -> RecentDelays:
        """Add changes. Of more than `MAX_KEPT`, every second, fourth, ... is kept, so they stay spread over the day."""
        new = {change: (int(one.visible_utc.timestamp()), one.seconds) for change, one in delays.items()}
        kept, step = self._since({**self.by_change, **new}, now).by_change, 1
        while len(kept) > MAX_KEPT:
            step *= 2
            kept = {change: one for change, one in kept.items() if change % step == 0}
        return RecentDelays(kept)

    def percentile(self, percent: int) -> int | None:
        """The least delay that so many percent of the changes did not exceed; None if there are none."""
        ordered = sorted(seconds for _, seconds in self.by_change.values())
        return ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else None
