"""The columns of a generated table: parsed from text in the format of the attribute `Schema`, or random."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import to_arrow
from cdclake.model.schema import INTEGER_TYPES, parse_columns
from cdclake_cli.dms.files import CHAR_LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME = "time"
KEY_TYPES = ("int", "bigint", "string")
"""Types that a key column may have."""
_CHAR = re.compile(r"char\((\d+)\)")
_PART = re.compile(r",(?![^()]*\))")
_RANDOM_TYPES = (
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
class FeedColumn:
    """One column of the generated source.

    Attributes:
        name: Name at the source.
        type: A type of the attribute `Schema`, or `time`.
        stream: Random stream of the column's values; columns of the same stream have the same values.
        char_length: Length of a `CHAR(n)`; 0 for other columns.
        static: Whether updates keep the inserted value.
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


Columns = tuple[FeedColumn, ...]


def columns_from(text: str, primary_key: Sequence[str]) -> Columns:
    """Parse columns such as `id bigint, code char(6), name string, at time`.

    Every third column is static, unless it is a key column.

    Raises:
        ConfigurationError: The text is malformed, or a key column is missing or of an unsupported type.
    """
    lengths, parts = {}, []
    for part in _PART.split(text):
        name, _, kind = part.strip().partition(" ")
        kind = kind.strip().lower()
        char = _CHAR.fullmatch(kind)
        if char:
            lengths[name.strip("`").lower()] = int(char[1])
        parts.append((name, kind))
    # The lake has no time-of-day type and keeps these values as text.
    schema = parse_columns(", ".join(f"{name} {'string' if kind == TIME else kind}" for name, kind in parts))
    columns = []
    for i, (column, (_, kind)) in enumerate(zip(schema, parts, strict=True)):
        type_ = TIME if kind == TIME else column.type
        columns.append(FeedColumn(column.name, type_, i, lengths.get(column.name.lower(), 0), static=i % 3 == 1))
    _check_key(columns, primary_key)
    return tuple(replace(column, static=False) if column.name in primary_key else column for column in columns)


def random_columns(count: int, seed: int) -> str:
    """Columns of random types, as text: a key `id`, then `count` more."""
    rng = np.random.default_rng([seed, 0xC01])
    kinds = rng.choice(_RANDOM_TYPES, count)
    return ", ".join(["id bigint", *(f"c{i} {kind}" for i, kind in enumerate(kinds, 1))])


def _check_key(columns: Sequence[FeedColumn], primary_key: Sequence[str]) -> None:
    by_name = {column.name: column for column in columns}
    for name in primary_key:
        column = by_name.get(name)
        if column is None or column.type not in KEY_TYPES or column.char_length:
            message = f"'{name}' cannot be a key column of a feed"
            remedy = f"Name a column of the feed whose type is one of {', '.join(KEY_TYPES)}"
            raise ConfigurationError(message, remedy=remedy, column=name)


def schema_versions(columns: Columns, primary_key: Sequence[str], changes: int) -> list[Columns]:
    """The columns before the first schema change and after each one.

    The changes take turns: add a text column, widen an integer column, drop a text column.

    Raises:
        ConfigurationError: There is no column left to widen or to drop.
    """
    versions = [columns]
    for number in range(changes):
        current = versions[-1]
        free = [column for column in current if column.name not in primary_key and not column.static]
        if number % 3 == 0:
            added = FeedColumn(f"added_{number // 3 + 1}", "string", max(column.stream for column in current) + 1)
            versions.append((*current, added))
            continue
        replacement: list[FeedColumn] = []
        if number % 3 == 1:
            old = next((column for column in free if column.type in INTEGER_TYPES[:-1]), None)
            if old:
                replacement = [replace(old, type=INTEGER_TYPES[INTEGER_TYPES.index(old.type) + 1])]
        else:
            texts = (column for column in free if column.type == "string")
            old = next((column for column in texts if not column.name.startswith("added_")), None)
        if old is None:
            message = f"{changes} schema changes need integer columns to widen and text columns to drop"
            raise ConfigurationError(message, remedy="Ask for fewer, or give the feed more columns")
        versions.append(tuple(new for column in current for new in (replacement if column is old else [column])))
    return versions
