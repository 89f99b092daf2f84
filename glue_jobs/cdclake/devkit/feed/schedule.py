"""Which change files there are, when they come, and what is special about them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Callable, NamedTuple

import numpy as np

from cdclake.devkit.feed.options import Fault
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.devkit.feed.options import FeedOptions


class Kind(str, Enum):
    """What a file of a feed is."""

    FULL_LOAD = "full load"
    CHANGE = "change"
    LATE = "late"
    """Comes a round after its time."""
    REPEATED = "repeated"
    """Comes again in the next round, and is then `AGAIN`."""
    AGAIN = "again"
    RESUMED = "resumed"
    """Its rows come again in a file of a later name."""
    BAD_ROWS = Fault.BAD_ROWS.value
    TRUNCATED = Fault.TRUNCATED.value
    VANISHED = Fault.VANISHED.value
    """Comes, and is deleted in the next round; that is `GONE`."""
    GONE = "gone"


class FeedFile(NamedTuple):
    """One thing that happens in the raw bucket.

    Attributes:
        round: When, from 1.
        key: Of the object, below the raw prefix.
        content: Makes its bytes, the same each time, in any thread; None: it vanishes.
        rows: Rows in it.
        kind: What it is.
    """

    round: int
    key: str
    content: Callable[[], bytes] | None
    rows: int
    kind: Kind


class Interval(NamedTuple):
    """A time at whose end DMS writes a change file.

    Attributes:
        number: Counts them, from 0.
        begins_utc: Its commits come after this,
        ends_utc: and before this.
        round: In which its file is due.
        rows: Change rows at the source.
        schema: Index of the columns among those of the feed.
        kind: What its file is.
    """

    number: int
    begins_utc: datetime
    ends_utc: datetime
    round: int
    rows: int
    schema: int
    kind: Kind


def schedule(options: FeedOptions, most_rows: int) -> list[Interval]:
    """The intervals of a feed, in order.

    Args:
        options: Of the feed.
        most_rows: Of a change file. DMS writes it before its time if it is large: then there are more than asked for.

    Raises:
        ConfigurationError: There are too few for what is to be special.
    """
    count = max(options.change_files, -(-options.changes // most_rows)) if options.changes else 0
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
            kinds.get(number, Kind.CHANGE),
        )
        for number, rows in enumerate(np.array_split(np.arange(options.changes), count) if count else [])
    ]


def _special(options: FeedOptions, count: int, dice: np.random.Generator) -> dict[int, Kind]:
    """What is special about which interval; those whose file comes in a later round have one."""
    faults = [Kind(fault.value) for fault in sorted(options.faults - {Fault.VANISHED_LOAD})]
    delayed = [Kind.LATE] * options.late_files + [Kind.REPEATED] * options.repeated_files
    others = [Kind.RESUMED] * options.resumed_files
    for fault in faults:
        (delayed if fault is Kind.VANISHED and options.rounds > 1 else others).append(fault)
    before_last = -(-count * (options.rounds - 1) // options.rounds)
    if len(delayed) > before_last or len(delayed) + len(others) > count:
        message = (
            f"{len(delayed)} files with a part in the next round and {len(others)} other special ones do not fit in "
            f"{count} change files, of which {before_last} come before the last round"
        )
        raise ConfigurationError(message, remedy="Ask for more change files, or for more rounds")
    first = dice.permutation(before_last)[: len(delayed)]
    rest = dice.permutation(np.setdiff1d(np.arange(count), first))[: len(others)]
    return dict(zip([*first.tolist(), *rest.tolist()], [*delayed, *others], strict=True))
