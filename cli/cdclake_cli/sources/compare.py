"""Compares a lake table with its source, every value of every row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model import position
from cdclake.model.schema import INTEGER_TYPES, OP_COLUMN, decimal_parts
from cdclake_cli.comparing.match import match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake_cli.comparing.match import Matched

MAX_EXAMPLES = 5
"""Maximum number of example rows per kind of difference."""
MAX_NAMED = 1000
"""Maximum number of rows per kind of difference whose keys are kept."""
_MAX_CHARACTERS = 60


@dataclass(frozen=True)
class Example:
    """A row that differs.

    Attributes:
        kind: Kind of difference.
        row: The row's key and its differing values, in words.
        key: The key's values by column, as JSON has them; without a key, all values.
    """

    kind: str
    row: str
    key: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind}: {self.row}"


@dataclass(frozen=True)
class RowComparison:
    """Result of comparing a lake table with its source.

    Attributes:
        rows: Number of rows in the lake.
        source_rows: Number of rows in the source.
        missing: Number of source rows whose key is not in the lake.
        surplus: Number of lake rows whose key is not in the source.
        repeated: Number of rows whose key occurs in an earlier row of the same table.
        different: Number of rows with the same key and different values.
        columns: Differences between the columns, in words.
        named: Up to `MAX_NAMED` differing rows of each kind.
    """

    rows: int
    source_rows: int
    missing: int
    surplus: int
    repeated: int
    different: int
    columns: tuple[str, ...]
    named: tuple[Example, ...]

    @property
    def equal(self) -> bool:
        """Whether the tables are equal, apart from the order of rows."""
        return not (self.differing_rows or self.columns)

    @property
    def differing_rows(self) -> int:
        """Number of rows that differ in any way."""
        return self.missing + self.surplus + self.repeated + self.different

    @property
    def examples(self) -> tuple[Example, ...]:
        """Up to `MAX_EXAMPLES` differing rows of each kind."""
        return _first_of_each_kind(self.named, MAX_EXAMPLES)

    @property
    def differences(self) -> tuple[str, ...]:
        """All differences, in words; empty if the tables are equal."""
        counts = [(name, getattr(self, name)) for name in ("missing", "surplus", "repeated", "different")]
        return (*self.columns, *(f"{count} rows {name}" for name, count in counts if count), *map(str, self.examples))

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        counts = {name: value for name, value in asdict(self).items() if name != "named"}
        return {"equal": self.equal, **counts, "examples": [asdict(example) for example in self.examples]}


def compare_rows(
    lake: pa.Table, source: pa.Table, key: Sequence[str], added: Sequence[str] = (), *, integers_alike: bool = False
) -> RowComparison:
    """Compare a lake table with its source.

    Args:
        source: All rows of the source table, with the types that DMS converts to.
        key: Columns of the primary key. Without a key, each row must occur as often as in the source.
        added: Columns of the lake table that neither the source has nor cdclake adds, such as DMS's timestamp.
        integers_alike: Whether an integer column may have any integer type in the lake.
    """
    known = {*added, OP_COLUMN, position.COLUMN}
    columns = list(column_differences(lake.schema, source.schema, known, integers_alike=integers_alike))
    shared = [name for name in source.column_names if name in lake.column_names]
    if not shared or not set(key) <= set(shared):
        return RowComparison(lake.num_rows, source.num_rows, 0, 0, 0, 0, (*columns, "no key to compare rows by"), ())
    ours, theirs = in_lake_types(lake.select(shared)), in_lake_types(source.select(shared))
    return _compare(ours, theirs, list(key), tuple(columns))


def merge_comparisons(parts: Iterable[RowComparison]) -> RowComparison:
    """Combine the comparisons of a table's parts, at least one, which are compared as they are taken."""
    remaining = iter(parts)
    merged = next(remaining)
    for part in remaining:
        rows, source_rows, missing, surplus, repeated, different = map(
            sum, zip(_counts(merged), _counts(part), strict=True)
        )
        named = _first_of_each_kind(chain(merged.named, part.named), MAX_NAMED)
        merged = RowComparison(rows, source_rows, missing, surplus, repeated, different, merged.columns, named)
    return merged


