"""Values of lake tables and databases, in a form in which they can be compared.

Reads the lake as any reader would: it lists the table's folder and opens every Parquet file with pyarrow. Nothing of
cdclake is used here: the judge must not share its assumptions.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

NUMBER, FLOAT, BOOLEAN, TEXT, BYTES = "number", "float", "boolean", "text", "bytes"
DATE, TIMESTAMP, TIME = "date", "timestamp", "time"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone are UTC
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


@dataclass(frozen=True)
class Column:
    """A column as the database knows it.

    Attributes:
        kind: What its values mean.
        pad: Length to which DMS pads its texts, if it pads.
        declared: Its type in SQL.
    """

    name: str
    kind: str
    pad: int = 0
    declared: str = ""


@dataclass(frozen=True)
class Reading:
    """How raw files wrote the values of a history.

    Attributes:
        as_text: Whether columns may have arrived as text, because CSV has no types.
        milliseconds: Whether times were cut to milliseconds.
        padded: Whether CHAR was padded.
    """

    as_text: bool
    milliseconds: bool
    padded: bool


def expected(column: Column, value: Any, reading: Reading) -> Any:
    """A database's value as the lake must have it."""
    if value is None:
        return None
    if column.kind == TIMESTAMP and reading.milliseconds:
        microseconds = (value - _EPOCH) // timedelta(microseconds=1)
        rest = abs(microseconds) % 1000  # cut toward the epoch, as pyarrow does
        return value - timedelta(microseconds=rest if microseconds > 0 else -rest)
    if column.kind == TEXT and column.pad and reading.padded:
        return value.ljust(column.pad)
    return _bits(value) if column.kind == FLOAT else value


def actual(column: Column, value: Any, reading: Reading) -> Any:
    """A lake's value.

    Raises:
        ValueError: It has another type than the database's value.
    """
    if value is None:
        return None
    if isinstance(value, str) and column.kind not in {TEXT, TIME}:
        if not reading.as_text:
            message = f"column {column.name} is text in the lake, {column.kind} in the database"
            raise ValueError(message)
        value = _parsed(column.kind, value)
        if column.declared == "real":
            value = single(value)
    if column.kind == TIME:
        return duration(value)
    if column.kind == TIMESTAMP:
        return value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    types = {NUMBER: (int, Decimal), FLOAT: (float,), BOOLEAN: (bool,), TEXT: (str,), BYTES: (bytes,), DATE: (date,)}
    if not isinstance(value, types[column.kind]) or (column.kind == NUMBER and isinstance(value, bool)):
        message = f"column {column.name} is {type(value).__name__} in the lake, {column.kind} in the database"
        raise ValueError(message)
    return _bits(value) if isinstance(value, float) else value


def _parsed(kind: str, text: str) -> Any:
    """A value that arrived in CSV, in a column that nobody declared."""
    if kind == NUMBER:
        return Decimal(text)
    if kind == FLOAT:
        return float(text)
    if kind == BOOLEAN:
        return {"true": True, "false": False}[text]
    if kind == BYTES:
        return bytes.fromhex(text)
    if kind == DATE:
        return date.fromisoformat(text)
    return timestamp(text.removesuffix("Z"))


def timestamp(text: str) -> datetime:
    """A time such as `2024-03-05 10:00:00.5`."""
    whole, _, fraction = text.partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0")))


def single(value: float) -> float:
    """A number as a float of four bytes has it."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def duration(text: str) -> timedelta:
    """A time such as `-101:02:03.5`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction = match.groups()
    value = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    value += timedelta(microseconds=int((fraction or "0").ljust(6, "0")))
    return -value if sign else value


def _bits(value: float) -> bytes:
    """Tells 0.0 from -0.0, and equals itself for NaN."""
    return struct.pack(">d", value) if value == value else b"NaN"


def lake_rows(folder: Path, columns: Sequence[Column], reading: Reading) -> list[tuple[Any, ...]]:
    """The rows of a lake table without soft-deleted ones, or the newest versions of the rows in a history.

    They are null in columns that the table does not have.

    Args:
        folder: The table's folder; its Parquet files, in folders `column=value`, are the table.
    """
    rows: list[tuple[Any, ...]] = []
    for path in sorted(folder.rglob("*.parquet")):
        data = pq.ParquetFile(path).read()
        partition = dict(part.split("=", 1) for part in path.relative_to(folder).parts[:-1])
        fixed = {
            unquote(name).lower(): None if text == _HIVE_NULL else unquote(text) for name, text in partition.items()
        }
        by_name = {name.lower(): data.column(i).to_pylist() for i, name in enumerate(data.column_names)}
        operations = by_name.get("operation", by_name.get("op", ["I"] * data.num_rows))
        newest = by_name.get("validity_flag", [1] * data.num_rows)
        live = [flag == 1 and name not in {"D", "delete"} for flag, name in zip(newest, operations, strict=True)]
        found = [_lake_column(column, by_name, fixed, data.num_rows, reading) for column in columns]
        rows += [row for row, is_live in zip(zip(*found, strict=True), live, strict=True) if is_live]
    return rows


def _lake_column(
    column: Column, by_name: dict[str, list[Any]], fixed: dict[str, str | None], count: int, reading: Reading
) -> list[Any]:
    name = column.name.lower()
    if name in fixed:
        text = fixed[name]
        value = text if text is None or column.kind == TEXT else _parsed(column.kind, text)
        return [actual(column, value, reading)] * count
    return [actual(column, value, reading) for value in by_name.get(name, [None] * count)]


def differences(columns: Sequence[Column], lake: Iterable[tuple[Any, ...]], database: Iterable[tuple[Any, ...]]) -> str:
    """Rows that only one of both has, in words; nothing if they are equal."""
    ours, theirs = Counter(lake), Counter(database)
    lines = [f"only in the lake: {row}" for row in (ours - theirs).elements()]
    lines += [f"only in the database: {row}" for row in (theirs - ours).elements()]
    return "\n".join([f"columns {[column.name for column in columns]}", *lines]) if lines else ""
