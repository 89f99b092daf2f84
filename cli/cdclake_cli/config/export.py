"""Makes a file of tables from the tables as they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import ATTRIBUTES, Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.config.model import Config, key_of
from cdclake_cli.config.vocabulary import CONFIGURABLE, READERS, same_value
from cdclake_cli.patterns import literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.table.state import TableState

_SHARED = tuple(name for name in CONFIGURABLE if not ATTRIBUTES[name].names_columns and name != Attribute.ACTIVE_FLAG)
"""What a default or a pattern of an exported file may set, and so of new tables, too. Their keys and whether runs work
on them is for a person to decide, table by table."""


def exported(states: Iterable[TableState]) -> tuple[Config, list[ConfigurationError]]:
    """The file that says what is set, in few lines, and an error for each value that is invalid and so left out.

    Each table has its name in it. A default or the pattern of a schema sets what is shorter that way.
    """
    ordered = sorted(states, key=lambda state: state.name)
    invalid: list[ConfigurationError] = []
    defaults: dict[str, str] = {}
    patterns: dict[str, dict[str, str]] = defaultdict(dict)
    tables: dict[TableName, dict[str, str]] = {state.name: {} for state in ordered}
    for attribute in CONFIGURABLE:
        unset = _unset(attribute)
        values = {state.name: _text(attribute, state, unset, invalid) for state in ordered}
        may_share = attribute in _SHARED and None not in values.values()
        default = _shortest(values.values(), unset) if may_share else unset
        if default is not None and default != unset:
            defaults[attribute] = default
        for schema in dict.fromkeys(name.schema for name in values):
            below = {name: value for name, value in values.items() if name.schema == schema}
            common = _shortest(below.values(), default) if may_share else default
            if common is not None and common != default:
                patterns[str(TableName(literal(schema), "*"))][attribute] = common
            for name, value in below.items():
                if value is not None and value != common:
                    tables[name][attribute] = value
    named = {key_of(name): settings for name, settings in tables.items()}
    return Config(defaults, {**patterns, **named}), invalid


def _text(attribute: str, state: TableState, unset: str | None, invalid: list[ConfigurationError]) -> str | None:
    """What the file says of a table's attribute: its value or that it is not set; None if it can say nothing."""
    try:
        READERS[attribute](state.item)
    except ConfigurationError as error:
        invalid.append(error)
        return None
    return unset if same_value(attribute, state.item, {}) else state.item[attribute]


def _unset(attribute: str) -> str | None:
    """The text that means the same as an attribute that is not set; None if there is none."""
    texts = (ATTRIBUTES[attribute].default, Sentinel.NONE)
    return next((text for text in texts if text and same_value(attribute, {attribute: text}, {})), None)


def _shortest(values: Iterable[str | None], inherited: str | None) -> str | None:
    """The value to write for all, if then fewer lines are needed for the others; else the inherited one."""
    counts = Counter(values)
    common, tables = max(counts.items(), key=itemgetter(1), default=(inherited, 0))
    return common if 1 + counts.total() - tables < counts.total() - counts[inherited] else inherited
