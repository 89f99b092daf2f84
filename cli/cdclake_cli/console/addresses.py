"""Names of tables in the addresses of pages: `/tables/shop.orders`, one part of the path for each table."""

from __future__ import annotations

from werkzeug.routing import BaseConverter

from cdclake.model.table.name import TableName

CONVERTER = "table"
_ESCAPES = (("%", "%25"), (".", "%2E"))
"""Within schema and table, so that the dot between them is the only one."""
_PARTS = 2


class TableConverter(BaseConverter):
    """The part of an address that names a table. A page reads it with `table_of`, which may refuse it."""

    def to_url(self, value: object) -> str:
        """Format a `TableName`, or its text."""
        name = str(value)
        parts = name.split("/") if "/" in name else name.split(".", 1)
        return super().to_url(".".join(map(_escaped, parts)))


def table_of(part: str) -> TableName:
    """The table that a part of an address names.

    Raises:
        ConfigurationError: It is not a table name, or can be read as several.
    """
    parts = part.split(".")
    if len(parts) == _PARTS and all(parts):
        return TableName(*map(_unescaped, parts))
    return TableName.parse(part)


def _escaped(text: str) -> str:
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _unescaped(text: str) -> str:
    for character, escape in reversed(_ESCAPES):
        text = text.replace(escape, character)
    return text
