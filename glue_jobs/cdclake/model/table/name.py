"""The name of a table: schema and table of its source."""

from __future__ import annotations

from dataclasses import dataclass

from cdclake.errors import ConfigurationError
from cdclake.printable import shell_word

MAX_READINGS = 3
"""Of an ambiguous name, for its error."""


@dataclass(frozen=True, order=True)
class TableName:
    """Schema and table of the source database, which are folders, so that they contain no slash."""

    schema: str
    table: str

    def __str__(self) -> str:
        """`schema.table`; with a slash if schema or table contain a dot, so that no two tables have the same text."""
        separator = "/" if "." in self.schema + self.table else "."
        return f"{self.schema}{separator}{self.table}"

    @property
    def typed(self) -> str:
        """The name quoted for a shell, so that commands in remedies are safe to copy."""
        return shell_word(str(self))

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `schema.table` or `schema/table`; with further dots, only the latter is exact.

        Raises:
            ConfigurationError: It is neither, or can be read as the names of several tables.
        """
        separator = "/" if "/" in text else "."
        cuts = [place for place, character in enumerate(text) if character == separator]
        names = [cls(text[:cut], text[cut + 1 :]) for cut in cuts]
        names = [name for name in names if name.schema and name.table and "/" not in name.schema + name.table]
        if not names:
            message = f"'{text}' is not a table name"
            raise ConfigurationError(message, remedy="Write it as schema.table")
        if len(names) > 1:
            message = f"'{text}' can be the name of {len(names)} tables"
            listed = " or ".join(name.typed for name in names[:MAX_READINGS])
            more = " or ..." if len(names) > MAX_READINGS else ""
            raise ConfigurationError(message, remedy=f"Write schema/table with a slash: {listed}{more}")
        return names[0]
