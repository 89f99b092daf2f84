"""Keys of rows that a person names: as he writes them, and as data files hold them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.keys import matches, may_contain, row_keys
from cdclake.lake.storage.reader import batches_of
from cdclake.lake.storage.types import cast_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.lake.storage.partitions import Partition
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import DataFile, TombstoneFile

_WORD = r"(?<![0-9A-Za-z_]){}(?![0-9A-Za-z_])"
_VALUE = re.compile(r"[0-9A-Za-z.:+-]+")
"""What a value that is neither text nor bytes is written with; a timestamp may be two of these."""
_BINARY = "binary"


@dataclass(frozen=True)
class RowKeys:
    """Keys of rows.

    Attributes:
        names: The columns, in the order of the table's primary key.
        values: For each key the values of these columns as text.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, texts: Sequence[str], primary_key: Sequence[str], schema: Schema) -> RowKeys:
        """Read keys as a person writes them.

        Args:
            texts: Each is the value of a key of one column, or a JSON object of column names and values. Binary values
                are in hexadecimal digits.
            primary_key: The table's key columns. If it has none, the object may name any columns, all texts the same.
            schema: The table's columns.

        Raises:
            ConfigurationError: A text names other columns, or a value is not of its column's type.
        """
        objects = [_object(text, primary_key) for text in texts]
        names = tuple(primary_key) or tuple(objects[0])
        by_lower = {name.lower(): name for name in names}
        values = []
        for given in objects:
            found = {name.lower(): value for name, value in given.items()}
            if found.keys() != by_lower.keys() or len(found) != len(given):
                message = f"A key names the columns {', '.join(given)}, and not {', '.join(names)}"
                raise ConfigurationError(message, remedy="Write a value for each of these columns, and no other")
            values.append(tuple(found[name.lower()] for name in names))
        keys = cls(names, tuple(dict.fromkeys(values)))
        keys._check(schema)
        return keys

    def _check(self, schema: Schema) -> None:
        for i, name in enumerate(self.names):
            column = schema.find(name)
            if column is None:
                message = f"The table has no column {name}"
                raise ConfigurationError(message, remedy=f"Its columns are {', '.join(schema.names)}")
            if unfit := self._cast(i, column.type).null_count:
                message = f"{unfit} keys have a value that is not of the type of column {name}: {column.type}"
                remedy = "Write the values as they are in the table, binary ones in hexadecimal digits"
                raise ConfigurationError(message, remedy=remedy)

    def _cast(self, i: int, kind: str) -> pa.Array:
        return _cast([value[i] for value in self.values], kind)

    def wanted(self, shape: TableShape) -> KeyFilter | None:
        """What to look for in files of a shape; None if no row of theirs can have one of the keys.

        Args:
            shape: Its own key does not count.
        """
        columns = [shape.schema.find(name) for name in self.names]
        cast = [self._cast(i, column.type) for i, column in enumerate(columns) if column]
        if len(cast) < len(self.names):
            return None
        fit = reduce(pc.and_, (values.is_valid() for values in cast))
        if not pc.any(fit).as_py():
            return None
        routes, keys = row_keys([values.filter(fit) for values in cast])
        return KeyFilter(replace(shape, primary_key=self.names), routes, keys, shape.primary_key[:1] == self.names[:1])

    def are_in_words_of(self, text: str, schema: Schema) -> bool:
        """Whether some key's values are all among the words of a text, in whatever way they are written there.

        Args:
            schema: The table's columns.
        """
        kinds = [column.type for name in self.names if (column := schema.find(name))]
        typed = zip(*(self._cast(i, kind).to_pylist() for i, kind in enumerate(kinds)), strict=True)
        said = [_values_in(text, kind) for kind in kinds]
        return any(
            all(
                value in said[i] or _is_word_of(text, self.values[k][i], kinds[i])  # as a value, or as it was written
                for i, value in enumerate(values)
            )
            for k, values in enumerate(typed)
        )

    def match_texts(self, row: Mapping[str, str | None], schema: Schema) -> bool:
        """Whether a row of which only texts are known has one of the keys, by value or, if that is none, by text."""
        by_lower = {name.lower(): value for name, value in row.items()}
        return any(
            all(
                self._same(name, value, by_lower.get(name.lower()), schema)
                for name, value in zip(self.names, values, strict=True)
            )
            for values in self.values
        )

    @staticmethod
    def _same(name: str, value: str, text: str | None, schema: Schema) -> bool:
        column = schema.find(name)
        if text is None or column is None or text == value:
            return text == value
        if column.type == _BINARY:
            return text in _binary_texts(value)
        first, second = _cast([value, text], column.type).to_pylist()
        return first is not None and first == second


