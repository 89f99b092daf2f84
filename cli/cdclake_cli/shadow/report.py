"""Writes all differences as Parquet files, and the result as JSON, into a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyarrow import fs

from cdclake.adapters.filesystem import open_output, storage_errors
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from cdclake_cli.shadow.formats.place import Place

RESULT = "result.json"


class ReportFolder:
    """A new or empty folder for the report of one comparison.

    The Parquet files have the same columns, so that engines read the folder's `*.parquet` as one table. There is at
    least one, which may have no rows. What is written last is the result.

    Args:
        place: The folder.

    Raises:
        ConfigurationError: It has files already.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        selector = fs.FileSelector(place.path, recursive=True, allow_not_found=True)
        with storage_errors(place.files, place.path):
            found = place.files.get_file_info(selector)
        if any(info.type == fs.FileType.File for info in found):
            message = f"There are files in {place.text}"
            raise ConfigurationError(message, remedy="Name a new folder for --report", folder=place.text)
        self._number = 0

    def add(self, differences: pa.Table) -> None:
        """Write differences, if there are any."""
        if differences.num_rows:
            self._write(differences)

    def finish(self, result: Mapping[str, Any], schema: pa.Schema) -> None:
        """Write the result.

        Args:
            schema: Columns of the differences.
        """
        if not self._number:
            self._write(schema.empty_table())
        content = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
        with open_output(self._place.files, f"{self._place.path}/{RESULT}") as sink:
            sink.write(content.encode())

    def _write(self, differences: pa.Table) -> None:
        self._number += 1
        path = f"{self._place.path}/differences-{self._number:05}.parquet"
        with open_output(self._place.files, path) as sink:
            pq.write_table(differences, sink, compression="zstd")
