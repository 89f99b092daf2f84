"""The attributes that a file of tables may set. All follows from their declarations and types."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cdclake.errors import ConfigurationError
from cdclake.model.table.attributes import ATTRIBUTES, Attribute, attributes_that
from cdclake.model.table.settings import CsvDialect, TableSettings
from cdclake.model.table.values import ATTRIBUTE, READ, flag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONFIGURABLE = attributes_that(lambda declared: declared.configures)

READERS: dict[str, Callable[[Mapping[str, str]], Any]] = {
    **{
        one.metadata[ATTRIBUTE]: one.metadata[READ]
        for kind in (TableSettings, CsvDialect)
        for one in fields(kind)
        if ATTRIBUTE in one.metadata
    },
    Attribute.ACTIVE_FLAG: lambda item: flag(item, Attribute.ACTIVE_FLAG),
}
"""Reads the value of each attribute in an item, as the jobs do."""


def same_value(attribute: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether an attribute means the same in two items, as `id, name` and `id,name` do, or no text and the default."""
    if one.get(attribute) == other.get(attribute):
        return True
    try:
        return bool(READERS[attribute](one) == READERS[attribute](other))
    except ConfigurationError:  # one of them is invalid, so they do not mean the same
        return False


def default_text(attribute: str) -> str:
    """What people see as the value of an attribute that is not set."""
    default = ATTRIBUTES[attribute].default
    return f"{default} (default)" if default else ""


def choices(attribute: str) -> tuple[str, ...]:
    """All values that an attribute can have, if its error lists them; else none."""
    try:
        READERS[attribute]({attribute: "?"})
    except ConfigurationError as error:
        values = tuple(error.remedy.removeprefix("Set it to ").split(" or "))
        return values if all(_is_valid(attribute, value) for value in values) else ()
    return ()


def is_number(attribute: str) -> bool:
    """Whether the values of an attribute are whole numbers."""
    return type(READERS[attribute]({})) is int


def _is_valid(attribute: str, value: str) -> bool:
    try:
        READERS[attribute]({attribute: value})
    except ConfigurationError:
        return False
    return True