@dataclass(frozen=True)
class KeyFilter:
    """Keys as the files of one shape hold them.

    Attributes:
        shape: The shape, with the columns of the keys for its primary key.
        routes: Values of the first of these columns, one for each key.
        keys: The keys, as `cdclake.lake.storage.keys.row_keys` gives them.
        are_bounded: Whether the bounds of files are those of the same first column.
    """

    shape: TableShape
    routes: pa.Array
    keys: pa.Array
    are_bounded: bool

    def may_be_in(self, file: DataFile | TombstoneFile) -> bool:
        """Whether a file may hold one of the keys, by its bounds."""
        if not self.are_bounded or file.key_min is None or file.key_max is None:
            return True
        return any(may_contain(file, route, route) for route in self.routes.to_pylist())

    def are(self, rows: pa.Table, partition: Partition) -> pa.ChunkedArray | pa.Array:
        """Which rows have one of the keys; true or false, never null.

        Args:
            rows: Rows of a data file, with at least the key columns stored in it.
            partition: Partition of the file.
        """
        _, found = self.shape.keys_of(rows, partition)
        return matches(found, self.keys)

    def are_tombstones(self, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        """The same of the keys of tombstones, which may have been written when a key column had another type."""
        return matches(keys.cast(pa.string()), self.keys.cast(pa.string()))

    def count(self, source: pa.NativeFile, partition: Partition) -> int:
        """How many rows of an open data file have one of the keys. Reads no more than it must."""
        columns = self.shape.key_columns_stored() or self.shape.stored.names[:1]
        chosen = row_group_filter(self.shape, self.keys, pa.chunked_array([self.routes]))
        return sum(
            pc.sum(self.are(rows, partition)).as_py() or 0
            for rows in batches_of(source, self.shape, columns, row_groups=chosen)
        )

    def rows(self, source: pa.NativeFile, shape: TableShape, partition: Partition) -> Iterator[pa.Table]:
        """The rows of an open data file that have one of the keys, as a table of the shape has them."""
        chosen = row_group_filter(self.shape, self.keys, pa.chunked_array([self.routes]))
        for rows in batches_of(source, shape, row_groups=chosen):
            found = rows.filter(self.are(rows, partition))
            if found.num_rows:
                yield found

    def left(self, source: pa.NativeFile, shape: TableShape, partition: Partition) -> Iterator[pa.Table]:
        """All other rows of an open data file, as a table of the shape has them, a row group at a time."""
        for rows in batches_of(source, shape):
            yield rows.filter(pc.invert(self.are(rows, partition)))


def _cast(texts: Sequence[str], kind: str) -> pa.Array:
    """Texts as values of a lake type; null where a text is none."""
    if kind == _BINARY:
        return pa.array(map(_from_hexadecimal, texts), pa.binary())
    return cast_column(pa.array(texts, pa.string()), kind)[0]


def _from_hexadecimal(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _binary_texts(hexadecimal: str) -> tuple[str, ...]:
    """How a binary value may stand in a row of which only texts are known: as digits, or as the text of a CSV file."""
    value = bytes.fromhex(hexadecimal)
    return value.hex(), value.hex().upper(), value.decode("utf-8", "backslashreplace")


def _is_word_of(text: str, value: str, kind: str) -> bool:
    forms = _binary_texts(value) if kind == _BINARY else (value,)
    return any(re.search(_WORD.format(re.escape(form)), text) for form in forms)


def _values_in(text: str, kind: str) -> set[object]:
    """Values of a type among the words of a text; none of text or bytes, of which any part may be one."""
    if kind in {"string", _BINARY}:
        return set()
    words = _VALUE.findall(text)
    return {*_cast([*words, *map(" ".join, pairwise(words))], kind).to_pylist()} - {None}


def _object(text: str, primary_key: Sequence[str]) -> dict[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = "A key is not written in UTF-8"
        raise ConfigurationError(message, remedy="Write it in UTF-8; binary values in hexadecimal digits") from error
    if not text.lstrip().startswith("{"):
        if len(primary_key) == 1:
            return {primary_key[0]: text}
        columns = ", ".join(primary_key) or "no column"
        message = f"The table's key is {columns}, so one value does not name a row"
        remedy = 'Write each key as a JSON object, such as {"id": 5, "region": "EU"}'
        raise ConfigurationError(message, remedy=remedy)
    try:
        found = json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        message = "A key begins like a JSON object and is none"
        raise ConfigurationError(message, remedy='Write it as {"id": 5, "region": "EU"}', reason=error.msg) from error
    if not found or any(isinstance(value, (dict, list)) or value is None for value in found.values()):
        message = "A key has no value for a column, or one that is not a single value"
        raise ConfigurationError(message, remedy='Write it as {"id": 5, "region": "EU"}')
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}
