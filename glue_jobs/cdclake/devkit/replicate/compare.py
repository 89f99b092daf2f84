"""Holds a lake table against its source, every value of every row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.types import cast_column, from_arrow, to_arrow
from cdclake.model import position
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_EXAMPLES = 5
"""Differences of each kind that are told row by row."""
_MOST_CHARACTERS = 60


@dataclass(frozen=True)
class Example:
    """A row that differs.

    Attributes:
        kind: How it does.
        row: Its key, and what is not the same of it.
    """

    kind: str
    row: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.row}"


@dataclass(frozen=True)
class RowComparison:
    """A lake table beside its source.

    Attributes:
        rows: In the lake.
        source_rows: In the source.
        missing: Rows of the source whose key the lake does not have.
        surplus: Rows of the lake whose key the source does not have.
        repeated: Rows of the lake whose key an earlier row has as well.
        different: Rows of one key whose values are not the same.
        columns: What is not the same about the columns, in words.
        examples: Some differing rows of each kind.
    """

    rows: int
    source_rows: int
    missing: int
    surplus: int
    repeated: int
    different: int
    columns: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def equal(self) -> bool:
        """Whether the tables are the same, up to the order of rows."""
        return not (self.missing or self.surplus or self.repeated or self.different or self.columns)

    @property
    def differences(self) -> tuple[str, ...]:
        """All that is not the same, in words; none if the tables are equal."""
        counts = [(name, getattr(self, name)) for name in ("missing", "surplus", "repeated", "different")]
        return (*self.columns, *(f"{count} rows {name}" for name, count in counts if count), *map(str, self.examples))

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return {"equal": self.equal, **asdict(self)}


def compare_rows(lake: pa.Table, source: pa.Table, key: Sequence[str], added: Sequence[str] = ()) -> RowComparison:
    """Set a lake table beside its source.

    Args:
        lake: All rows of the lake table.
        source: All rows of the source table, with the types that DMS gives them.
        key: Columns of the primary key. Without one, each row must be there as often as in the source.
        added: Columns that the lake table has besides the source's and cdclake's own, such as DMS's timestamp.
    """
    columns = list(_column_differences(lake.schema, source.schema, {*added, OP_COLUMN, position.COLUMN}))
    shared = [name for name in source.column_names if name in lake.column_names]
    if not shared or not set(key) <= set(shared):
        return RowComparison(lake.num_rows, source.num_rows, 0, 0, 0, 0, (*columns, "no key to compare rows by"), ())
    ours, theirs = in_lake_types(lake.select(shared)), in_lake_types(source.select(shared))
    return _compare(ours, theirs, list(key), tuple(columns))


def merged(parts: Iterable[RowComparison]) -> RowComparison:
    """The comparison of tables whose parts were compared, as many as one or more; with examples of each kind."""
    found = list(parts)
    rows, source_rows, missing, surplus, repeated, different = map(sum, zip(*map(_counts, found), strict=True))
    kinds = dict[str, list[Example]]()
    for example in chain.from_iterable(part.examples for part in found):
        kinds.setdefault(example.kind, []).append(example)
    examples = chain.from_iterable(of_kind[:MOST_EXAMPLES] for of_kind in kinds.values())
    return RowComparison(rows, source_rows, missing, surplus, repeated, different, found[0].columns, tuple(examples))


def _counts(compared: RowComparison) -> tuple[int, ...]:
    return (
        compared.rows,
        compared.source_rows,
        compared.missing,
        compared.surplus,
        compared.repeated,
        compared.different,
    )


def _compare(ours: pa.Table, theirs: pa.Table, key: list[str], columns: tuple[str, ...]) -> RowComparison:
    our_keys, their_keys = row_keys(ours, key or ours.column_names), row_keys(theirs, key or ours.column_names)
    if not key:
        our_keys, their_keys = _numbered(our_keys), _numbered(their_keys)
    place = pc.index_in(their_keys, value_set=our_keys)
    surplus = pc.invert(pc.is_in(our_keys, value_set=their_keys))
    repeated = len(our_keys) - pc.count_distinct(our_keys).as_py()
    found = pc.is_valid(place)
    ours_found, theirs_found = ours.take(place.filter(found)), theirs.filter(found)
    masks = {name: _differs(ours_found[name], theirs_found[name]) for name in theirs.column_names}
    differing = _any_of(list(masks.values()), theirs_found.num_rows)
    shown = key or theirs.column_names
    examples = [
        *_examples("missing in the lake", theirs.filter(pc.invert(found)), shown),
        *_examples("not in the source", ours.filter(surplus), shown),
        *_different_rows(ours_found, theirs_found, masks, differing, shown),
    ]
    counts = [pc.sum(mask).as_py() or 0 for mask in (pc.invert(found), surplus, differing)]
    missing, too_many, different = counts
    return RowComparison(
        ours.num_rows, theirs.num_rows, missing, too_many, repeated, different, columns, tuple(examples)
    )


def _column_differences(lake: pa.Schema, source: pa.Schema, added: set[str]) -> Iterator[str]:
    for name in source.names:
        if name not in lake.names:
            yield f"column {name} is missing in the lake"
        elif (found := from_arrow(lake.field(name).type)) != (wanted := from_arrow(source.field(name).type)):
            yield f"column {name} is {found} in the lake and {wanted} by its source"
    yield from (
        f"column {name} is not in the source" for name in lake.names if name not in source.names and name not in added
    )


def in_lake_types(rows: pa.Table) -> pa.Table:
    """Rows with the types that a lake table has, which are fewer than the raw files'."""
    arrays = {}
    for name in rows.column_names:
        kind = from_arrow(rows.schema.field(name).type)
        pieces = [cast_column(piece, str(kind))[0] for piece in rows[name].chunks]
        arrays[name] = pa.chunked_array(pieces, to_arrow(str(kind)))
    return pa.table(arrays)


