"""Names and patterns of tables, in arguments, in a file of tables, and in the catalogs of sources. Pure.

In a pattern `*` matches any text, `?` any character, and `[ab]` one of them, as in a shell; each within schema or
table. `[*]`, `[?]` and `[[]` are these characters themselves.

A text is the table whose name it is, if there is one, else a pattern. Names with brackets could be both: if tables of
both meanings exist, the text is refused.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake.printable import shell_word

if TYPE_CHECKING:
    from collections.abc import Collection

EVERY = "*"
"""The pattern that matches every table."""
_SPECIAL = re.compile(r"([*?\[])")
_ESCAPED = re.compile(r"\[([*?\[])\]")


def is_pattern(text: str) -> bool:
    """Whether a text may match several tables."""
    return _SPECIAL.search(text) is not None


def parse_pattern(text: str) -> TableName:
    """The name or pattern that a text is; `*` alone is that of all tables.

    Raises:
        ConfigurationError: The text is neither.
    """
    return TableName.parse("*.*" if text == EVERY else text)


def literal(text: str) -> str:
    """A pattern that matches this text alone."""
    return _SPECIAL.sub(r"[\1]", text)


def pattern_of(name: TableName) -> TableName:
    """A pattern that matches this table alone."""
    return TableName(literal(name.schema), literal(name.table))


def name_of(pattern: TableName) -> TableName | None:
    """The only name that a pattern matches; None if it matches others, too."""
    if is_pattern(_ESCAPED.sub("", pattern.schema) + " " + _ESCAPED.sub("", pattern.table)):
        return None
    return TableName(_ESCAPED.sub(r"\1", pattern.schema), _ESCAPED.sub(r"\1", pattern.table))


def matches(name: TableName, pattern: TableName) -> bool:
    """Whether a pattern matches a name: schema with schema, and table with table."""
    return fnmatchcase(name.schema, pattern.schema) and fnmatchcase(name.table, pattern.table)


def tables_of(pattern: TableName, names: Collection[TableName]) -> list[TableName]:
    """The tables that a name or pattern stands for.

    Args:
        names: The tables that there are, such that it is quick to find one.

    Raises:
        ConfigurationError: It is the name of a table, and as a pattern it matches others.
    """
    only = name_of(pattern)
    if only:
        return [only] if only in names else []
    found = [name for name in names if matches(name, pattern)]
    if pattern not in names or pattern in found:
        return found
    if not found:
        return [pattern]
    message = f"'{pattern}' is the name of a table, and as a pattern it matches {found[0]}"
    exact = shell_word(str(pattern_of(pattern)))
    raise ConfigurationError(message, remedy=f"Write {exact} for the one, and {found[0].typed} for the other")
