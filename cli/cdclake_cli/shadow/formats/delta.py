"""Reads Delta tables by delta-rs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake_cli.shadow.formats.place import reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.shadow.formats.place import Place

LOG = "_delta_log"
FORMAT = "Delta"


class DeltaFormatTable:
    """A Delta table. `OtherTable` describes the attributes and methods."""

    format = FORMAT

    def __init__(self, place: Place, version: str) -> None:
        self._place = place
        if version and not version.isdecimal():
            message = f"'{version}' is no version of a Delta table"
            raise ConfigurationError(message, remedy="Write a number: --version 7")
        with reading(FORMAT, place.text, Exception):
            import deltalake

            self._table = deltalake.DeltaTable(
                place.url, version=int(version) if version else None, storage_options=place.object_store_options()
            )
            self.version = f"version {self._table.version()}"
            self.schema = pa.schema(self._table.schema().to_arrow())
            counts = pa.table(self._table.get_add_actions(flatten=True))["num_records"].to_pylist()
            has_vectors = "deletionVectors" in (self._table.protocol().reader_features or ())
        self.rows = None if None in counts or has_vectors else sum(counts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows."""
        from deltalake import QueryBuilder

        selected = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        with reading(FORMAT, self._place.text, Exception):
            rows = QueryBuilder().register("other", self._table).execute(f"select {selected} from other")
            for batch in pa.RecordBatchReader.from_stream(rows):
                yield pa.Table.from_batches([batch])
