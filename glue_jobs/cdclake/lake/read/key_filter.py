"""Parses the keys that a user names, and finds their rows in data files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.keys import (
    KEY,
    LEADING_KEY,
    convert_keys,
    has_usable_bounds,
    matches,
    may_contain,
    row_keys,
)
from cdclake.lake.storage.reader import batches_of
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import BEFORE_PREFIX, MAX_DECIMAL_PRECISION
from cdclake.model.snapshot import TombstoneFile
from cdclake.model.table.column_policy import NO_RULES, Action, ColumnPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.lake.storage.partitions import Partition
    from cdclake.lake.storage.reader import RowGroupFilter
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import DataFile

_WORD = r"(?<![0-9A-Za-z_]){}(?![0-9A-Za-z_])"
_VALUE = re.compile(r"[0-9A-Za-z.:+-]+")
"""Characters of a value that is neither text nor binary. A timestamp may consist of two such words."""
_QUOTED = re.compile(r'"([^"]*)"')
_SEPARATORS = re.compile(r"(?<=\d)[ ,'\u00a0\u202f](?=\d{3}(?!\d))")
_NOT_UTF8 = re.compile(r"\\x[0-9a-f]{2}")
"""A byte that is not UTF-8, in a text of a bad row."""
_BINARY = "binary"
_EXAMPLE = '{"id": 5, "region": "EU"}'


@dataclass(frozen=True)
class RowKeys:
    """Keys of rows.

    Attributes:
        names: The key columns, in the order of the table's primary key.
        values: For each key, the values of these columns as text.
        written: The same as the user wrote them, if the table has their hashes; else empty.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    written: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @classmethod
    def parse(
        cls, texts: Sequence[str], primary_key: Sequence[str], schema: Schema, policy: ColumnPolicy = NO_RULES
    ) -> RowKeys:
        """Parse keys as a user writes them.

        Args:
            texts: Each is the value of a single-column key, or a JSON object that maps column names to values. Binary
                values are hexadecimal digits.
            primary_key: The table's key columns. If empty, the objects may name any columns, but all the same ones.
            policy: The table's. Of columns that it hashes, the values are the source's, as the text that is hashed.

        Raises:
            ConfigurationError: A text names other columns, or a value does not fit its column's type.
        """
        objects = [_object(text, primary_key) for text in texts]
        names = schema.spelled(primary_key or objects[0])
        by_lower = {name.lower(): name for name in names}
        values = []
        for key in objects:
            lower_key = {name.lower(): value for name, value in key.items()}
            if lower_key.keys() != by_lower.keys() or len(lower_key) != len(key):
                message = f"A key names the columns {', '.join(key)} instead of {', '.join(names)}"
                raise ConfigurationError(message, remedy="Write a value for each key column, and for no other column")
            values.append(tuple(lower_key[name.lower()] for name in names))
        keys = cls(names, tuple(dict.fromkeys(values))).as_in_lake(policy)
        keys._check(schema)
        return keys

    def as_in_lake(self, policy: ColumnPolicy) -> RowKeys:
        """The keys as a table with this policy has them.

        Raises:
            ConfigurationError: They name a column with another rule than a hash, or the secret is missing.
        """
        rules = [policy.find(name) for name in self.names]
        if not any(rules):
            return self
        lost = next((rule for rule in rules if rule and rule.action is not Action.HASH), None)
        if lost:  # other rows have the same text
            message = f"A key names {lost.column}, whose values the lake does not tell apart: '{lost}'"
            raise ConfigurationError(message, remedy="Name other columns")
        hashed = (
            tuple(policy.changed(text, rule) if rule else text for text, rule in zip(key, rules, strict=True))
            for key in self.values
        )
        return RowKeys(self.names, tuple(hashed), self.values)

    def _check(self, schema: Schema) -> None:
        for i, name in enumerate(self.names):
            column = schema.find(name)
            if column is None:
                message = f"The table has no column {name}"
                raise ConfigurationError(message, remedy=f"Its columns are {', '.join(schema.names)}")
            if invalid := self._cast(i, column.type).null_count:
                message = f"{invalid} keys have a value that does not fit column {name}, whose type is {column.type}"
                remedy = "Write the values as they are in the table, binary values as hexadecimal digits"
                raise ConfigurationError(message, remedy=remedy)

    def _cast(self, i: int, kind: str) -> pa.Array:
        return _cast([value[i] for value in self.values], kind)

    def typed(self, schema: Schema) -> list[pa.Array]:
        """The key columns, in the types of the table's columns."""
        columns = (schema.find(name) for name in self.names)
        return [self._cast(i, column.type if column else "string") for i, column in enumerate(columns)]

    def by_column(self, schema: Schema) -> list[dict[str, Any]]:
        """The values of each key by column, in the column's type. A value stays text if no column has it."""
        typed = (values.to_pylist() for values in self.typed(schema))
        return [dict(zip(self.names, key, strict=True)) for key in zip(*typed, strict=True)]

    def filter_for(self, shape: TableShape) -> KeyFilter | None:
        """A filter for files of a shape; None if their rows cannot have any of the keys.

        Args:
            shape: Shape of the files. Its own primary key does not matter.
        """
        columns = [shape.schema.find(name) for name in self.names]
        cast = [self._cast(i, column.type) for i, column in enumerate(columns) if column]
        if len(cast) < len(self.names):
            return None
        valid = reduce(pc.and_, (values.is_valid() for values in cast))
        if not pc.any(valid).as_py():
            return None
        leading_keys, keys = row_keys([values.filter(valid) for values in cast])
        shape_of_keys = replace(shape, primary_key=self.names, leading=None)
        return KeyFilter(shape_of_keys, leading_keys, keys, has_bounds=shape.leading_columns == self.names)

    def appear_in(self, text: str, schema: Schema) -> bool:
        """Whether all values of at least one key are words of a text, in any notation of their types."""
        kinds = [column.type for name in self.names if (column := schema.find(name))]
        typed = zip(*(self._cast(i, kind).to_pylist() for i, kind in enumerate(kinds)), strict=True)
        values_in_text = [_values_in(text, kind) for kind in kinds]
        return any(
            all(
                value in values_in_text[i]
                or _is_word_of(text, self.values[k][i], kinds[i])
                or (self.written and _is_word_of(text, self.written[k][i], kinds[i]))
                for i, value in enumerate(values)
            )
            for k, values in enumerate(typed)
        )

    def match_texts(self, row: Mapping[str, str | None], schema: Schema) -> bool | None:
        """Whether a row of texts has one of the keys, now or before its change; None if its key cannot be read."""
        by_lower = {name.lower(): value for name, value in row.items()}
        texts = [by_lower.get(name.lower()) for name in self.names]
        before = [by_lower.get((BEFORE_PREFIX + name).lower()) for name in self.names]
        keys = [texts, [old or new for old, new in zip(before, texts, strict=True)]] if any(before) else [texts]
        kinds = [column.type if (column := schema.find(name)) else "string" for name in self.names]
        found = [_is_key(values, key, kinds) for values in self.values for key in keys]
        return True if True in found else None if None in found else False


