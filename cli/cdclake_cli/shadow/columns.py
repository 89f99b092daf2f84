"""Pairs the columns of a lake table with those of another table, and makes their values comparable. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import ConfigurationError, similar_names
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.types import from_arrow, plain_values, to_arrow, without_negative_zero
from cdclake.model.schema import INTEGER_TYPES, MAX_DECIMAL_PRECISION, UNTYPED, decimal_parts
from cdclake.printable import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

IGNORED = ("_hoodie_*", "_cdc_*", "Op", "AR_H_*")
"""Columns that Hudi, cdclake and DMS add to those of the source: they are compared only if the lake table has them."""
FOLDER = b"folder"
"""Key in the metadata of a field whose values are texts from names of folders."""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_TOLD = 5


@dataclass(frozen=True)
class Pair:
    """A column of the lake table and one of the other table.

    Attributes:
        name: Name in the lake table.
        other: Name in the other table.
        type: Arrow type that both are compared as.
        remark: How their types differ, in words; empty if they do not.
    """

    name: str
    other: str
    type: pa.DataType
    remark: str = ""


@dataclass(frozen=True)
class PairedColumns:
    """The columns of two tables.

    Attributes:
        pairs: Columns to compare.
        key: Columns of the key, as the lake table names them; empty for none.
        only_here: Columns that only the lake table has.
        only_there: Columns that only the other table has.
        ignored: Columns that are not compared, as `here name` or `there name`.
    """

    pairs: tuple[Pair, ...]
    key: tuple[str, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that are compared."""
        return pa.schema([(pair.name, pair.type) for pair in self.pairs])

    @property
    def remarks(self) -> tuple[str, ...]:
        """For each column with another type in the other table, how it is compared."""
        return tuple(pair.remark for pair in self.pairs if pair.remark)

    def here(self, rows: pa.Table) -> pa.Table:
        """Rows of the lake table, with the columns that are compared."""
        return pa.table({pair.name: _converted(rows[pair.name], pair, "in the lake") for pair in self.pairs})

    def there(self, rows: pa.Table) -> pa.Table:
        """Rows of the other table, with the same columns.

        Raises:
            ConfigurationError: A value is none of the type that it is compared as.
        """
        return pa.table({pair.name: _converted(rows[pair.other], pair, "there") for pair in self.pairs})


def pair_columns(
    lake: pa.Schema,
    other: pa.Schema,
    key: Sequence[str],
    ignore: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
) -> PairedColumns:
    """Find the columns to compare, and the type of each. Names are matched as in Athena, whatever their case.

    Args:
        key: Columns of the key in the lake table; empty for none.
        ignore: Names or patterns of columns to ignore in both tables.
        renamed: Names in the lake table by names in the other table.

    Raises:
        ConfigurationError: A name is of no column, a column of the key is missing or ignored, or the types of a column
            cannot be compared. The error names all such columns.
    """
    _check_patterns(ignore, [*lake.names, *other.names])
    names = _names_there(lake, other, renamed or {})
    is_ignored = {name: _matches(name, ignore) for name in (*lake.names, *other.names)}
    both = [name for name in lake.names if name in names and not is_ignored[name] and not is_ignored[names[name]]]
    spelled = _key(key, lake, both)
    taken = {names[name] for name in names}
    alone = [name for name in other.names if name not in taken]
    only_there = [name for name in alone if not is_ignored[name] and not _matches(name, IGNORED)]
    only_here = [name for name in lake.names if name not in names and not is_ignored[name]]
    pairs = [_pair(lake.field(name), other.field(names[name])) for name in both]
    _refuse([pair for pair in pairs if pair.type is None])
    if not pairs:
        message = "The tables have no column to compare"
        raise ConfigurationError(message, remedy="Check --with, and give other names by --rename THERE=HERE")
    ignored_here = [name for name in lake.names if name not in both and name not in only_here]
    ignored_there = [name for name in alone if name not in only_there]
    return PairedColumns(
        tuple(pairs), spelled, tuple(only_here), tuple(only_there), tuple(dict.fromkeys(ignored_here + ignored_there))
    )


def _names_there(lake: pa.Schema, other: pa.Schema, renamed: Mapping[str, str]) -> dict[str, str]:
    """The name in the other table of each column that both have."""
    for wanted, schema, where in ((renamed, other, "the other table"), (renamed.values(), lake, "the lake table")):
        unknown = [name for name in wanted if name not in schema.names]
        if unknown:
            remedy = f"{similar_names(unknown[0], schema.names)}Write --rename THERE=HERE"
            message = f"--rename names a column that {where} does not have: {unknown[0]}"
            raise ConfigurationError(message, remedy=remedy)
    here_of = {here: there for there, here in renamed.items()}
    free = [name for name in other.names if name not in renamed]
    lowered: dict[str, list[str]] = {}
    for name in free:
        lowered.setdefault(name.lower(), []).append(name)
    found = {}
    for name in lake.names:
        alike = lowered.get(name.lower(), [])
        if name in here_of:
            found[name] = here_of[name]
        elif name in free:
            found[name] = name
        elif len(alike) == 1:
            found[name] = alike[0]
        elif alike:
            message = f"The other table has columns whose names differ only in case: {', '.join(alike)}"
            raise ConfigurationError(message, remedy=f"Say which one is {name}: --rename {alike[0]}={name}")
    return found


