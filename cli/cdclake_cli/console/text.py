"""Formats figures, sizes and times for the pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from cdclake.control.status import delay_text
from cdclake.model.times import display_stored, duration_text
from cdclake.printable import printable
from cdclake_cli.printing.cost import cents_text

if TYPE_CHECKING:
    from datetime import datetime

    from flask import Flask

    from cdclake.control.status import TableStatus

_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_KILO = 1000
_BREAKS = re.compile(r"([._/-])")
NONE = "–"  # noqa: RUF001 - a dash for a missing value


def count_text(value: int | None) -> str:
    """A whole number with grouped digits; a dash for None."""
    return NONE if value is None else f"{value:,}"


def bytes_text(value: int) -> str:
    """A size in the largest decimal unit that fits.

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
    """A duration in its two largest units; a dash for None."""
    return NONE if seconds is None else duration_text(seconds)


def status_delay(status: TableStatus) -> str:
    """The delays of a table's last day; a dash if there are none."""
    return delay_text(status) or NONE


def time_text(utc: str) -> str:
    """A stored time as `2026-11-22 10:15:00 UTC`; a dash for an empty text."""
    return display_stored(utc) or NONE


def age_text(then: datetime, now: datetime) -> str:
    """How long ago something was, such as `4.2 s ago`."""
    return f"{duration_text(max((now - then).total_seconds(), 0.0))} ago"


def words(name: str) -> str:
    """A name from the code, with spaces."""
    return name.replace("_", " ")


def breakable(text: str) -> Markup:
    """A long name that browsers may break after dots, dashes, slashes and underscores."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(text))))


def shown(value: object) -> object:
    """What a template prints, without characters that a browser would not show, or that would turn text around."""
    if isinstance(value, jinja2.Undefined):
        return value
    text = printable(str(value), keep="\n\t")
    return Markup(text) if isinstance(value, Markup) else text


def add_filters(app: Flask) -> None:
    """Add these functions as template filters."""
    app.jinja_env.filters.update(
        count=count_text,
        size=bytes_text,
        seconds=seconds_text,
        delay=status_delay,
        utc=time_text,
        age=age_text,
        cents=cents_text,
        words=words,
        breakable=breakable,
    )
