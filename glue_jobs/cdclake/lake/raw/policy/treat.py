"""Replaces or leaves out the values of columns with a rule, right after they are read. Nothing behind sees the others.

Both formats and both backends read here. A table without rules costs one comparison for each batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.cast import cast_column
from cdclake.lake.raw.formats import format_of
from cdclake.lake.raw.normalize import row_texts
from cdclake.lake.raw.rows import WITHOUT_CONTENT, BadRow, BadRowKind, RawRows
from cdclake.lake.storage.keys import number_text
from cdclake.lake.storage.types import from_arrow, has_fraction
from cdclake.model.schema import BEFORE_PREFIX, OP_COLUMN, UNTYPED, Schema
from cdclake.model.table.column_policy import is_excluded

if TYPE_CHECKING:
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.column_policy import ColumnPolicy, ColumnRule
    from cdclake.model.table.settings import TableSettings


def treated_columns(raw: pa.Schema, policy: ColumnPolicy) -> pa.Schema:
    """Columns of a raw file as they are after `treated`."""
    if not policy.rules:
        return raw
    fields = [(field, policy.rule_of(field.name)) for field in raw]
    return pa.schema(
        pa.field(field.name, pa.string()) if rule and from_arrow(field.type) else field  # lists have no text
        for field, rule in fields
        if not is_excluded(rule)
    )


def treated(raw: RawRows, file: RawFile, settings: TableSettings) -> RawRows:
    """Rows of a file as the lake may have them.

    A value that is none of its column's type makes its row bad, as in other columns. Of a bad row that does not split
    into columns, any part may be such a value, so nothing is kept.

    Raises:
        ConfigurationError: A column is to be hashed, and the secret is missing.
    """
    policy = settings.column_policy
    if not policy.rules:
        return raw
    columns: dict[str, pa.Array] = {}
    bad_cells: dict[int, dict[str, str]] = {}
    for name, values in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
        rule = None if name == OP_COLUMN else policy.rule_of(name)
        if rule is None:
            columns[name] = values
        elif not is_excluded(rule):
            kind = _kind_of(values.type, rule.column, file, settings)
            columns[name], bad = _treated_column(values, name, rule, kind, file, settings)
            expected = "UTF-8 text" if kind == "string" else f"a valid {kind}"
            for i in bad:
                bad_cells.setdefault(i, {})[name] = f"A value of column {name} is not {expected}"
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    bad_rows = [replace(bad, content="", reason=bad.reason + WITHOUT_CONTENT) for bad in raw.bad_rows]
    if not bad_cells:
        return RawRows(batch, raw.numbers, tuple(bad_rows))
    indices = sorted(bad_cells)
    contents = row_texts(batch.take(pa.array(indices, pa.int64())), file)
    for i, content in zip(indices, contents, strict=True):
        cells = bad_cells[i]
        reason = next(iter(cells.values()))
        number = int(raw.numbers[i])
        bad_rows.append(BadRow(file.relative, number, BadRowKind.VALUE, reason, content, tuple(cells)))
    good = np.ones(batch.num_rows, dtype=bool)
    good[indices] = False
    return RawRows(batch.filter(pa.array(good)), raw.numbers[good], tuple(bad_rows))


def treated_values(values: pa.Array, rule: ColumnRule, policy: ColumnPolicy) -> pa.Array:
    """Values of a lake type as text that the lake may have."""
    encoded = pc.dictionary_encode(values)  # values often repeat
    changed = [policy.changed(text, rule) for text in _texts(encoded.dictionary)]
    return pa.array(changed, pa.string()).take(encoded.indices)


def _treated_column(
    values: pa.Array, name: str, rule: ColumnRule, kind: str, file: RawFile, settings: TableSettings
) -> tuple[pa.Array, list[int]]:
    """The values of a column, and the indices of those that are none of its type."""
    if not file.format.is_text:
        cast, bad = cast_column(values, kind)
        return treated_values(cast, rule, settings.column_policy), bad
    form, dialect = format_of(file), settings.csv
    is_image = name.startswith(BEFORE_PREFIX)
    kept = form.without_image(values, dialect) if is_image else form.unsent(values, dialect)
    if kept is None:
        kept = pa.repeat(False, len(values))
    cast, bad = cast_column(pc.if_else(kept, pa.scalar(None, values.type), values), kind)
    result = treated_values(cast, rule, settings.column_policy).cast(pa.binary())
    return pc.if_else(kept, values, result), bad


def _kind_of(kind: pa.DataType, column: str, file: RawFile, settings: TableSettings) -> str:
    """The source's type: as the attribute Schema declares it, else as in the file. It determines a value's text."""
    declared = (settings.schema or Schema()).find(column)
    if declared:
        return declared.type
    found = None if file.format.is_text else from_arrow(kind)
    return "string" if found in (None, UNTYPED) else found


def _texts(values: pa.Array) -> list[str]:
    """Values without nulls as text: numbers without final zeros, bytes as hexadecimal digits, times in UTC."""
    if has_fraction(from_arrow(values.type) or ""):
        return [number_text(value) for value in values.to_pylist()]
    if pa.types.is_binary(values.type):
        return [value.hex() for value in values.to_pylist()]
    texts: list[str] = values.cast(pa.string()).to_pylist()
    return texts
