"""The SQL of checksums in MySQL and MariaDB.

Texts are those of a SELECT, which `MysqlColumn.selected` reads, so equal texts are equal values. Types whose text is
not certain have none: JSON, geometries, and bits that are more than one.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake_cli.sources.checksum_sql import ChecksumSql
from cdclake_cli.sources.mysql.types import quoted_identifier, select_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_cli.sources.mysql.types import MysqlColumn

_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_FIXED_POINTS = range(-14, 16)
"""Places of the decimal point at which the server writes a double without an exponent: `my_gcvt` in `dtoa.c`."""


def column_text(column: MysqlColumn, name: str) -> str | None:
    """SQL of a column's canonical text; None if it has no exact one."""
    if column.kind in _NUMBERS or (column.kind == "bit" and column.length == 1):
        return f"{name} + 0"  # without the zeros of ZEROFILL
    if column.kind in {"float", "double"}:
        return select_expression(column)
    if column.kind in _TEXTS:
        return f"convert({name} using utf8mb4)"
    if column.kind in _BYTES:
        return f"lower(hex({name}))"
    if column.kind == "date":
        return f"nullif(cast({name} as char), '0000-00-00')"
    if column.kind in {"datetime", "timestamp"}:
        return f"nullif(date_format({name}, '%Y-%m-%d %H:%i:%s.%f'), '0000-00-00 00:00:00.000000')"
    return f"cast({name} as char)" if column.kind == "time" else None


def double_text(value: float) -> str:
    """A double as the server writes it, with the fewest digits that identify it.

    Example:
        >>> double_text(1e15), double_text(-1.5e-05)
        ('1e15', '-0.000015')
    """
    if not value or not isfinite(value):
        return "0" if value == 0 else repr(value)
    sign, numbers, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, numbers)), "-" if sign else ""
    point = len(digits) + int(exponent)
    if point not in _FIXED_POINTS:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{fraction}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    whole, rest = digits[:point].ljust(point, "0"), digits[point:]
    return f"{minus}{whole}.{rest}" if rest else f"{minus}{whole}"


def _double_texts(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else double_text(value) for value in values.to_pylist()], pa.string())


def _sized(text: str) -> str:
    # As bytes, so that texts of several collations can be joined.
    return f"ifnull(cast(concat(char_length({text}), ':', {text}) as binary), '-')"


def _ended(text: str) -> str:
    return f"ifnull(concat({text}, ','), '-,')"


def _joined(texts: Sequence[str]) -> str:
    return f"concat({', '.join(texts)})"


def _number(digest: str, digits: int) -> str:
    return f"cast(conv(left({digest}, {digits}), 16, 10) as unsigned)"


SQL = ChecksumSql(column_text, quoted_identifier, _sized, _ended, _joined, "md5({})".format, _number, _double_texts)