def _first_of_each_kind(examples: Iterable[Example], most: int) -> tuple[Example, ...]:
    kinds = dict[str, list[Example]]()
    for example in examples:
        kinds.setdefault(example.kind, []).append(example)
    return tuple(chain.from_iterable(of_kind[:most] for of_kind in kinds.values()))


def _counts(part: RowComparison) -> tuple[int, ...]:
    return (part.rows, part.source_rows, part.missing, part.surplus, part.repeated, part.different)


def _compare(ours: pa.Table, theirs: pa.Table, key: list[str], columns: tuple[str, ...]) -> RowComparison:
    matched = match(ours, theirs, key)
    named = key or theirs.column_names
    examples = (
        *_examples("missing in the lake", matched.only_right, named),
        *_examples("not in the source", matched.only_left, named),
        *_different_rows(matched, named),
    )
    return RowComparison(
        ours.num_rows,
        theirs.num_rows,
        matched.only_right.num_rows,
        matched.only_left.num_rows,
        matched.repeated,
        pc.sum(matched.differing).as_py() or 0,
        columns,
        examples,
    )


def column_differences(
    lake: pa.Schema, source: pa.Schema, added: set[str], *, integers_alike: bool = False
) -> Iterator[str]:
    """Differences between columns, in words.

    Args:
        added: Columns that the lake may have without the source.
        integers_alike: As in `compare_rows`.
    """
    for name in source.names:
        if name not in lake.names:
            yield f"column {name} is missing in the lake"
            continue
        ours, theirs = from_arrow(lake.field(name).type), from_arrow(source.field(name).type)
        if ours != theirs and not (integers_alike and _is_whole(ours) and _is_whole(theirs)):
            yield f"column {name} is {ours} in the lake and {theirs} in the source"
    yield from (
        f"column {name} is not in the source" for name in lake.names if name not in source.names and name not in added
    )


def _is_whole(kind: str | None) -> bool:
    decimal = decimal_parts(kind or "")
    return kind in INTEGER_TYPES or (decimal is not None and decimal[1] == 0)


def in_lake_types(rows: pa.Table) -> pa.Table:
    """Rows with the column types of a lake table, which are fewer than the types of raw files."""
    arrays = {}
    for name in rows.column_names:
        kind = from_arrow(rows.schema.field(name).type)
        batches = [cast_column(batch, str(kind))[0] for batch in rows[name].chunks]
        arrays[name] = pa.chunked_array(batches, to_arrow(str(kind)))
    return pa.table(arrays)


def _examples(kind: str, rows: pa.Table, names: Sequence[str]) -> Iterator[Example]:
    for row in rows.select(list(names)).slice(0, MAX_NAMED).to_pylist():
        yield Example(kind, _named(row), plain_row(row))


def _different_rows(matched: Matched, named: Sequence[str]) -> Iterator[Example]:
    ours, theirs = matched.left, matched.right
    for index in pc.indices_nonzero(matched.differing)[:MAX_NAMED].to_pylist():
        names = [name for name, mask in matched.differs.items() if mask[index].as_py()]
        key = {name: theirs[name][index].as_py() for name in named}
        values = "; ".join(f"{name} is {_text(ours, name, index)}, not {_text(theirs, name, index)}" for name in names)
        yield Example("different", f"{_named(key)}: {values}", plain_row(key))


def _named(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}"[:_MAX_CHARACTERS] for name, value in row.items())


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON has them: bytes as hexadecimal digits, what JSON has not as text."""
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _text(rows: pa.Table, name: str, index: int) -> str:
    return repr(rows[name][index].as_py())[:_MAX_CHARACTERS]
