"""Feeds a table as DMS does: full loads a day apart, and change files in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake_devkit.oracle import Load
from tests.cdclake.lake.merge.test_against_oracle import COLUMNS, run_that_may_die, with_ordering
from tests.cdclake.lake.table import Table, ordering_by_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_devkit.oracle import ChangeRow, Row


class Feeding:
    """A table that gets feeds a day apart, each of change files and an optional full load."""

    def __init__(self, folder: str, item: dict[str, str], key: tuple[str, ...], spark: Any) -> None:
        self.table = Table(Path(folder), COLUMNS, item, spark, ordering=ordering_by_value)
        self.key = key
        self.fed: list[Load] = []
        self.loads: list[int] = []
        self.days = 0

    def feed(self, feed: dict[str, Any]) -> None:
        """Write a full load and change files a day after the last ones, and apply them.

        Of rows of the load with the same key, the last one counts.
        """
        self.days += 1
        day, table = 5 + self.days, self.table
        full_load = list({tuple(row[name] for name in self.key): row for row in feed["full_load"]}.values())
        loaded_utc = datetime(2024, 3, day, tzinfo=timezone.utc)
        if full_load:
            self._load(feed["full_load"] if "MaxQuarantinedRows" in table.item else full_load, loaded_utc, feed)
        known = len(table.changes)
        for i, run_now, death in zip(feed["arrivals"], feed["runs"], feed["deaths"], strict=True):
            name = f"202403{day:02}-1{i}1500000.parquet"
            rows = [(op, with_ordering(row, table.item.get("OrderColumn")), old) for op, row, old in feed["files"][i]]
            table.write_changes(name, rows, feed["types"][i])
            table.set_modified(name, loaded_utc.replace(hour=20))
            if run_now:
                run_that_may_die(table, table.load_incremental, death)
        table.load_incremental()
        changes = table.changes[known:]
        if full_load or not self.fed:
            self.fed.append(Load(full_load or None, loaded_utc, changes))
        else:  # changes to the same load
            self.fed[-1] = replace(self.fed[-1], changes=[*self.fed[-1].changes, *changes])

    def _load(self, rows: Sequence[Row], loaded_utc: datetime, feed: dict[str, Any]) -> None:
        middle = len(rows) // 2
        for number, part in enumerate((rows[:middle], rows[middle:]), 1):
            # The rows may equal those of the load before; the same bytes would be the same load.
            columns = COLUMNS.with_metadata({"loaded": loaded_utc.isoformat()})
            self.table.put(f"LOAD{number:08X}.parquet", pa.Table.from_pylist([dict(row) for row in part], columns))
            self.table.set_modified(f"LOAD{number:08X}.parquet", loaded_utc)
        run_that_may_die(self.table, self.table.load_initial, feed["load_death"])
        self.table.load_initial()
        self.loads.append(self.table.log.head())

    def table_expected(self) -> tuple[Sequence[Row], list[ChangeRow]]:
        """The rows of the last full load, and the changes since."""
        return self.fed[-1].rows or [], list(self.fed[-1].changes)
