"""Compares a lake table with its source: row count, unique keys, and one checksum over all values.

The checksum does not depend on row order. Each value becomes text (`_canonical`). A row's text joins its values, each
after its length, so that different rows have different texts, or `-` for NULL. The checksum is the sum of the first 128
bits of the rows' SHA-256 hashes, modulo 2^128. It is a sum, not an exclusive or, so that a duplicate row does not
cancel out.

The lake is read as any reader would read it: every object in the table's folder, with partition columns from the folder
names.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.errors import IntegrityError
from cdclake.model import position
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.schema import OP_COLUMN
from cdclake_devkit.shop.data import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.layout import LakeLayout
    from cdclake.ports import ObjectReader, ObjectStore

ADDED_COLUMNS = frozenset({OP_COLUMN, TIMESTAMP_COLUMN, position.COLUMN})
"""Columns of a lake table that are not in the source."""

_CHECKSUM_BYTES = 16


@dataclass(frozen=True)
class ChecksumComparison:
    """Result of comparing a lake table with its source.

    Attributes:
        differences: All differences, in words; empty if the tables are equal.
    """

    rows: int
    source_rows: int
    checksum: str
    source_checksum: str
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether the lake table equals its source."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return {"equal": self.equal, **asdict(self), "differences": list(self.differences)}


def checksum(rows: pa.Table) -> str:
    """The checksum of the module docstring, as 32 hex digits. It depends on the order of columns, not of rows."""
    values = [_framed(_canonical(column)) for column in rows.columns]
    texts = pc.binary_join_element_wise(*values, "")
    hashes = (sha256(text.encode()).digest()[:_CHECKSUM_BYTES] for text in texts.to_pylist())
    total = sum(int.from_bytes(digest, "big") for digest in hashes)
    return f"{total % (1 << 8 * _CHECKSUM_BYTES):0{2 * _CHECKSUM_BYTES}x}"


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text: times as microseconds since 1970, others as Arrow formats them (numbers in shortest form)."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return column.cast(pa.string())


def _framed(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":"), "-")


def compare_checksums(lake: pa.Table, source: pa.Table, key: str) -> ChecksumComparison:
    """Compare a lake table with its source.

    Args:
        lake: All rows of the lake table, with or without `ADDED_COLUMNS`.
    """
    differences = _column_differences(lake.schema, source.schema)
    comparable = lake.select(source.column_names) if set(source.column_names) <= set(lake.column_names) else None
    lake_sum = checksum(comparable) if comparable is not None else ""
    source_sum = checksum(source)
    if lake.num_rows != source.num_rows:
        differences.append(f"{lake.num_rows} rows in the lake, {source.num_rows} in the source")
    if comparable is not None:
        repeated = lake.num_rows - pc.count_distinct(lake[key], mode="all").as_py()
        if repeated:
            differences.append(f"{repeated} rows repeat a key")
    if lake_sum != source_sum:
        differences.append("checksums differ")
    return ChecksumComparison(lake.num_rows, source.num_rows, lake_sum, source_sum, tuple(differences))


def _column_differences(lake: pa.Schema, source: pa.Schema) -> list[str]:
    differences = [f"column {name} is missing" for name in source.names if name not in lake.names]
    surplus = [name for name in lake.names if name not in source.names and name not in ADDED_COLUMNS]
    differences += [f"column {name} is not in the source" for name in surplus]
    for field in source:
        if field.name in lake.names:
            lake_type = _plain_type(lake.field(field.name).type)
            if lake_type != _plain_type(field.type):
                differences.append(f"column {field.name} is {lake_type} in the lake, {field.type} in the source")
    return differences


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without details that do not affect values: time zone label, offset width."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit)
    return pa.string() if pa.types.is_large_string(kind) else kind


def read_lake(store: ObjectStore, layout: LakeLayout, columns: pa.Schema) -> pa.Table:
    """All rows of a lake table, from a listing of its folder.

    Args:
        store: The lake bucket.
        columns: The source's columns, for the types of partition columns.

    Raises:
        IntegrityError: The folder contains an object that is not a data file.
    """
    parts = []
    for key in lake_files(store, layout):
        data = store.get(key)
        if data is None:
            raise IntegrityError("A data file vanished during the check", remedy="Run the check again", file=key)
        table = pq.read_table(pa.BufferReader(data), partitioning=None)
        for name, value in partition_values(key[len(layout.table_prefix) :]):
            kind = columns.field(name).type if name in columns.names else pa.string()
            scalar = pa.scalar(value, pa.string()).cast(kind)
            table = table.append_column(name, pa.repeat(scalar, table.num_rows))
        parts.append(table)
    return pa.concat_tables(parts, promote_options="default") if parts else columns.empty_table()


def lake_files(store: ObjectReader, layout: LakeLayout) -> list[str]:
    """Keys of a lake table's data files.

    Raises:
        IntegrityError: The folder contains an object that is not a data file.
    """
    keys = [stored.key for stored in store.list(layout.table_prefix)]
    foreign = [key for key in keys if not key.endswith(".parquet")]
    if foreign:
        message = f"The lake table's folder contains {len(foreign)} objects that are not data files"
        raise IntegrityError(message, remedy="Find out who wrote them", table=layout.name, file=foreign[0])
    return keys


def partition_values(path: str) -> Iterable[tuple[str, str | None]]:
    """Partition columns and values in a data file's path, which is relative to the table's folder.

    Example:
        >>> list(partition_values("day=2024-03-05/shop=a%2Fb/000000000001-00000.parquet"))
        [('day', '2024-03-05'), ('shop', 'a/b')]
    """
    for folder in path.split("/")[:-1]:
        name, _, value = folder.partition("=")
        yield unquote(name), None if value == HIVE_NULL_PARTITION else unquote(value)