def row_keys(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """One value a row that tells apart what the columns tell apart: each value with its length before it."""
    pieces = []
    for name in names:
        column = rows[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        value = _as_bytes(column)
        length = pc.binary_length(value).cast(pa.string()).cast(pa.binary())
        pieces.append(pc.fill_null(pc.binary_join_element_wise(length, value, b":"), b"-"))
    return pc.binary_join_element_wise(*pieces, b"")


def _numbered(keys: pa.ChunkedArray) -> pa.Array:
    """Makes the second of two same rows another one than the first, and so on."""
    seen: dict[bytes, int] = {}
    numbered = []
    for key in keys.to_pylist():
        seen[key] = seen.get(key, 0) + 1
        numbered.append(b"%d|%s" % (seen[key], key))
    return pa.array(numbered, pa.binary())


def _differs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.Array:
    """For each row, whether the values are not the same; two nulls are."""
    one_is_null = pc.xor(left.is_valid(), right.is_valid())
    if left.type != right.type:
        left, right = _as_bytes(left), _as_bytes(right)
    return pc.fill_null(pc.or_kleene(pc.not_equal(left, right), one_is_null), False)


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of any type as those of one; bytes stay what they are, whether they are text or not."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())


def _any_of(masks: Sequence[pa.ChunkedArray], rows: int) -> pa.ChunkedArray:
    result = pa.chunked_array([pa.repeat(pa.scalar(value=False), rows)])
    for mask in masks:
        result = pc.or_(result, mask)
    return result


def _examples(kind: str, rows: pa.Table, shown: Sequence[str]) -> Iterator[Example]:
    for row in rows.select(list(shown)).slice(0, MOST_EXAMPLES).to_pylist():
        yield Example(kind, _named(row))


def _different_rows(
    ours: pa.Table,
    theirs: pa.Table,
    masks: dict[str, pa.ChunkedArray],
    differing: pa.ChunkedArray,
    shown: Sequence[str],
) -> Iterator[Example]:
    for place in pc.indices_nonzero(differing)[:MOST_EXAMPLES].to_pylist():
        names = [name for name, mask in masks.items() if mask[place].as_py()]
        key = _named({name: theirs[name][place].as_py() for name in shown})
        values = "; ".join(f"{name} is {_text(ours, name, place)}, not {_text(theirs, name, place)}" for name in names)
        yield Example("different", f"{key}: {values}")


def _named(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}"[:_MOST_CHARACTERS] for name, value in row.items())


def _text(rows: pa.Table, name: str, place: int) -> str:
    return repr(rows[name][place].as_py())[:_MOST_CHARACTERS]
