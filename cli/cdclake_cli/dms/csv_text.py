"""Formats Arrow columns as the CSV text that DMS writes, one column at a time.

With RFC 4180, a field that contains a quote, a newline or a delimiter is quoted and its quotes are doubled. A value
equal to the null text is quoted too: DMS does not document this case, and quoting loses nothing. Without RFC 4180, text
is copied unchanged. Bytes are hexadecimal digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake_cli.dms.settings import DmsSettings

_BATCH_ROWS = 1 << 14
_MAX_PLAIN_SCALE = 6
"""Arrow formats decimals of a larger scale with an exponent."""
_NON_TEXT_CHARACTERS = frozenset("0123456789+-.:eE truefalsinfn")
"""Characters in values of types other than text."""
_ADDED = ("AR_H_", "BI_")


def csv_text(table: pa.Table, settings: DmsSettings, unsent: Mapping[str, pa.Array] | None = None) -> bytes:
    """Rows as CSV, without a header line.

    Args:
        table: All columns of the file, in order.
        unsent: By column, a boolean mask of the rows whose value the source did not log.

    Returns:
        UTF-8 text; each row ends with the row delimiter.
    """
    return b"".join(joined_lines(lines, settings) for lines in csv_lines(table, settings, unsent))


def csv_lines(
    table: pa.Table, settings: DmsSettings, unsent: Mapping[str, pa.Array] | None = None
) -> Iterator[pa.Array]:
    """Rows as strings without row delimiters, in batches; the arguments are as for `csv_text`."""
    for start in range(0, table.num_rows, _BATCH_ROWS):
        part = table.slice(start, _BATCH_ROWS)
        masks = {name: mask.slice(start, _BATCH_ROWS) for name, mask in (unsent or {}).items()}
        columns = [
            _fields(column, name, settings, masks.get(name))
            for name, column in zip(table.column_names, part.columns, strict=True)
        ]
        yield pc.binary_join_element_wise(*columns, settings.csv_delimiter)


def joined_lines(lines: pa.Array, settings: DmsSettings) -> bytes:
    """Rows as UTF-8 text, each with its row delimiter."""
    whole = pa.ListArray.from_arrays([0, len(lines)], lines)
    text: bytes = pc.binary_join(whole, settings.csv_row_delimiter)[0].as_buffer().to_pybytes()
    return text + settings.csv_row_delimiter.encode() if len(lines) else b""


def csv_header(names: list[str], settings: DmsSettings) -> bytes:
    """The header line that `AddColumnName` adds."""
    table = pa.table({str(i): [name] for i, name in enumerate(names)})
    return csv_text(table, settings)


def _fields(column: pa.ChunkedArray, name: str, settings: DmsSettings, unsent: pa.Array | None) -> pa.Array:
    values = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    texts = value_texts(values)
    if settings.rfc4180 and _may_need_quotes(values.type, settings):
        texts = _quoted(texts, settings)
    # Columns that mapping rules add are empty instead of null, regardless of the null text.
    texts = pc.fill_null(texts, "" if name.startswith(_ADDED) else settings.csv_null_value)
    if unsent is not None and settings.unsent_text is not None:
        texts = pc.if_else(unsent, pa.scalar(settings.unsent_text, texts.type), texts)
    return texts


def _may_need_quotes(kind: pa.DataType, settings: DmsSettings) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    is_bytes = pa.types.is_binary(kind)  # hexadecimal digits, or empty, as the null text may be
    special = {*settings.csv_delimiter, *settings.csv_row_delimiter, *settings.csv_null_value[:1]}
    return is_text or is_bytes or bool(special & _NON_TEXT_CHARACTERS)


def _quoted(texts: pa.Array, settings: DmsSettings) -> pa.Array:
    special = f'["\r\n]|{re.escape(settings.csv_delimiter)}|{re.escape(settings.csv_row_delimiter)}'
    needed = pc.or_(pc.match_substring_regex(texts, special), pc.equal(texts, settings.csv_null_value))
    if not pc.any(needed).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


def value_texts(values: pa.Array) -> pa.Array:
    """Values as text, as DMS formats them in CSV; nulls stay null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return value_texts(values.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.timestamp("us")).cast(pa.string())
    if pa.types.is_time(kind):
        return values.cast(pa.time64("us")).cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string())
    if pa.types.is_decimal(kind) and kind.scale > _MAX_PLAIN_SCALE:
        return pa.array([None if value is None else f"{value:f}" for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())
