"""Compares a lake table with a table that another job keeps from the same source, value by value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cdclake.lake.read.all_rows import row_batches
from cdclake.lake.storage.types import arrow_schema
from cdclake_cli.comparing.match import match
from cdclake_cli.comparing.parts import number_of_parts, pairs_of_parts
from cdclake_cli.shadow.columns import PairedColumns, pair_columns
from cdclake_cli.shadow.differences import (
    DIFFERENT,
    ONLY_HERE,
    ONLY_THERE,
    REPEATED_HERE,
    REPEATED_THERE,
    Found,
    Sample,
    rows_of_differences,
    schema_of_differences,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from cdclake.lake.read.as_of import TableAsOf, TableLocation
    from cdclake_cli.shadow.formats.table import OtherTable
    from cdclake_cli.shadow.report import ReportFolder

    ProgressCallback = Callable[[str, int, int], None]
    """Takes the table, the rows read so far of both tables, and all rows as far as they are known."""


@dataclass(frozen=True)
class Choice:
    """What to compare.

    Attributes:
        key: Columns of the key; None for the lake table's own.
        ignore: Names or patterns of columns to ignore.
        renamed: Names in the lake table by names in the other table.
    """

    key: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TableComparison:
    """Result of comparing a lake table, *here*, with another table, *there*.

    Attributes:
        change: Number of the lake table's change that was compared.
        watermark: The last change file applied by then.
        other: Where the other table is.
        version: What the other table was read as of; empty if it has no versions.
        key: Columns that rows were matched by; empty: whole rows were.
        different: Number of rows with the same key and different values.
        repeated_here: Number of lake rows whose key another lake row has, which was compared.
        columns: For each column that differs in a row, in how many.
        columns_only_here: Columns that only the lake table has.
        columns_only_there: Columns that only the other table has.
        ignored: Columns that were not compared.
        types: For each column with another type in the other table, how it was compared.
        samples: The first rows of each kind of difference.
    """

    table: str
    change: int
    watermark: str
    other: str
    format: str
    version: str
    key: tuple[str, ...]
    rows_here: int
    rows_there: int
    only_here: int
    only_there: int
    different: int
    repeated_here: int
    repeated_there: int
    columns: Mapping[str, int]
    columns_only_here: tuple[str, ...]
    columns_only_there: tuple[str, ...]
    ignored: tuple[str, ...]
    types: tuple[str, ...]
    samples: tuple[Sample, ...]

    @property
    def differing_rows(self) -> int:
        """Number of rows that differ in any way."""
        return self.only_here + self.only_there + self.different + self.repeated_here + self.repeated_there

    @property
    def equal(self) -> bool:
        """Whether all rows are equal, and both tables have the same columns."""
        return not (self.differing_rows or self.columns_only_here or self.columns_only_there)

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        samples = [
            {
                "kind": sample.kind,
                "key": dict(sample.key),
                "values": {name: {"here": here, "there": there} for name, (here, there) in sample.values.items()},
            }
            for sample in self.samples
        ]
        return {"equal": self.equal, "differing_rows": self.differing_rows, **asdict(self), "samples": samples}


def compare(
    location: TableLocation,
    lake: TableAsOf,
    other: OtherTable,
    place: str,
    choice: Choice | None = None,
    *,
    report: ReportFolder | None = None,
    progress: ProgressCallback | None = None,
    parts: int | None = None,
) -> TableComparison:
    """Compare a lake table as of a change with another table.

    Both are read once, and split by key into parts in the temporary folder, which are compared one after the other. So
    what is in memory is a batch of rows while they are read, and then a part of each table.

    Args:
        place: Where the other table is, for the result.
        report: Gets all differences, and the result.
        parts: Number of parts; by default as the tables' sizes need it.

    Raises:
        ConfigurationError: Columns cannot be paired, or their types not compared; found before rows are read.
        ConfigurationError: The other table cannot be read.
    """
    choice = choice or Choice()
    snapshot = lake.snapshot
    key = snapshot.primary_key if choice.key is None else choice.key
    paired = pair_columns(arrow_schema(snapshot.schema), other.schema, key, choice.ignore, dict(choice.renamed))
    name, total = str(location.layout.name), snapshot.rows + (other.rows or 0)
    ours, theirs = _lake_batches(location, lake, paired), _other_batches(other, paired)
    if progress:
        done = _Counter(name, total, progress)
        ours, theirs = done.counted(ours), done.counted(theirs)
    if parts is None:
        parts = number_of_parts(max(snapshot.rows, other.rows or 0), sum(file.bytes for file in snapshot.files))
    by = paired.key or tuple(paired.schema.names)
    found = Found()
    for mine, their in pairs_of_parts(ours, theirs, lambda rows: rows.select(list(by)), parts):
        matched = match(mine, their, paired.key)
        differences = rows_of_differences(matched, paired.key)
        found.add(matched, differences)
        if report:
            report.add(differences)
    result = _result(name, lake, other, place, paired, found)
    if report:
        report.finish(result.to_json(), schema_of_differences(paired.schema, paired.key))
    return result


def _lake_batches(location: TableLocation, lake: TableAsOf, paired: PairedColumns) -> Iterator[pa.Table]:
    for rows in row_batches(location, lake):
        yield paired.here(rows)


def _other_batches(other: OtherTable, paired: PairedColumns) -> Iterator[pa.Table]:
    yield paired.schema.empty_table()
    for rows in other.batches([pair.other for pair in paired.pairs]):
        yield paired.there(rows)


class _Counter:
    """Tells how many rows of both tables were read."""

    def __init__(self, name: str, total: int, progress: ProgressCallback) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._done = 0

    def counted(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for rows in batches:
            yield rows
            self._done += rows.num_rows
            self._progress(self._name, self._done, max(self._total, self._done))


def _result(
    name: str, lake: TableAsOf, other: OtherTable, place: str, paired: PairedColumns, found: Found
) -> TableComparison:
    return TableComparison(
        name,
        lake.change,
        lake.snapshot.watermark,
        place,
        other.format,
        other.version,
        paired.key,
        found.rows_here,
        found.rows_there,
        found.kinds[ONLY_HERE],
        found.kinds[ONLY_THERE],
        found.kinds[DIFFERENT],
        found.kinds[REPEATED_HERE],
        found.kinds[REPEATED_THERE],
        {column: rows for column, rows in found.columns.items() if rows},
        paired.only_here,
        paired.only_there,
        paired.ignored,
        paired.remarks,
        tuple(found.samples),
    )


def columns_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Names in texts such as `id,region`."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())
