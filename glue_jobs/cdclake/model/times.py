"""How moments are written in the state table."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_UTC_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def utc_text(moment: datetime) -> str:
    """Write a time as `yyyy-mm-ddTHH:MM:SSZ`, fractions cut off; the order of such texts is the order of the times.

    Raises:
        ValueError: The time has no time zone.
    """
    if moment.tzinfo is None:
        message = f"{moment.isoformat()} has no time zone"
        raise ValueError(message)
    return moment.astimezone(timezone.utc).strftime(_UTC_FORMAT)
