"""What a file of tables says: settings of all its tables, and of those that a name or pattern matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cdclake.model.table.name import TableName
from cdclake_cli.patterns import is_pattern, matches, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPECIAL = re.compile(r"([*?\[])")
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
        """The settings of a table; None if neither a name nor a pattern matches it.

        Of several values of an attribute, the one below the table's own name counts, else that of the last pattern in
        the file that matches the table, else the default.
        """
        found = [settings for pattern, settings in self._patterns if matches(name, pattern)]
        if name in self.named:
            found.append(self.named[name])
        if not found:
            return None
        merged = dict(self.defaults)
        for settings in found:
            merged.update(settings)
        return merged

    def unused(self, names: Iterable[TableName]) -> tuple[str, ...]:
        """The patterns that match none of these tables."""
        known = set(names)
        patterns = {key: parse_pattern(key) for key in self.tables if is_pattern(key)}
        return tuple(
            key
            for key, pattern in patterns.items()
            if pattern not in known and not any(matches(name, pattern) for name in known)
        )

    @cached_property
    def named(self) -> dict[TableName, Settings]:
        """The settings by names that may be a table's own."""
        return {parse_pattern(key): settings for key, settings in self.tables.items()}

    @cached_property
    def _patterns(self) -> list[tuple[TableName, Settings]]:
        return [(parse_pattern(key), settings) for key, settings in self.tables.items() if is_pattern(key)]


def key_of(name: TableName) -> str:
    """The key of the file that matches this table alone."""
    return str(TableName(literal(name.schema), literal(name.table)))


def literal(text: str) -> str:
    """A pattern that matches this text alone."""
    return _SPECIAL.sub(r"[\1]", text)
