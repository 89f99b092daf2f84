"""The SQL of checksums in PostgreSQL.

Texts are those of a SELECT, which `PostgresColumn.selected` reads, or have a digit for each digit of it, so equal texts
are equal values. What is null in the lake, such as an infinite date, has no text. Types whose text is not certain have
none: money, times with a zone, and composites.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake_cli.sources.checksum_sql import ChecksumSql
from cdclake_cli.sources.postgres.source_tables import quoted_identifier
from cdclake_cli.sources.postgres.types import UNBOUNDED

if TYPE_CHECKING:
    from cdclake_cli.sources.postgres.types import PostgresColumn

_PLAIN = frozenset({"smallint", "integer", "bigint", "oid", "text", "character varying"})
_WITHOUT_TEXT = frozenset({"money", "time with time zone"})
_FLOATS = {"real": "float4send", "double precision": "float8send"}
_TIME = "HH24:MI:SS.US"


def column_text(column: PostgresColumn, name: str) -> str | None:
    """SQL of a column's canonical text; None if it has no exact one."""
    kind = column.kind
    if kind in _WITHOUT_TEXT or column.is_composite:
        return None
    if kind in _PLAIN:
        return f"{name}::text"
    if kind in _FLOATS:
        return f"encode({_FLOATS[kind]}({name}), 'hex')"
    if kind == "numeric":
        if not pa.types.is_decimal(column.arrow_type):
            return f"{name}::text"
        number = name if column.precision else f"round({name}, {UNBOUNDED[1]})"
        return f"nullif({number}, 'NaN')::text"
    if kind == "boolean":
        return f"{name}::int::text" if column.mapping.boolean_as_boolean else f"{name}::text"
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    if kind == "character":
        return f"rtrim({name}::text, ' ')"
    if kind == "date":
        return f"case when {name} between '0001-01-01' and '9999-12-31' then {name}::text end"
    if kind == "time without time zone":
        return f"case when {name} < '24:00' then to_char({name}::interval, '{_TIME}') end"
    if kind == "timestamp without time zone":
        return _timestamp_text(name)
    if kind == "timestamp with time zone":
        return _timestamp_text(f"({name} at time zone 'UTC')")
    # As the server sends a value: a cast to text has another form for some types, such as inet.
    return f"case when {name} is not null then format('%s', {name}) end"


def _timestamp_text(value: str) -> str:
    years = f"{value} between '0001-01-01' and '9999-12-31 23:59:59.999999'"
    return f"case when {years} then to_char({value}, 'YYYY-MM-DD {_TIME}') end"


def _float_bits(values: pa.Array) -> pa.Array:
    """The bits of each number, as hexadecimal digits."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    data = numbers.astype(numbers.dtype.newbyteorder(">")).tobytes().hex()
    digits = numbers.dtype.itemsize * 2
    texts = (data[start : start + digits] for start in range(0, len(data), digits))
    return pa.array(
        [text if valid else None for text, valid in zip(texts, values.is_valid().to_pylist(), strict=True)], pa.string()
    )


def _sized(text: str) -> str:
    return f"coalesce(char_length({text})::text || ':' || {text}, '-')"


def _ended(text: str) -> str:
    return f"coalesce({text} || ',', '-,')"


def _md5(text: str) -> str:
    return f"md5(convert_to({text}, 'UTF8'))"


def _number(digest: str, digits: int) -> str:
    return f"('x' || left({digest}, {digits}))::bit({digits * 4})::bigint"


SQL = ChecksumSql(column_text, quoted_identifier, _sized, _ended, " || ".join, _md5, _number, _float_bits)
