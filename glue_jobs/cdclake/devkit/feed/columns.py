"""The columns of a made-up table: given as text, as people write a table's `Schema`, or drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.devkit.dms.files import CHAR_LENGTH
from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import to_arrow
from cdclake.model.schema import INTEGER_TYPES, parse_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME = "time"
KEY_TYPES = ("int", "bigint", "string")
"""Types that a key column may have."""
_CHAR = re.compile(r"char\((\d+)\)")
_PART = re.compile(r",(?![^()]*\))")
_DRAWN_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(9,0)",
    "decimal(18,4)",
    "date",
    "timestamp",
    TIME,
    "string",
    "string",
    "char(4)",
)


@dataclass(frozen=True)
class Column:
    """One column of the made-up source.

    Attributes:
        name: As the source spells it.
        type: A type as of `Schema`, or `time`.
        stream: Tells the column's values from those of others; columns of the same stream have the same values.
        char_length: Of a `CHAR(n)`; 0 for other columns.
        static: Whether updates leave the value as it was inserted.
    """

    name: str
    type: str
    stream: int
    char_length: int = 0
    static: bool = False

    @property
    def field(self) -> pa.Field:
        """The column as DMS writes it."""
        kind = pa.time64("us") if self.type == TIME else to_arrow(self.type)
        metadata = {CHAR_LENGTH: str(self.char_length)} if self.char_length else None
        return pa.field(self.name, kind, metadata=metadata)


def columns_from(text: str, primary_key: Sequence[str]) -> tuple[Column, ...]:
    """Read `id bigint, code char(6), name string, at time`.

    Every third column that is no key is static.

    Raises:
        ConfigurationError: Not so written, or the key is not among them or of a type that a key cannot have here.
    """
    lengths, parts = {}, []
    for part in _PART.split(text):
        name, _, kind = part.strip().partition(" ")
        kind = kind.strip().lower()
        char = _CHAR.fullmatch(kind)
        if char:
            lengths[name.strip("`").lower()] = int(char[1])
        parts.append((name, kind))
    # A time of day is no type of the lake, which keeps it as text.
    schema = parse_columns(", ".join(f"{name} {'string' if kind == TIME else kind}" for name, kind in parts))
    columns = []
    for i, (column, (_, kind)) in enumerate(zip(schema, parts, strict=True)):
        type_ = TIME if kind == TIME else column.type
        columns.append(Column(column.name, type_, i, lengths.get(column.name.lower(), 0), static=i % 3 == 1))
    _check_key(columns, primary_key)
    return tuple(replace(column, static=False) if column.name in primary_key else column for column in columns)


def drawn_columns(count: int, seed: int) -> str:
    """Columns of any types, as text: a key `id`, then `count` more."""
    dice = np.random.default_rng([seed, 0xC01])
    kinds = dice.choice(_DRAWN_TYPES, count)
    return ", ".join(["id bigint", *(f"c{i} {kind}" for i, kind in enumerate(kinds, 1))])


def _check_key(columns: Sequence[Column], primary_key: Sequence[str]) -> None:
    by_name = {column.name: column for column in columns}
    for name in primary_key:
        column = by_name.get(name)
        if column is None or column.type not in KEY_TYPES or column.char_length:
            message = f"'{name}' cannot be a key column of a feed"
            remedy = f"Name a column of the feed that is of type {', '.join(KEY_TYPES)}"
            raise ConfigurationError(message, remedy=remedy, column=name)


def schema_versions(columns: Sequence[Column], primary_key: Sequence[str], changes: int) -> list[tuple[Column, ...]]:
    """The columns before and after each of some schema changes.

    In turn a text column is added, an integer that can be is widened, and a text column is dropped.

    Raises:
        ConfigurationError: There is no column left to widen or to drop.
    """
    versions = [tuple(columns)]
    for number in range(changes):
        now = versions[-1]
        free = [column for column in now if column.name not in primary_key and not column.static]
        if number % 3 == 0:
            added = Column(f"added_{number // 3 + 1}", "string", max(column.stream for column in now) + 1)
            versions.append((*now, added))
            continue
        if number % 3 == 1:
            found = [column for column in free if column.type in INTEGER_TYPES[:-1]]
            made = [replace(found[0], type=INTEGER_TYPES[INTEGER_TYPES.index(found[0].type) + 1])] if found else []
        else:
            found = [column for column in free if column.type == "string" and not column.name.startswith("added_")]
            made = []
        if not found:
            message = f"{changes} schema changes need integer columns to widen and text columns to drop"
            raise ConfigurationError(message, remedy="Ask for fewer, or give the feed more columns")
        versions.append(tuple(one for column in now for one in (made if column is found[0] else [column])))
    return versions
