"""What a file of tables says: settings of all its tables, and of those that a name or pattern matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.patterns import name_of, parse_pattern, pattern_of, tables_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cdclake.model.table.name import TableName

Settings = Mapping[str, str]
"""Attributes and their values, as in the state table."""


@dataclass(frozen=True)
class Config:
    """A file of tables.

    Attributes:
        defaults: Settings of each table that a name or pattern matches.
        tables: Settings by the name of a table, or by a pattern such as `shop.*`, in the order of the file.
    """

    defaults: Settings = field(default_factory=dict)
    tables: Mapping[str, Settings] = field(default_factory=dict)

    def settings_of(self, name: TableName) -> dict[str, str] | None:
        """The settings of a table, if it is the only one; None if neither a name nor a pattern matches it."""
        return self.settings(self.chosen({name})).get(name)

    def settings(self, chosen: Mapping[str, Sequence[TableName]]) -> dict[TableName, dict[str, str]]:
        """The settings of each table that a name or pattern matches.

        Of several values of an attribute, the one below the table's own name counts, else that of the last pattern in
        the file that matches the table, else the default.

        Args:
            chosen: See `chosen`.
        """
        patterns = {key: parse_pattern(key) for key in self.tables}
        own = {key for key, pattern in patterns.items() if name_of(pattern) or pattern in chosen[key]}
        found: dict[TableName, dict[str, str]] = {}
        for key in sorted(self.tables, key=own.__contains__):  # which keeps their order otherwise
            for name in chosen[key]:
                found.setdefault(name, dict(self.defaults)).update(self.tables[key])
        return found

    def chosen(self, names: Collection[TableName]) -> dict[str, list[TableName]]:
        """The tables that each name or pattern stands for.

        Raises:
            ConfigurationError: Some stand for tables in two ways; names them all.
        """
        found: dict[str, list[TableName]] = {}
        mistakes: list[ConfigurationError] = []
        for key in self.tables:
            try:
                found[key] = tables_of(parse_pattern(key), names)
            except ConfigurationError as error:
                mistakes.append(error)
        if len(mistakes) > 1:
            message = "; ".join(error.message for error in mistakes)
            raise ConfigurationError(message, remedy=mistakes[0].remedy)
        if mistakes:
            raise mistakes[0]
        return found

    @cached_property
    def named(self) -> tuple[TableName, ...]:
        """The tables that the file names, and no pattern."""
        return tuple(name for name in (name_of(parse_pattern(key)) for key in self.tables) if name)


def key_of(name: TableName) -> str:
    """The key of the file that matches this table alone."""
    return str(pattern_of(name))
