"""What runs saw of a table's raw files, as the table's item holds it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.times import iso_utc, parse_iso_utc

if TYPE_CHECKING:
    from datetime import datetime

_STAMP = re.compile(r"([0-9]{8}-[0-9]{6})?")


class Seen(NamedTuple):
    """What runs saw of a table's raw files. Times are to the second, and None if they are unknown.

    Attributes:
        listed_utc: When the last good run began to list the files, of which it left none to apply. It may have missed
            files that were written later.
        all_listed_utc: When a run last listed all of them. Others list the newest, if they have something to load.
        tail_from: `yyyymmdd-HHMMSS`: a scan for new files begins no earlier; empty if that does not matter.
        tail: Digest of the change files up to the watermark that every scan lists; empty if it is unknown.
        whole: Digest of all change files up to there; empty if the last good run did not list all.
    """

    listed_utc: datetime | None = None
    all_listed_utc: datetime | None = None
    tail_from: str = ""
    tail: str = ""
    whole: str = ""

    @classmethod
    def parse(cls, text: str) -> Seen:
        """Inverse of `str`; any other text means that nothing is known."""
        try:
            seen = cls(**json.loads(text))
            listed_utc, all_listed_utc = (time and parse_iso_utc(str(time)) for time in seen[:2])
            is_valid = all(isinstance(one, str) for one in seen[2:]) and _STAMP.fullmatch(seen.tail_from)
        except (ValueError, TypeError):
            return cls()
        return seen._replace(listed_utc=listed_utc, all_listed_utc=all_listed_utc) if is_valid else cls()

    def __str__(self) -> str:
        """The JSON object that the item holds, with what is known."""
        return json.dumps({name: value for name, value in self._asdict().items() if value}, default=iso_utc)
