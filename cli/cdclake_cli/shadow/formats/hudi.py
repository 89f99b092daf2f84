"""Reads Hudi tables by hudi-rs, which merges the log files of merge-on-read tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake_cli.shadow.formats.place import reading
from cdclake_cli.shadow.formats.table import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.shadow.formats.place import Place

LOG = ".hoodie"
FORMAT = "Hudi"


class HudiFormatTable:
    """A Hudi table. `OtherTable` describes the attributes and methods."""

    format = FORMAT

    def __init__(self, place: Place, version: str) -> None:
        self._place = place
        with reading(FORMAT, place.text, Exception):
            import hudi

            self._table = hudi.HudiTable(place.url, place.object_store_options())
            instant = version or self._table.get_timeline().get_latest_commit_timestamp()
            self.version = f"instant {instant}"
            self._options = hudi.HudiReadOptions().with_as_of_timestamp(instant).with_batch_size(BATCH_ROWS)
            self.schema = self._table.get_schema()
        self.rows: int | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows."""
        with reading(FORMAT, self._place.text, Exception):
            for batch in self._table.read_stream(self._options.with_projection(list(columns))):
                yield pa.Table.from_batches([batch])
