"""Which changes of a lake table are retained: their states can be read, and rolled back to. The others are gone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from cdclake.model.stored_json import FORMAT, parse_stored, reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SIX_HOURLY_FOR = timedelta(days=7)
"""How long one state per six hours is kept, and then one per day."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SIX_HOURS, _DAY = timedelta(hours=6), timedelta(days=1)


@dataclass(frozen=True)
class Retained:
    """The retained changes of a table: all after one, and some up to it.

    Attributes:
        through: All later changes are retained.
        kept: The retained changes up to it, in order.
    """

    through: int = 0
    kept: tuple[int, ...] = ()

    @property
    def first(self) -> int:
        """The oldest retained change."""
        return self.kept[0] if self.kept else self.through + 1

    def __contains__(self, change: int) -> bool:
        return change > self.through or change in self.kept

    def __and__(self, other: Retained) -> Retained:
        """What is retained by both."""
        through = max(self.through, other.through)
        both = (change for change in {*self.kept, *other.kept} if change <= through)
        return Retained(through, tuple(sorted(change for change in both if change in self and change in other)))

    def up_to(self, head: int) -> list[int]:
        """The retained changes up to the newest one, in order."""
        return [*(change for change in self.kept if change <= head), *range(self.through + 1, head + 1)]

    def nearest(self, change: int) -> tuple[int | None, int]:
        """The retained changes before and after one that is not retained; None if there is none before."""
        before = [one for one in self.kept if one < change]
        after = [one for one in self.kept if one > change]
        return before[-1] if before else None, after[0] if after else self.through + 1

    def __str__(self) -> str:
        """The retained changes in words: `change 3, 7 or 9, or to change 12 or a later one`."""
        last = f"change {self.through + 1} or a later one"
        if not self.kept:
            return last
        *first, end = map(str, self.kept)
        return f"change {', '.join(first)}{' or ' if first else ''}{end}, or to {last}"

    def to_bytes(self) -> bytes:
        """JSON."""
        return json.dumps({"through": self.through, "kept": self.kept, "format": FORMAT}).encode()

    @classmethod
    def from_bytes(cls, data: bytes | None, key: str) -> Retained:
        """Inverse of `to_bytes`; of a table without the object all changes are retained.

        Args:
            key: Key of the object, for errors.

        Raises:
            ConfigurationError: A newer version of cdclake wrote it.
            IntegrityError: It is damaged.
        """
        if data is None:
            return cls()
        with reading("list of the retained changes of a table", key):
            read = parse_stored(data, cls)
            return cls(int(read["through"]), tuple(map(int, read["kept"])))


def changes_to_keep(
    committed: Mapping[int, datetime],
    now: datetime,
    retention: timedelta,
    keep_every: timedelta,
    wanted: Iterable[int] = (),
) -> Retained:
    """Choose which of the retained changes stay retained: fewer, the older they are. At least one is retained.

    Kept are all states that were the newest within `keep_every`, then the newest of each six hours for a week, then the
    newest of each day until `retention`, and of each of these kinds the one that was the newest when its time begins.
    Hours and days begin as in UTC, so each kept state of a day is one of those of six hours.

    The choice only shrinks as time goes on, for retention times of whole days.

    Args:
        committed: When the retained changes were committed, by number.
        now: The current time.
        retention: How long earlier states are kept.
        keep_every: How long every state is kept.
        wanted: Changes to keep as long as `retention` allows, if they are retained.
    """
    numbers = sorted(committed)

    def kept(candidates: Sequence[int], age: timedelta) -> set[int]:
        """The candidates after a time, and the one that was the newest then."""
        later = {one for one in candidates if committed[one] > now - age}
        return later | set([one for one in candidates if one not in later][-1:])

    everything = kept(numbers, retention)
    latest = kept(numbers, min(keep_every, retention))
    chosen = everything.intersection(wanted)
    for age, bucket, shorter in ((SIX_HOURLY_FOR, _SIX_HOURS, keep_every), (retention, _DAY, SIX_HOURLY_FOR)):
        if retention > max(shorter, keep_every):
            newest = {(committed[one] - _EPOCH) // bucket: one for one in numbers}
            chosen |= kept(list(newest.values()), min(age, retention))
    through = min(latest) - 1
    return Retained(through, tuple(one for one in sorted(chosen) if one <= through))


def can_be_thinned(earlier: datetime, later: datetime) -> bool:
    """Whether the state of one time need not be kept for long because there is another one of the same six hours."""
    return (earlier - _EPOCH) // _SIX_HOURS == (later - _EPOCH) // _SIX_HOURS
