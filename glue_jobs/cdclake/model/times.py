"""Formats times: one format for stored data and JSON, one for people."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

MAX_CLOCK_DIFFERENCE = timedelta(minutes=1)
"""A clock that differs by more from other writers' clocks is reported, and a time further in the future is wrong."""
_ISO_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_DISPLAY_FORMAT = "%Y-%m-%d %H:%M:%S UTC"


def iso_utc(moment: datetime) -> str:
    """Format a time for storage and JSON: `yyyy-mm-ddTHH:MM:SSZ`, without fractions. Such texts sort by time.

    Raises:
        ValueError: The time has no time zone.
    """
    return _in_utc(moment).strftime(_ISO_FORMAT)


def parse_iso_utc(text: str) -> datetime:
    """Inverse of `iso_utc`.

    Raises:
        ValueError: The text has another format.
    """
    return datetime.strptime(text, _ISO_FORMAT).replace(tzinfo=timezone.utc)


def display_utc(moment: datetime | str) -> str:
    """Format a time for people: `2026-11-22 10:15:00 UTC`, without fractions.

    Args:
        moment: A time, or its ISO 8601 text as items and change records hold it. Any other text stays as it is.

    Raises:
        ValueError: The time has no time zone.

    Example:
        >>> display_utc("2026-11-22T10:15:00.250+00:00")
        '2026-11-22 10:15:00 UTC'
    """
    if isinstance(moment, str):
        try:
            parsed = datetime.fromisoformat(f"{moment[:-1]}+00:00" if moment.endswith("Z") else moment)
        except ValueError:
            return moment
        moment = parsed
    return _in_utc(moment).strftime(_DISPLAY_FORMAT)


def display_stored(text: str) -> str:
    """Format a stored time for people. Without a zone it is UTC; any other text stays as it is."""
    for candidate in (text, f"{text}Z"):
        with suppress(ValueError):
            return display_utc(candidate)
    return text


def duration_text(seconds: float) -> str:
    """A duration for people, in its two largest units. Less than a minute has tenths, unless it is a whole number.

    Example:
        >>> duration_text(1.0), duration_text(42), duration_text(75), duration_text(93_784)
        ('1.0 s', '42 s', '1 min 15 s', '1 d 2 h')
    """
    if seconds < _MINUTE:
        return f"{seconds:.1f} s" if seconds and isinstance(seconds, float) else f"{seconds:.0f} s"
    whole = int(seconds)
    for size, unit, smaller, smaller_unit in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {smaller_unit}" if rest else f"{whole // size} {unit}"
    raise AssertionError(seconds)


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        message = f"{moment.isoformat()} has no time zone"
        raise ValueError(message)
    return moment.astimezone(timezone.utc)
