"""Reads values of a table's attributes. An invalid one is an error that names the attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from enum import Enum
from typing import Any, Callable, TypeVar

from cdclake.errors import ConfigurationError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import ATTRIBUTES, Attribute

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
Reader = Callable[[Mapping[str, str], str], T]
"""Returns the value of an attribute in an item; what `Declaration.default` means if the item has none."""

ATTRIBUTE = "attribute"
"""Key of a field's metadata: the attribute that it holds."""
READ = "read"
"""Key of a field's metadata: reads its value in an item."""
MOST_DIGITS = 18
"""Of a number: 64 bits hold it. Python refuses to read one of thousands of digits."""


def setting(attribute: str, read: Reader[T]) -> T:
    """A field of a dataclass, with the value of an attribute."""
    return field(default=read({}, attribute), metadata={ATTRIBUTE: attribute, READ: lambda item: read(item, attribute)})


def settings(read: Callable[[Mapping[str, str]], T]) -> T:
    """A field of a dataclass, with the values of several attributes."""
    return field(default=read({}), metadata={READ: read})


def read_fields(kind: type, item: Mapping[str, str]) -> dict[str, Any]:
    """The values of all fields of a dataclass whose fields are `setting` or `settings`.

    Raises:
        ConfigurationError: A value is invalid.
    """
    return {one.name: one.metadata[READ](item) for one in fields(kind)}


def whole_number(least: int = 0, most: int | None = None) -> Reader[int]:
    """Reads decimal digits."""

    def read(item: Mapping[str, str], attribute: str) -> int:
        text = text_or_default(item, attribute).strip()
        valid = text.isdecimal() and len(text) <= MOST_DIGITS
        if not valid or int(text) < least or (most is not None and int(text) > most):
            raise invalid(item, attribute, f"a whole number, {least} {'or more' if most is None else f'to {most}'}")
        return int(text)

    return read


def one_of(*values: str) -> Reader[str]:
    """Reads one of several values, in any case; empty if the attribute is not set and has no default."""

    def read(item: Mapping[str, str], attribute: str) -> str:
        text = (attribute_text(item, attribute) or ATTRIBUTES[attribute].default).lower()
        if text and text not in values:
            raise invalid(item, attribute, " or ".join(values))
        return text

    return read


def is_one(value: str, of: tuple[str, ...]) -> Reader[bool]:
    """Reads one of several values, and compares it."""
    return lambda item, attribute: one_of(*of)(item, attribute) == value


def member(kind: type[E]) -> Reader[E]:
    """Reads the value of a member of an enumeration."""
    return lambda item, attribute: kind(one_of(*(one.value for one in kind))(item, attribute))


def flag(item: Mapping[str, str], attribute: str) -> bool:
    """Read `true` or `false`."""
    text = text_or_default(item, attribute).strip().lower()
    if text not in {"true", "false"}:
        raise invalid(item, attribute, "true or false")
    return text == "true"


def attribute_text(item: Mapping[str, str], attribute: str) -> str:
    """The text of an attribute; empty if it is not set, or `null`."""
    text = item.get(attribute, Sentinel.NONE).strip()
    return "" if text == Sentinel.NONE else text


def text_or_default(item: Mapping[str, str], attribute: str) -> str:
    """The text of an attribute as it is; here `null` is a value."""
    return item.get(attribute, ATTRIBUTES[attribute].default)


def texts(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    """Texts that are separated by commas."""
    return tuple(text.strip() for text in attribute_text(item, attribute).split(",") if text.strip())


def columns(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    """Names of columns that are separated by commas, each once."""
    names = texts(item, attribute)
    if len({name.lower() for name in names}) != len(names):
        message = f"{attribute} names a column twice"
        raise ConfigurationError(message, remedy=f"Correct {attribute}", table=item.get(Attribute.PATH))
    return names


def invalid(item: Mapping[str, str], attribute: str, expected: str) -> ConfigurationError:
    """The error for a value that an attribute cannot have."""
    message = f"{attribute} is {item.get(attribute)!r}"
    return ConfigurationError(message, remedy=f"Set it to {expected}", table=item.get(Attribute.PATH))