def _check_patterns(patterns: Iterable[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            remedy = f"{similar_names(pattern, names)}Check the name; a pattern is quoted, as in --ignore 'etl_*'"
            message = f"Neither table has a column {pattern} to ignore"
            raise ConfigurationError(message, remedy=remedy)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    lowered = name.lower()
    return any(lowered == pattern or fnmatchcase(lowered, pattern) for pattern in map(str.lower, patterns))


def _key(key: Sequence[str], lake: pa.Schema, both: Sequence[str]) -> tuple[str, ...]:
    named = (next((name for name in lake.names if name.lower() == one.lower()), one) for one in key)
    spelled = tuple(dict.fromkeys(named))
    lacking = [name for name in spelled if name not in both]
    if lacking:
        message = f"Rows cannot be told apart without the key column {lacking[0]}"
        remedy = "Name columns that both tables have, and that are not ignored: --key id,region; or --rename THERE=HERE"
        raise ConfigurationError(message, remedy=remedy)
    return spelled


def _pair(here: pa.Field, there: pa.Field) -> Pair:
    ours, theirs = from_arrow(here.type), from_arrow(plain_type(there.type))
    kind = to_arrow(str(ours)) if _is_folder(there) else _common(str(ours), theirs)
    told = theirs if theirs and theirs != ours else str(there.type)
    types = f"{here.name}: {ours} in the lake, {'text of a folder' if _is_folder(there) else told} there"
    if kind is None:
        return Pair(here.name, there.name, None, types)
    is_same = ours == theirs and not _is_folder(there) and not (ours == "timestamp" and there.type != here.type)
    return Pair(here.name, there.name, kind, "" if is_same else f"{types}; compared as {_type_text(kind)}")


def _common(ours: str, theirs: str | None) -> pa.DataType | None:
    """The type that has all values of two lake types; None if values of these types cannot be equal."""
    if theirs in (ours, UNTYPED):
        return to_arrow(ours)
    if ours in INTEGER_TYPES and theirs in INTEGER_TYPES:
        return pa.int64()
    if {ours, theirs} == {"float", "double"}:
        return pa.float64()
    mine, other = _digits(ours), _digits(theirs or "")
    if mine and other:
        scale = max(mine[1], other[1])
        precision = max(mine[0] - mine[1], other[0] - other[1]) + scale
        return (
            pa.decimal128(precision, scale) if precision <= MAX_DECIMAL_PRECISION else pa.decimal256(precision, scale)
        )
    return None


def _digits(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal or an integer."""
    return (_DIGITS[kind], 0) if kind in _DIGITS else decimal_parts(kind)


def _type_text(kind: pa.DataType) -> str:
    return from_arrow(kind) or str(kind)


def _is_folder(field: pa.Field) -> bool:
    return FOLDER in (field.metadata or {})


def _refuse(pairs: Sequence[Pair]) -> None:
    if not pairs:
        return
    more = [f"and {len(pairs) - _TOLD} more"] if len(pairs) > _TOLD else []
    shown = "; ".join([*(pair.remark for pair in pairs[:_TOLD]), *more])
    message = f"{len(pairs)} columns have types whose values cannot be compared: {shown}"
    remedy = f"Leave them out: {' '.join(f'--ignore {shell_word(pair.name)}' for pair in pairs)}"
    raise ConfigurationError(message, remedy=remedy)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without the form in which a reader holds its values."""
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def _converted(values: pa.ChunkedArray, pair: Pair, where: str) -> pa.ChunkedArray:
    return pa.chunked_array(_chunks(values, pair, where), pair.type)


def _chunks(values: pa.ChunkedArray, pair: Pair, where: str) -> Iterator[pa.Array]:
    kind = from_arrow(pair.type)
    plain = plain_type(values.type)
    for chunk in values.chunks:
        array = chunk.cast(plain) if chunk.type != plain else chunk
        if kind is None:  # a decimal with more digits than a lake column has: an integer or decimal fits it
            yield plain_values(array).cast(pair.type)
            continue
        converted, bad = cast_column(array, kind)
        if bad:
            message = f"{len(bad)} values of column {pair.name} {where} are no {kind} that a lake table can have"
            remedy = f"Leave the column out with --ignore {pair.name}: its values cannot be equal"
            raise ConfigurationError(message, remedy=remedy)
        yield without_negative_zero(converted)
