"""Readers of Iceberg tables that share no code with the product: DuckDB's, and pyiceberg's."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from pyiceberg.table import StaticTable

if TYPE_CHECKING:
    from cdclake.model.layout import LakeLayout

Rows = list[dict[str, Any]]


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with its readers of Avro and Iceberg, which PyPI has as files."""
    opened = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        (folder,) = (Path(one) for one in sys.path if (Path(one) / f"duckdb_extension_{name}").is_dir())
        (extension,) = (folder / f"duckdb_extension_{name}").rglob("*.duckdb_extension")
        opened.execute(f"LOAD '{extension}'")
    opened.execute("SET TimeZone = 'UTC'")
    return opened


class IcebergReaders:
    """Reads the Iceberg table of a lake table in a folder.

    Args:
        lake: The lake's folder.
    """

    def __init__(self, lake: Path, layout: LakeLayout) -> None:
        self.folder = lake / layout.iceberg_prefix
        self._lake, self._layout = lake, layout

    @property
    def version(self) -> int:
        """Number of the change that readers see."""
        return int((self._lake / self._layout.version_hint_key).read_text())

    @property
    def table(self) -> StaticTable:
        """The table in pyiceberg."""
        return StaticTable.from_metadata(str(self._lake / self._layout.iceberg_metadata_key(self.version)))

    def pyiceberg(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """Rows in pyiceberg, as of the newest change or an earlier one."""
        scan = self.table.scan(row_filter=where, selected_fields=columns, snapshot_id=change)
        rows: Rows = scan.to_arrow().to_pylist()
        return rows

    def duckdb(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """The same in DuckDB."""
        version = f", snapshot_from_id = {change}" if change else ""
        names = ", ".join(name if name == "*" else f'"{name}"' for name in columns)
        query = f"SELECT {names} FROM iceberg_scan('{self.folder}'{version}) WHERE {where}"
        result = connection().execute(query)
        columns = tuple(one[0] for one in result.description)
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def rows(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """Rows on which both readers agree."""
        both = [sorted(read(where, columns, change), key=repr) for read in (self.pyiceberg, self.duckdb)]
        assert both[0] == both[1]
        return both[0]
