"""Counts which types the texts of CSV columns look like. A shape only suggests a type; cdclake's casts decide. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.bad_values import NULL_TEXTS, OTHER_NUMBERS, OTHER_TIMES
from cdclake.lake.raw.cast import cast_column
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import ADDED_PREFIXES, MAX_DECIMAL_PRECISION, OP_COLUMN
from cdclake_cli.doctor.types.keys import KeyStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.raw.files import RawFile
    from cdclake.model.schema import Schema
    from cdclake_cli.doctor.types.keys import KeyCandidate

_NUMBER = r"(?:0|[1-9]\d*)"
"""Without leading zeros: 02134 is a code, and would lose a digit as a number."""
_DAY = r"\d{4}-\d\d-\d\d"
_SHAPES = {
    "boolean": r"^\s*(?i:true|false|t|f)\s*$",
    "bigint": rf"^\s*-?{_NUMBER}\s*$",
    "decimal": rf"^\s*-?{_NUMBER}(?:\.\d+)?\s*$",
    "double": rf"^\s*(?:-?{_NUMBER}(?:\.\d*)?(?:[eE][+-]?\d+)?|(?i:[+-]?(?:inf|infinity|nan)))\s*$",
    "date": rf"^\s*{_DAY}(?:[ T]00:00(?::00(?:\.0*)?)?)?\s*$",
    "timestamp": rf"^\s*{_DAY}(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?\s*$",
}
"""Texts that a type may hold, narrowest type first."""
_DECIMAL_HEADROOM = 18
_MAX_SCALE = 9
"""More decimal places are rather the digits of a double."""


@dataclass
class ColumnShapes:
    """What the values of a column look like.

    Attributes:
        values: Number of values that are not null, empty or like null.
        nulls: Number of nulls and empty texts.
        null_texts: Number of nulls, which have the null text in the file.
        null_like: Number of values by text that other writers use for null.
        fits: Number of values that look like each type.
        other_times: Number of values that look like times in another format.
        other_numbers: Number of values that look like numbers in another format.
        digits: Most digits before the decimal point.
        scale: Most digits after it.
    """

    values: int = 0
    nulls: int = 0
    null_texts: int = 0
    null_like: Counter[str] = field(default_factory=Counter)
    fits: Counter[str] = field(default_factory=Counter)
    other_times: int = 0
    other_numbers: int = 0
    digits: int = 0
    scale: int = 0

    def add(self, values: pa.Array) -> None:
        """Add values as they are in the file: bytes, null where a field is the null text."""
        self.nulls += values.null_count
        self.null_texts += values.null_count
        counted = values.drop_null().value_counts()
        texts, counts = _texts(counted.field("values")), counted.field("counts")
        upper = pc.utf8_upper(pc.utf8_trim_whitespace(texts))
        is_empty = pc.equal(upper, "")
        is_null = pc.is_in(upper, value_set=pa.array(sorted(NULL_TEXTS)))
        self.nulls += _sum(counts, is_empty)
        for text, count in zip(texts.filter(is_null).to_pylist(), counts.filter(is_null).to_pylist(), strict=True):
            self.null_like[text] += count
        is_value = pc.invert(pc.or_(is_empty, is_null))
        texts, counts = texts.filter(is_value), counts.filter(is_value)
        self.values += pc.sum(counts, min_count=0).as_py()
        for kind, shape in _SHAPES.items():
            self.fits[kind] += _sum(counts, pc.match_substring_regex(texts, shape))
        self.other_times += _sum(counts, pc.match_substring_regex(texts, OTHER_TIMES))
        self.other_numbers += _sum(counts, pc.match_substring_regex(texts, OTHER_NUMBERS))
        numbers = pc.utf8_ltrim(
            pc.utf8_trim_whitespace(texts.filter(pc.match_substring_regex(texts, _SHAPES["decimal"]))), "-"
        )
        if len(numbers):
            parts = pc.extract_regex(numbers, r"^(?P<whole>\d+)(?:\.(?P<fraction>\d+))?$")
            self.digits = max(self.digits, pc.max(pc.utf8_length(parts.field("whole"))).as_py() or 0)
            self.scale = max(self.scale, pc.max(pc.utf8_length(parts.field("fraction"))).as_py() or 0)

    @property
    def likely_type(self) -> str:
        """The narrowest type that all values look like; `string` if there is none, or no value."""
        kind = next((kind for kind in _SHAPES if self.values and self.fits[kind] == self.values), "string")
        if kind != "decimal":
            return kind
        precision = max(_DECIMAL_HEADROOM, self.digits + self.scale + 2)
        if precision > MAX_DECIMAL_PRECISION or self.scale > _MAX_SCALE:
            return "double"
        return f"decimal({precision},{self.scale})"

    @property
    def nearest(self) -> tuple[str, int]:
        """The type that most values look like, and their number."""
        kind = max(_SHAPES, key=lambda one: self.fits[one])
        return kind, self.fits[kind]


class TypeStatistics:
    """Collects what the columns of CSV files look like, and which are unique in the full load.

    Args:
        declared: Columns whose types are known.
        loads_only: Whether to look at rows of full loads alone, except for columns that these lack.

    Attributes:
        rows: Number of rows looked at.
        columns: By name, in the order of the files.
        typed_keys: Values of the full load in files that have types.
        types: Types of the columns in these files.
    """

    def __init__(self, declared: Schema | None = None, *, loads_only: bool = True) -> None:
        self._declared, self._loads_only = declared, loads_only
        self.rows = 0
        self.columns: dict[str, ColumnShapes] = {}
        self.typed_keys = KeyStatistics()
        self.types: dict[str, pa.DataType] = {}
        self._in_loads: set[str] = set()
        self._keys = KeyStatistics()

    def add(self, file: RawFile, rows: pa.RecordBatch) -> None:
        """Add rows of a file as they are read, see `RawRows.columns`; files of full loads first."""
        is_load = file.kind is RawKind.FULL_LOAD
        if is_load and not file.format.is_text:
            typed = {name: rows.column(name) for name in rows.schema.names if is_of_source(name)}
            self.types |= {name: values.type for name, values in typed.items()}
            self.typed_keys.add(typed, rows.num_rows)
        if not file.format.is_text or file.transactions:
            return
        chosen = {name: rows.column(name) for name in untyped_names(rows.schema.names, self._declared)}
        if is_load:
            self._in_loads.update(name.lower() for name in chosen)
        elif self._loads_only:
            chosen = {name: values for name, values in chosen.items() if name.lower() not in self._in_loads}
        self.rows += rows.num_rows if chosen else 0
        for name, values in chosen.items():
            known = next((one for one in self.columns if one.lower() == name.lower()), name)
            self.columns.setdefault(known, ColumnShapes()).add(values)
        if is_load:
            self._keys.add(chosen, rows.num_rows)

    def keys(self, schema: Schema) -> list[KeyCandidate]:
        """Candidates for the key among the columns without types, in the full load.

        Args:
            schema: Columns without nulls, in change files too, with their types.
        """

        def typed(name: str, texts: pa.ChunkedArray) -> pa.Array | None:
            column = schema.find(name)
            return cast_column(texts.combine_chunks(), column.type)[0] if column else None

        return self._keys.candidates(typed)


def untyped_names(names: Sequence[str], declared: Schema | None) -> list[str]:
    """Columns of a CSV file that become text because nothing declares their types."""
    return [name for name in names if is_of_source(name) and not (declared and declared.find(name))]


def is_of_source(name: str) -> bool:
    """Whether a column is none that DMS adds to the source's."""
    return name != OP_COLUMN and not name.startswith(ADDED_PREFIXES)


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # what is not UTF-8 looks like no type
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def _sum(counts: pa.Array, chosen: pa.Array) -> int:
    return int(pc.sum(counts.filter(chosen), min_count=0).as_py())
