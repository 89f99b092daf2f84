"""Simulates what a table writes and stores that changes all the time.

Its files are small where changes fall, and of its older states fewer are kept.

`benchmarks.file_sizes` plans and cuts the files with the engine's functions. The product's own rules say when a
clean-up is due, and which states it keeps. A replaced file stays while a kept state needs it; then the clean-up deletes
all its versions. What it deletes in the control folder stays as noncurrent versions for `LAKE_RETENTION`.
"""

from __future__ import annotations

from bisect import bisect_left
from copy import deepcopy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks.file_sizes import Pattern, loaded, recent, spread

from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.model.raw.ledger import Entry, Ledger
from cdclake.model.retained import Retained, can_be_thinned, changes_to_keep
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import TableSettings
from cdclake.model.table.state import MIN_THINNING_DELAY, TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LAKE_RETENTION = timedelta(days=TableSettings.retention_days)
"""The default of the deployment's setting `lake_retention_days`."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ANYWHERE, MOSTLY_RECENT = "anywhere", "mostly recent"
OLD_ROWS = {ANYWHERE: spread, MOSTLY_RECENT: recent}
"""Where the 4 old rows of a burst are, which also updates 36 new rows, and inserts 60."""
OLDER_DAYS = TableSettings.retention_days + 2
"""Days before the newest ones: until a state of each kind is kept, and another one deleted for each new one."""
OLDER_INTERVAL = timedelta(hours=2)
"""Between the changes of the older days, however many come later: of their states at most one per six hours is left."""
NEWEST_CLEAN_UPS = 6
"""The newest days take so many clean-ups: longer than any state stays that is not of those kinds."""
LEDGER_FILES = DEFAULT_LIMITS.ledger_segment_files * 3 // 2
"""Change files that a snapshot names, on average."""
_SETTINGS = TableSettings.from_item({})
_GB = 1e9


class Stored(NamedTuple):
    """What a table that had 2 GB stores after a month of changes, and writes.

    Attributes:
        bursts: Bursts of changes per hour.
        old_rows: Where the old rows of a burst are, see `OLD_ROWS`.
        changes: Changes per hour.
        files: Number of its live data files.
        live_gb: Their bytes, in GB; likewise:
        replaced_gb: Data files that kept states need, on average.
        snapshots_gb: Snapshots, most of them deleted.
        written_gb: Data files written in a day.
        one_size_gb: Likewise, if each change rewrote whole files of 128 MB.
    """

    bursts: int
    old_rows: str
    changes: int
    files: int
    live_gb: float
    replaced_gb: float
    snapshots_gb: float
    written_gb: float
    one_size_gb: float

    @property
    def gb(self) -> float:
        """All bytes."""
        return self.live_gb + self.replaced_gb + self.snapshots_gb


class Replaced:
    """The replaced data files of a table that clean-ups have left.

    Attributes:
        retained: The states that are kept.
        bytes: Their bytes.
    """

    def __init__(self) -> None:
        self.retained = Retained()
        self.bytes = 0
        self._committed: list[datetime] = []
        self._live: dict[str, tuple[int, int]] = {}
        self._replaced: list[tuple[int, int, int]] = []

    def commit(self, now: datetime, added: Mapping[str, int], retired: Iterable[str]) -> None:
        """Commit a change, and clean up if that is due.

        Args:
            added: Bytes by path.
        """
        self._committed.append(now)
        head = len(self._committed)
        for path in retired:
            change, size_bytes = self._live.pop(path)
            self._replaced.append((change, head, size_bytes))
            self.bytes += size_bytes
        self._live.update({path: (head, size_bytes) for path, size_bytes in added.items()})
        if self._state(head).needs_clean_up(now):
            self._clean_up(head, now)

    def _at(self, change: int) -> datetime:
        return self._committed[change - 1]

    def _state(self, head: int) -> TableState:
        """The table's item, as far as it says when a clean-up is due: see `clean_up.deletable_since`."""
        first, every = self.retained.first, range(self.retained.through + 1, head)
        retired = self._at(first + 1) if first < head else None
        repeated = next((self._at(one + 1) for one in every if can_be_thinned(self._at(one), self._at(one + 1))), None)
        since = {Attribute.LAST_RETIRED_SINCE_UTC: retired, Attribute.LAST_REPEATED_SINCE_UTC: repeated}
        times = {name: iso_utc(utc) if utc else "" for name, utc in since.items()}
        return TableState({Attribute.LAST_CHANGE_ID: str(head), **times})

    def _clean_up(self, head: int, now: datetime) -> None:
        committed = {change: self._at(change) for change in self.retained.up_to(head)}
        self.retained &= changes_to_keep(committed, now, _SETTINGS.retention, _SETTINGS.keep_every, wanted=[head - 1])
        kept = self.retained.up_to(head)

        def is_needed(added: int, retired: int) -> bool:
            place = bisect_left(kept, added)
            return place < len(kept) and kept[place] < retired

        self._replaced = [one for one in self._replaced if is_needed(*one[:2])]
        self.bytes = sum(size_bytes for *_, size_bytes in self._replaced)


