"""Parses the messages of the output plugin `test_decoding`.

PostgreSQL's `contrib/test_decoding/test_decoding.c` determines their form:

    BEGIN 700
    table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 v[text]:'it''s'
    table public.a, public.b: TRUNCATE: (no-flags)
    COMMIT 700 (at 2024-03-05 12:00:00.123456+00)

Names are quoted as in SQL. A value is `null`, a number, `true`, `false`, a quoted text, bits `B'01'`, or
`unchanged-toast-datum`: a large value that the update did not change, and that is not in the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import NamedTuple

from cdclake.model.table.name import TableName

_IDENTIFIER = r'(?:"(?:[^"]|"")*"|[a-z_][a-z0-9_$]*)'
_QUALIFIED = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})")
_TABLES = re.compile(rf"table ({_QUALIFIED.pattern}(?:, {_QUALIFIED.pattern})*): ([A-Z]+):")
_VALUE = re.compile(
    rf""" ({_IDENTIFIER})\[((?:"(?:[^"]|"")*"|\[\]|[^"\[\]])*)\]:(?:(B?)'([^']*(?:''[^']*)*)'|([^' ]+))"""
)
_COMMIT = re.compile(r"COMMIT \d+ \(at (.+)\)")
_OPERATIONS = {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}
_UNCHANGED = "unchanged-toast-datum"
_NO_DATA = " (no-tuple-data)"
_OLD, _NEW = " old-key:", " new-tuple:"


class DecodedValue(NamedTuple):
    """A value of a decoded row.

    Attributes:
        kind: PostgreSQL's name of the type, without modifiers.
        text: The value as text; None for null.
        is_unchanged: Whether the value is not in the log because an update did not change it.
    """

    kind: str
    text: str | None
    is_unchanged: bool = False


DecodedTuple = dict[str, DecodedValue]
"""Values by column, in the table's order."""


@dataclass(frozen=True)
class DecodedRow:
    """A decoded row.

    Attributes:
        operation: `I`, `U` or `D`.
        new: The row after the operation; empty for a delete. Unchanged values that are not in the log come from
            `old` if it has them.
        old: The row before it, as far as it is in the log: the replica identity without nulls, for an update only if
            the identity changed or is the whole row. Empty for none.
    """

    table: TableName
    operation: str
    new: DecodedTuple = field(default_factory=dict)
    old: DecodedTuple = field(default_factory=dict)


class Truncate(NamedTuple):
    """Tables that one statement truncated."""

    tables: tuple[TableName, ...]


def parse_change(text: str) -> DecodedRow | Truncate:
    """Parse a message that begins with `table`.

    Raises:
        ValueError: The message is not of this form.
    """
    head = _TABLES.match(text)
    if head is None:
        message = f"unknown message {text[:80]!r}"
        raise ValueError(message)
    tables = tuple(TableName(_unquoted(schema), _unquoted(name)) for schema, name in _QUALIFIED.findall(head[1]))
    operation, position = head.groups()[-1], head.end()
    if operation == "TRUNCATE":
        return Truncate(tables)
    old: DecodedTuple = {}
    if text.startswith(_OLD, position):
        old, position = _parse_tuple(text, position + len(_OLD))
        if not text.startswith(_NEW, position):
            message = f"a row without its new values in {text[:80]!r}"
            raise ValueError(message)
        position += len(_NEW)
    values, position = ({}, len(text)) if text[position:] == _NO_DATA else _parse_tuple(text, position)
    if position != len(text) or operation not in _OPERATIONS:
        message = f"unknown content at character {position + 1} of {text[:80]!r}"
        raise ValueError(message)
    if operation == "DELETE":
        return DecodedRow(tables[0], "D", {}, values)
    new = {name: old.get(name, value) if value.is_unchanged else value for name, value in values.items()}
    return DecodedRow(tables[0], _OPERATIONS[operation], new, old)


def commit_time(text: str) -> datetime | None:
    """The UTC time of a message that begins with `COMMIT`; None for other messages.

    Raises:
        ValueError: The message has no time.
    """
    if not text.startswith("COMMIT"):
        return None
    match = _COMMIT.fullmatch(text)
    if match is None:
        message = f"unknown message {text[:80]!r}"
        raise ValueError(message)
    return datetime.fromisoformat(match[1]).astimezone(timezone.utc)


def _parse_tuple(text: str, position: int) -> tuple[DecodedTuple, int]:
    """The values from a position on, and the position after them."""
    values: DecodedTuple = {}
    while (match := _VALUE.match(text, position)) is not None:
        name, kind, _, quoted, plain = match.groups()
        if quoted is not None:
            value = DecodedValue(kind, quoted.replace("''", "'"))
        elif plain == _UNCHANGED:
            value = DecodedValue(kind, None, is_unchanged=True)
        else:
            value = DecodedValue(kind, None if plain == "null" else plain)
        values[_unquoted(name)] = value
        position = match.end()
    return values, position


def _unquoted(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier
