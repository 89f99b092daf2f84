"""Statistics of data files for manifests: from these, readers of Iceberg tables tell which files they can skip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)

from cdclake.model.schema import decimal_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import StatisticsCollector
    from pyiceberg.schema import Schema

    from cdclake.model.snapshot import Snapshot

_LONG_DIGITS = 18


class FileStatistics:
    """Finds the statistics of a table's data files in their footers, without bounds that would hide rows.

    All rows of a file are null in a column that it lacks.

    Args:
        table: The table after a change.
        schema: The same table's columns in Iceberg.
    """

    def __init__(self, table: Snapshot, schema: Schema) -> None:
        self._plan = compute_statistics_plan(schema, {})
        self._counts = compute_statistics_plan(schema, {"write.metadata.metrics.default": "counts"})
        self._ids = parquet_path_to_id_mapping(schema)
        self._misread = {table.field_ids.of(one.name) for one in table.schema if _is_misread(one.type)}

    def of(self, footer: pq.FileMetaData) -> dict[str, Any]:
        """What pyiceberg's `DataFile` contains of the statistics of a file."""
        try:
            statistics = self._collect(footer, self._plan)
        except UnicodeEncodeError:  # the bound after a text with U+D7FF as its 16th character is not valid
            statistics = self._collect(footer, self._counts)
        unbounded = self._misread.union(self._without_bounds(footer))
        bounds = {
            name: {field: bound for field, bound in statistics[name].items() if field not in unbounded}
            for name in ("lower_bounds", "upper_bounds")
        }
        absent = dict.fromkeys(self._plan.keys() - statistics["value_counts"].keys(), footer.num_rows)
        counts = {name: {**statistics[name], **absent} for name in ("value_counts", "null_value_counts")}
        return {**statistics, **bounds, **counts}

    def _collect(self, footer: pq.FileMetaData, plan: dict[int, StatisticsCollector]) -> dict[str, Any]:
        return data_file_statistics_from_parquet_metadata(footer, plan, self._ids).to_serialized_dict()

    def _without_bounds(self, footer: pq.FileMetaData) -> Iterator[int]:
        """Columns of which a row group has values but no bounds, which pyiceberg passes over.

        Parquet has none of a row group with a value of more than 4,096 bytes, or of which all values are NaN.
        """
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                found = column.statistics
                is_known = found and (found.has_min_max or found.num_values == 0)
                if not is_known:
                    yield self._ids[column.path_in_schema]


def _is_misread(kind: str) -> bool:
    """Whether a reader misreads the bounds of a type: DuckDB 1.4.4 misreads decimals of more than 18 digits."""
    decimal = decimal_parts(kind)
    return decimal is not None and decimal[0] > _LONG_DIGITS