class Life:
    """The life of a table of 2 GB from its full load on.

    Args:
        bursts: Bursts of changes per hour.
        old_rows: Where their old rows are, see `OLD_ROWS`.
        adaptive: Whether files are smaller where changes fall.
    """

    def __init__(self, bursts: int, old_rows: str, *, adaptive: bool = True) -> None:
        self._bursts, self._old_rows = bursts, old_rows
        self._pattern = Pattern(OLD_ROWS[old_rows])
        self._table = loaded(self._pattern, adaptive=adaptive)
        self._replaced, self._files = Replaced(), self._listed
        self._replaced.commit(self._table.now, self._files, ())

    @property
    def _listed(self) -> dict[str, int]:
        return {file.path: file.bytes for file in self._table.listed}

    def live(self, time: timedelta, interval: timedelta) -> tuple[float, list[int]]:
        """Live on for some time, with a change in each interval.

        Returns:
            GB written per day, and after each change the bytes of the replaced files.
        """
        written, replaced = 0, []
        for _ in range(time // interval):
            self._table.now += interval
            bursts = (self._pattern.burst() for _ in range(round(self._bursts * (interval / HOUR))))
            updated, inserted = (np.concatenate(keys) for keys in zip(*bursts))
            written += self._table.change(np.setdiff1d(updated, inserted), inserted).written
            before, self._files = self._files, self._listed
            added = {path: size_bytes for path, size_bytes in self._files.items() if path not in before}
            self._replaced.commit(self._table.now, added, before.keys() - self._files.keys())
            replaced.append(self._replaced.bytes)
        return written / _GB * (DAY / time), replaced

    def stored(self, changes: int) -> Stored:
        """Live through the newest days with so many changes per hour. What the table stores then, and wrote."""
        interval = HOUR / changes
        written, replaced = self.live(NEWEST_CLEAN_UPS * MIN_THINNING_DELAY, interval)
        since_clean_up = replaced[-len(replaced) // NEWEST_CLEAN_UPS :]
        snapshot = Snapshot(self._table.snapshot.change, files=tuple(self._table.listed), ledger=_ledger())
        snapshots = (_SETTINGS.keep_every + LAKE_RETENTION) / interval
        one_size, _ = Life(self._bursts, self._old_rows, adaptive=False).live(DAY / 4, interval)
        return Stored(
            self._bursts,
            self._old_rows,
            changes,
            len(self._files),
            round(sum(self._files.values()) / _GB, 2),
            round(sum(since_clean_up) / len(since_clean_up) / _GB, 1),
            round(len(snapshot.to_bytes()) * snapshots / _GB, 2),
            round(written, 1),
            round(one_size, 1),
        )


def simulate_stored(bursts: int, old_rows: str, changes: Sequence[int]) -> list[Stored]:
    """What a table stores and writes after a month of changes.

    Args:
        changes: Numbers of changes per hour, one for each result.
    """
    life = Life(bursts, old_rows)
    life.live(OLDER_DAYS * DAY, OLDER_INTERVAL)
    return [deepcopy(life).stored(one) for one in changes]


def _ledger() -> Ledger:
    """The ledger of a table whose change files come once a minute: names and identities, which hardly compress."""
    rng = np.random.default_rng(3)
    begin = datetime(2024, 3, 1)  # noqa: DTZ001 - a name has no zone
    times = (
        begin + timedelta(minutes=minute, milliseconds=int(rng.integers(60_000))) for minute in range(LEDGER_FILES)
    )
    names = [f"{time:%Y%m%d-%H%M%S}{time.microsecond // 1000:03}.parquet" for time in times]
    return Ledger(recent={name: Entry(f"12345-{rng.bytes(6).hex()}", number) for number, name in enumerate(names)})
