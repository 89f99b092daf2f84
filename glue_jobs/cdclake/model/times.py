"""How moments are written in the state table."""

from __future__ import annotations

from datetime import datetime, timezone

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


def utc_time(text: str) -> datetime:
    """Read what `utc_text` writes.

    Raises:
        ValueError: It is not of that form.
    """
    return datetime.strptime(text, _UTC_FORMAT).replace(tzinfo=timezone.utc)
