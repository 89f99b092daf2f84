"""Reads the JSON that cdclake stores about a lake table, and refuses JSON of other versions and damaged JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from cdclake.errors import ConfigurationError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    T = TypeVar("T")

FORMAT = 1
"""Number of the format. It grows when an earlier version would misread what this one writes."""

_DAMAGE = (ValueError, TypeError, AttributeError, KeyError, EOFError, gzip.BadGzipFile, zlib.error)
_LOAD_AGAIN = (
    "If that cannot be done, delete the table's files in the lake bucket, run cdclake tables reset, then load it again"
)


class NewerFormatError(Exception):
    """The format is unknown, or a field is. Ignoring it could make a table wrong."""


@contextmanager
def reading(what: str, key: str) -> Iterator[None]:
    """Refuse an object, while it is parsed, with an error that names it.

    Args:
        what: What it is, in the error.
        key: Its key.

    Raises:
        ConfigurationError: A newer version of cdclake wrote it.
        IntegrityError: It is damaged, or lacks a field.
    """
    try:
        yield
    except NewerFormatError as error:
        message = f"A newer version of cdclake wrote a {what}, or one before the first release"
        remedy = f"Nothing was changed. Deploy the newer version, or a later one. {_LOAD_AGAIN}"
        raise ConfigurationError(message, remedy=remedy, file=key) from error
    except _DAMAGE as error:
        message = f"A {what} is damaged, or a version before the first release wrote it"
        remedy = f"Nothing was changed. Restore the object from the bucket's versions or a backup. {_LOAD_AGAIN}"
        raise IntegrityError(message, remedy=remedy, file=key) from error


def parse_stored(data: bytes, kind: type) -> dict[str, Any]:
    """Parse the JSON of a dataclass.

    Returns:
        Values by field, without the number of the format.

    Raises:
        NewerFormatError: The format or a field is unknown.
        ValueError: It is no such JSON, or lacks a field.
    """
    parsed = json.loads(data)
    if not isinstance(parsed, dict) or "format" not in parsed:
        raise ValueError("it is no JSON object with a format")
    if parsed.pop("format") != FORMAT:
        raise NewerFormatError
    check_fields(parsed, kind)
    return parsed


def check_fields(data: Mapping[str, Any], kind: type) -> None:
    """Check that JSON has the fields of a dataclass, no more and no less.

    Raises:
        NewerFormatError: It has others.
        ValueError: It lacks some.
    """
    names = {one.name for one in fields(kind)}
    if data.keys() - names:
        raise NewerFormatError
    if missing := names - data.keys():
        message = f"it lacks {', '.join(sorted(missing))}"
        raise ValueError(message)


def from_fields(kind: type[T], data: Mapping[str, Any]) -> T:
    """Make a dataclass of JSON.

    Raises:
        NewerFormatError: It has other fields.
        ValueError: It lacks some.
    """
    check_fields(data, kind)
    return kind(**data)
