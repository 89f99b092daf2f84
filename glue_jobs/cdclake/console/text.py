"""How pages write figures, sizes and times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from flask import Flask

_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_KILO = 1000
_BREAKS = re.compile(r"([._/-])")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
NONE = "–"  # noqa: RUF001 - a dash, as a table shows what is not there


def count_text(value: int | None) -> str:
    """A whole number with its digits in groups; a dash if there is none."""
    return NONE if value is None else f"{value:,}"


def bytes_text(value: int) -> str:
    """A size in the unit (of 1,000) that makes it short.

    Example:
        >>> bytes_text(12_345_678)
        '12.3 MB'
    """
    size, units = float(value), iter(_BYTE_UNITS)
    unit = next(units)
    while size >= _KILO and unit != _BYTE_UNITS[-1]:
        size, unit = size / _KILO, next(units)
    return f"{value:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"


def seconds_text(seconds: float | None) -> str:
    """A duration in the two largest units that it has; a dash if there is none.

    Example:
        >>> seconds_text(1.234), seconds_text(75), seconds_text(93_784)
        ('1.2 s', '1 min 15 s', '1 d 2 h')
    """
    if seconds is None:
        return NONE
    if seconds < _MINUTE:
        return f"{seconds:.1f} s" if seconds else "0 s"
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


def time_text(utc: str) -> str:
    """`yyyy-mm-dd HH:MM:SS` of an ISO time in UTC; a dash if there is none."""
    return utc[:19].replace("T", " ") if utc else NONE


def words(name: str) -> str:
    """A name of the code as a person writes it."""
    return name.replace("_", " ")


def breakable(text: str) -> Markup:
    """A long name that a browser may break after its dots, dashes, slashes and underscores."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(text))))


def add_filters(app: Flask) -> None:
    """Let templates use these."""
    app.jinja_env.filters.update(
        count=count_text, size=bytes_text, seconds=seconds_text, utc=time_text, words=words, breakable=breakable
    )
