"""A script with DuckDB: finds the files with changed keys, rewrites them, and replaces the old ones.

It has no commit: a reader may see half of a change, and an interrupted run leaves the table in that state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from benchmarks.contestants.folders import FolderEngine, parquet_files

_THREADS = 2
_PARQUET = "(FORMAT parquet, COMPRESSION snappy)"


class Engine(FolderEngine):
    """DuckDB on a folder of plain files, without partitions."""

    def start(self) -> None:
        """See `Contestant`."""
        super().start()
        self._db = duckdb.connect(config={"threads": _THREADS})
        self._db.execute("SET TimeZone = 'UTC'")

    def build(self) -> None:
        """Not used: `limit` builds the starting table."""
        raise NotImplementedError

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        target = _text(str(self._table / "full-load"))
        self._db.execute(
            f"COPY (SELECT * FROM read_parquet({_list(self._task.load_files)})) TO {target} "
            "(FORMAT parquet, COMPRESSION snappy, PER_THREAD_OUTPUT)"
        )
        return {}

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        key = ", ".join(self._task.key)
        old = parquet_files(self._table)
        self._db.execute(
            "CREATE TEMP TABLE changes AS "
            f"SELECT * EXCLUDE (filename, file_row_number) FROM read_parquet({_list(self._task.change_files)}, "
            "filename = true, file_row_number = true) "
            f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY filename DESC, file_row_number DESC) = 1"
        )
        self._db.execute(
            f"CREATE TEMP TABLE existing AS SELECT {key}, t.filename "
            f"FROM read_parquet({_list(old)}, filename = true) t SEMI JOIN changes USING ({key})"
        )
        touched = [file for (file,) in self._db.execute("SELECT DISTINCT filename FROM existing ORDER BY 1").fetchall()]
        for number, file in enumerate(touched):
            self._rewrite(file, takes_inserts=number == len(touched) - 1)
        for file in touched:
            Path(file).unlink()
        return {"files_retired": len(touched)}

    def _rewrite(self, file: str, *, takes_inserts: bool) -> None:
        """Rewrite a file beside the old one: without the changed keys, but with their new rows."""
        key, path = ", ".join(self._task.key), Path(file)
        new_rows = "SELECT c.* EXCLUDE (Op) FROM changes c"
        parts = [
            f"SELECT * FROM read_parquet({_text(file)}) ANTI JOIN changes USING ({key})",
            f"{new_rows} JOIN existing e USING ({key}) WHERE e.filename = {_text(file)} AND c.Op <> 'D'",
        ]
        if takes_inserts:
            parts.append(f"{new_rows} ANTI JOIN existing USING ({key}) WHERE c.Op <> 'D'")
        target = _text(str(path.with_name(f"new-{path.name}")))
        self._db.execute(f"COPY ({' UNION ALL BY NAME '.join(parts)}) TO {target} {_PARQUET}")


def _text(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"
