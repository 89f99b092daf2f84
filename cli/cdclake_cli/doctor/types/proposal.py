"""Proposes types, null text and key of a table whose CSV files have no types; verifies them on all sampled rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError, InputError
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.raw.reader import inspect_raw_file, read_raw
from cdclake.model.schema import ADDED_PREFIXES, OP_COLUMN, Column, Schema
from cdclake_cli.doctor.types.keys import likeliest
from cdclake_cli.doctor.types.known_types import candidates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.raw.rows import RawRows
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import CsvDialect, TableSettings
    from cdclake_cli.doctor.types.keys import KeyCandidate
    from cdclake_cli.doctor.types.known_types import KnownType
    from cdclake_cli.doctor.types.shapes import ColumnShapes, TypeStatistics

MAX_ROWS_PER_FILE = 200_000
_WHOLE_ROW = ""
_KEY_TYPES = ("bigint", "string")


@dataclass(frozen=True)
class ProposedColumn:
    """A column without a declared type.

    Attributes:
        type: The proposed type; `string` if no other holds all values.
        refused: Number of values that cdclake refuses as `likely`.
        likely: The type that was tried first: the known one, else the one that the values look like.
        source: What has the known type, in words; empty if none is known.
        shapes: What the values look like.
    """

    name: str
    type: str
    likely: str
    refused: int
    source: str
    shapes: ColumnShapes


@dataclass(frozen=True)
class Proposal:
    """Settings that give types to CSV files.

    Attributes:
        columns: The columns without a declared type.
        schema: All columns; empty if the files cannot be read with it, or have no rows.
        csv: How the files were read, with the text to take for null.
        keys: Candidates for the key, the likeliest first.
        rows: Number of rows that suggested the types.
        verified_rows: Number of rows whose values cdclake parsed as the proposed types.
        bad_values: Number of their values that it refused, in columns without a declared type.
        bad_rows: Number of rows with another number of fields.
    """

    columns: tuple[ProposedColumn, ...]
    schema: Schema
    csv: CsvDialect
    keys: tuple[KeyCandidate, ...]
    rows: int
    verified_rows: int
    bad_values: int
    bad_rows: int

    def null_like(self) -> dict[str, dict[str, int]]:
        """Texts that may stand for null, with the number of values by column; the most frequent first."""
        texts = Counter[str]()
        for column in self.columns:
            texts.update(column.shapes.null_like)
        return {
            text: {c.name: c.shapes.null_like[text] for c in self.columns if c.shapes.null_like[text]}
            for text, _ in texts.most_common()
        }


def propose_types(
    fs: FileSystem,
    files: Sequence[RawFile],
    names: Iterable[str],
    settings: TableSettings,
    declared: Schema,
    table: TableName,
    statistics: TypeStatistics,
    known: Mapping[str, KnownType],
    *,
    has_header: bool | None,
    null_declared: bool = False,
) -> Proposal | None:
    """Propose types for the columns of CSV files; None if no file has a column without one.

    Args:
        files: Files that can be read, of all formats.
        names: Columns of the CSV files.
        settings: How they were read.
        declared: Columns that the operator declares.
        statistics: Of the rows of CSV files.
        known: Types that other files or the lake table give to columns, by lowercase name. They go before what the
            values look like, because a table with two types of a column stops.
        has_header: Whether the files begin with a header line; None if that is unclear: nothing is proposed before.
        null_declared: Whether the operator declares the text for null, which then stays.
    """
    if not statistics.columns or has_header is None:
        return None
    types = {name: candidates(known.get(name.lower()), one.likely_type) for name, one in statistics.columns.items()}
    likely = {name: kinds[0] for name, kinds in types.items()}
    csv, first_refused = settings.csv, Counter[str]()
    if not null_declared:
        null_text = _null_text(statistics, likely, csv.null_value)
        csv = csv if null_text == csv.no_sup_value else replace(csv, null_value=null_text)
    needed = [name for name in names if _needed(name, declared)]
    while True:
        tried = _without_repeats(declared.find(name) or Column(name, types.get(name, ["string"])[0]) for name in needed)
        refused, nulls, verified = _refused(fs, files, replace(settings, schema=tried, csv=csv), table)
        if not verified and csv.add_column_name is None:  # only then a first line that may be names is no question
            csv = replace(csv, add_column_name=has_header)
            continue
        first_refused = first_refused or refused
        wrong = [name for name, kinds in types.items() if refused[name] and len(kinds) > 1]
        if not wrong:
            break
        for name in wrong:
            del types[name][0]
    columns = tuple(
        ProposedColumn(name, types[name][0], likely[name], first_refused[name], _source(known, name), shapes)
        for name, shapes in statistics.columns.items()
    )
    keys = statistics.keys(Schema(tuple(column for column in tried if not nulls[column.name])))
    simple = [name for name, kind in likely.items() if kind in _KEY_TYPES]
    return Proposal(
        columns,
        tried if verified else Schema(),
        csv,
        tuple(likeliest(keys, simple, list(statistics.columns))),
        statistics.rows,
        verified,
        sum(refused[name] for name in types),
        refused[_WHOLE_ROW],
    )


def _source(known: Mapping[str, KnownType], name: str) -> str:
    one = known.get(name.lower())
    return one.source if one else ""


def _needed(name: str, declared: Schema) -> bool:
    """Whether Schema must have a column: it lists those that DMS adds only in files without a header."""
    return (name != OP_COLUMN and not name.startswith(ADDED_PREFIXES)) or declared.find(name) is not None


def _without_repeats(columns: Iterable[Column]) -> Schema:
    names: dict[str, Column] = {}
    for column in columns:
        names.setdefault(column.name.lower(), column)
    return Schema(tuple(names.values()))


def _null_text(statistics: TypeStatistics, likely: dict[str, str], current: str) -> str:
    """The null text with which most columns have another type than text; the current one if no other has more.

    NaN is a value of a double.
    """
    columns = [shapes for name, shapes in statistics.columns.items() if likely[name] != "string"]
    gains = Counter[str]()
    for name, shapes in statistics.columns.items():
        texts = [text for text in shapes.null_like if likely[name] != "double" or text.strip().upper() != "NAN"]
        if likely[name] != "string" and len(texts) == 1:
            gains[texts[0]] += 1
    if not gains:
        return current
    rows = Counter[str]()
    for shapes in columns:
        rows.update(shapes.null_like)
    best = max(gains, key=lambda text: (gains[text], rows[text], text))
    lost = sum(1 for shapes in columns if shapes.null_texts)
    return best if gains[best] > lost else current


def _refused(
    fs: FileSystem, files: Sequence[RawFile], settings: TableSettings, table: TableName
) -> tuple[Counter[str], Counter[str], int]:
    """By column, values that are not of their type when cdclake reads them, and nulls; then the number of rows.

    No rows if the files cannot be read with these settings. Rows with another number of fields count as a value.
    """
    refused, nulls, rows = Counter[str](), Counter[str](), 0
    for file in files:
        for raw in _rows(fs, file, settings, table):
            if raw is None:
                return refused, nulls, 0
            rows += raw.columns.num_rows
            refused[_WHOLE_ROW] += len(raw.bad_rows)
            for name, values in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
                column = settings.schema.find(name) if settings.schema else None
                if column:
                    sent = _sent(values, settings.csv.no_sup_value) if file.format.is_text else values
                    typed, bad = cast_column(sent, column.type)
                    refused[column.name] += len(bad)
                    nulls[column.name] += typed.null_count - len(bad)
    return refused, nulls, rows


def _rows(fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName) -> Iterator[RawRows | None]:
    """Rows of a file; None if it cannot be read."""
    rows = 0
    try:
        for part in inspect_raw_file(fs, file, settings).parts:
            for raw in read_raw(fs, part, settings, table):
                yield raw
                rows += raw.columns.num_rows
                if rows >= MAX_ROWS_PER_FILE:
                    return
    except (ConfigurationError, InputError):
        yield None


def _sent(values: pa.Array, unsent: str | None) -> pa.Array:
    if unsent is None:
        return values
    return pc.if_else(pc.equal(values, unsent.encode()), pa.scalar(None, values.type), values)
