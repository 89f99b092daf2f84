"""Plans a feed's change files: their intervals, rounds and kinds."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Callable, NamedTuple

import numpy as np

from cdclake.errors import ConfigurationError
from cdclake_devkit.feed.options import Fault

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake_devkit.feed.options import FeedOptions


class FileKind(str, Enum):
    """Kind of a file in a feed."""

    FULL_LOAD = "full load"
    CHANGE = "change"
    LATE = "late"
    """Delivered one round late."""
    REPEATED = "repeated"
    """Delivered again in the next round, then as `AGAIN`."""
    AGAIN = "again"
    RESUMED = "resumed"
    """Its rows are repeated in a file with a later name."""
    BAD_ROWS = Fault.BAD_ROWS.value
    TRUNCATED = Fault.TRUNCATED.value
    VANISHED = Fault.VANISHED.value
    """Deleted in the next round, then as `GONE`."""
    GONE = "gone"


class FeedFile(NamedTuple):
    """One write or delete in the raw bucket.

    Attributes:
        round: Round of the delivery, from 1.
        key: Key of the object, relative to the raw prefix.
        content: Returns the object's bytes, the same ones each time, in any thread; None for a delete.
        rows: Number of rows in the file.
        kind: Kind of the file.
    """

    round: int
    key: str
    content: Callable[[], bytes] | None
    rows: int
    kind: FileKind


class Interval(NamedTuple):
    """A span of time whose changes DMS writes to one file.

    Attributes:
        number: Counts from 0.
        begins_utc: Commits are after this time.
        ends_utc: Commits are before this time.
        round: Round in which the file is due, from 1.
        rows: Number of change rows at the source.
        schema: Index of the columns among the feed's schemas.
        kind: Kind of the file.
    """

    number: int
    begins_utc: datetime
    ends_utc: datetime
    round: int
    rows: int
    schema: int
    kind: FileKind


def schedule(options: FeedOptions, max_file_rows: int) -> list[Interval]:
    """The intervals of a feed, in order.

    Args:
        max_file_rows: Maximum number of rows in a change file. DMS writes large files early, so there may be more
            files than the options ask for.

    Raises:
        ConfigurationError: There are too few change files for the special kinds.
    """
    count = max(options.change_files, -(-options.changes // max_file_rows)) if options.changes else 0
    first_utc = options.start_utc + options.interval
    every = options.interval * options.change_files / max(count, 1)
    kinds = _special(options, count, np.random.default_rng([options.seed, 2]))
    return [
        Interval(
            number,
            first_utc + number * every,
            first_utc + (number + 1) * every,
            1 + number * options.rounds // count,
            len(rows),
            number * (options.schema_changes + 1) // count,
            kinds.get(number, FileKind.CHANGE),
        )
        for number, rows in enumerate(np.array_split(np.arange(options.changes), count) if count else [])
    ]


def _special(options: FeedOptions, count: int, rng: np.random.Generator) -> dict[int, FileKind]:
    """Special kinds by interval number. A kind that continues in the next round is never in the last round."""
    faults = [FileKind(fault.value) for fault in sorted(options.faults - {Fault.VANISHED_LOAD})]
    delayed = [FileKind.LATE] * options.late_files + [FileKind.REPEATED] * options.repeated_files
    others = [FileKind.RESUMED] * options.resumed_files
    for fault in faults:
        (delayed if fault is FileKind.VANISHED and options.rounds > 1 else others).append(fault)
    before_last = -(-count * (options.rounds - 1) // options.rounds)
    if len(delayed) > before_last or len(delayed) + len(others) > count:
        message = (
            f"{len(delayed)} special files that continue in the next round and {len(others)} others do not fit into "
            f"{count} change files, {before_last} of which come before the last round"
        )
        raise ConfigurationError(message, remedy="Ask for more change files, or for more rounds")
    first = rng.permutation(before_last)[: len(delayed)]
    rest = rng.permutation(np.setdiff1d(np.arange(count), first))[: len(others)]
    return dict(zip([*first.tolist(), *rest.tolist()], [*delayed, *others], strict=True))
