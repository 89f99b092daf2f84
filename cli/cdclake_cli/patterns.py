"""Patterns of table names, in arguments, in a file of tables, and in the catalogs of sources. Pure.

`*` matches any text, `?` any character, and `[ab]` one of them, as in a shell; each within schema or table.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from cdclake.model.table.name import TableName

EVERY = "*"
"""The pattern that matches every table."""


def is_pattern(text: str) -> bool:
    """Whether a text may match several tables."""
    return any(character in text for character in "*?[")


def parse_pattern(text: str) -> TableName:
    """The name or pattern that a text is; `*` alone is that of all tables.

    Raises:
        ConfigurationError: The text is neither.
    """
    return TableName.parse("*.*" if text == EVERY else text)


def matches(name: TableName, pattern: TableName) -> bool:
    """Whether a pattern matches a name: schema with schema, and table with table."""
    return fnmatchcase(name.schema, pattern.schema) and fnmatchcase(name.table, pattern.table)