@dataclass(frozen=True)
class KeyFilter:
    """Selects the rows of some keys from files of one shape.

    Attributes:
        shape: The shape, with the columns of the keys as its primary key.
        leading_keys: The same, as they sort.
        keys: The keys, as `cdclake.lake.storage.keys.row_keys` encodes them.
        has_bounds: Whether the key bounds of files are bounds of the same columns.
    """

    shape: TableShape
    leading_keys: pa.Array
    keys: pa.Array
    has_bounds: bool

    def may_match(self, file: DataFile | TombstoneFile) -> bool:
        """Whether a file may contain one of the keys, according to its bounds."""
        if not self.has_bounds or file.key_min is None or file.key_max is None:
            return True
        if isinstance(file, TombstoneFile) and not has_usable_bounds(file, self.shape.key_types):
            return True
        return any(may_contain(file, value, value) for value in self.leading_keys.to_pylist())

    def mask(self, rows: pa.Table, partition: Partition) -> pa.ChunkedArray | pa.Array:
        """For each row, whether it has one of the keys; never null.

        Args:
            rows: Rows of a data file, with at least the key columns stored in it.
        """
        return matches(self.shape.key_of(rows, partition), self.keys)

    def tombstone_mask(self, file: TombstoneFile, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """The same for the rows of a file of tombstones. A file with keys of other columns has none."""
        types = self.shape.key_types
        if len(before := file.key_types or types) != len(types):
            return pa.repeat(False, rows.num_rows)
        _, keys = convert_keys(rows[LEADING_KEY].combine_chunks(), rows[KEY].combine_chunks(), before, types)
        return matches(keys, self.keys)

    def count(self, source: pa.NativeFile, partition: Partition) -> int:
        """Number of rows of an open data file that have one of the keys. Reads as few columns and groups as it can."""
        columns = self.shape.key_columns_stored() or self.shape.stored.names[:1]
        return sum(
            pc.sum(self.mask(rows, partition)).as_py() or 0
            for rows in batches_of(source, self.shape, columns, row_groups=self._row_group_filter)
        )

    def last_position(self, source: pa.NativeFile, file: DataFile) -> str:
        """Greatest position of a row of an open data file that has one of the keys; empty if there is none."""
        columns = [*self.shape.key_columns_stored(), POSITION]
        groups, loaded = self._row_group_filter, file.counts_as_loaded
        batches = batches_of(source, self.shape, columns, row_groups=groups, loaded=loaded)
        positions = (pc.max(rows[POSITION].filter(self.mask(rows, file.partition))).as_py() for rows in batches)
        return max(filter(None, positions), default="")

    def matching_rows(self, source: pa.NativeFile, shape: TableShape, file: DataFile) -> Iterator[pa.Table]:
        """The rows of an open data file that have one of the keys, with the shape's columns and types."""
        for rows in batches_of(source, shape, row_groups=self._row_group_filter, loaded=file.counts_as_loaded):
            matching = rows.filter(self.mask(rows, file.partition))
            if matching.num_rows:
                yield matching

    def other_rows(self, source: pa.NativeFile, shape: TableShape, partition: Partition) -> Iterator[pa.Table]:
        """All other rows of an open data file, as they are, with the shape's columns and types, in parts."""
        for rows in batches_of(source, shape):
            yield rows.filter(pc.invert(self.mask(rows, partition)))

    @property
    def _row_group_filter(self) -> RowGroupFilter | None:
        return row_group_filter(self.shape, pa.table({LEADING_KEY: self.leading_keys}))


def _cast(texts: Sequence[str], kind: str) -> pa.Array:
    """Convert texts to values of a lake type; null for a text that does not fit it."""
    if kind == _BINARY:
        return pa.array(map(_from_hexadecimal, texts), pa.binary())
    return cast_column(pa.array(texts, pa.string()), kind)[0]


def _from_hexadecimal(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _binary_texts(hexadecimal: str) -> tuple[str, ...]:
    """Texts that may represent a binary value in a row of texts: hexadecimal digits, or the text of a CSV file."""
    value = bytes.fromhex(hexadecimal)
    return value.hex(), value.hex().upper(), value.decode("utf-8", "backslashreplace")


def _is_key(values: Sequence[str], texts: Sequence[str | None], kinds: Sequence[str]) -> bool | None:
    """Whether texts are the values of a key; None if that is unknown, because a text is not a value of its column."""
    found = [_equal(*one) for one in zip(values, texts, kinds, strict=True)]
    return False if False in found else None if None in found else True


def _equal(value: str, text: str | None, kind: str) -> bool | None:
    if text is None:
        return None
    if kind == _BINARY:
        return text in _binary_texts(value)
    if text in _spellings(value):
        return True
    if kind == "string":
        return None if _NOT_UTF8.search(text) else False
    first, second = _cast([value, text], kind).to_pylist()
    if second is None:
        return True if _number(value) in _numbers(text) else None
    return bool(first == second)


def _spellings(value: str) -> set[str]:
    """How a text may be written in a row that was not parsed: quoted, or in Latin-1 instead of UTF-8."""
    latin = (value.encode(code, "replace").decode("utf-8", "backslashreplace") for code in ("latin-1", "cp1252"))
    return {value, value.replace('"', '""'), value.replace('"', '\\"'), *latin}


def _numbers(text: str) -> set[Decimal]:
    """The numbers that a text may stand for: `5e0`, and `1,042` with separators of thousands."""
    return {number for form in (text, _SEPARATORS.sub("", text)) if (number := _number(form)) is not None}


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _is_word_of(text: str, value: str, kind: str) -> bool:
    forms = _binary_texts(value) if kind == _BINARY else _spellings(value)
    return any(re.search(_WORD.format(re.escape(form)), text) for form in forms)


def _values_in(text: str, kind: str) -> set[object]:
    """Values of a type among the words of a text. Empty for text and binary types, which any part of a text fits."""
    if kind in {"string", _BINARY}:
        return set()
    words = _VALUE.findall(text)
    numbers = (number for word in (*words, *_QUOTED.findall(text)) for number in _numbers(word))
    plain = (format(one, "f") for one in numbers if one.is_finite() and abs(one.adjusted()) <= MAX_DECIMAL_PRECISION)
    return {*_cast([*words, *map(" ".join, pairwise(words)), *plain], kind).to_pylist()} - {None}


def _object(text: str, primary_key: Sequence[str]) -> dict[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = "A key is not valid UTF-8"
        raise ConfigurationError(message, remedy="Write it in UTF-8, binary values as hexadecimal digits") from error
    if not text.lstrip().startswith("{"):
        if len(primary_key) == 1:
            return {primary_key[0]: text}
        columns = f"key consists of {', '.join(primary_key)}" if primary_key else "table has no key"
        message = f"A single value does not identify a row, because the {columns}"
        raise ConfigurationError(message, remedy=f"Write each key as a JSON object, such as {_EXAMPLE}")
    try:
        key = json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        message = "A key starts like a JSON object but is not valid JSON"
        raise ConfigurationError(message, remedy=f"Write it as {_EXAMPLE}", reason=error.msg) from error
    if not key or any(isinstance(value, (dict, list)) or value is None for value in key.values()):
        message = "A key lacks a column's value, or a value is null, a list or an object"
        raise ConfigurationError(message, remedy=f"Write it as {_EXAMPLE}")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in key.items()}
