"""Fifty tables, four of which have a raw file at which the Spark job dies."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.status import Health
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock
from tests.builders import LAKE, RAW, FolderInstallation

if TYPE_CHECKING:
    from pathlib import Path


TABLES = [f"t{number:02d}" for number in range(50)]
DEADLY = ("t00", "t01", "t17", "t49")
DEADLY_LOAD, DEADLY_CHANGE = "LOAD00000002.parquet", "20240305-100500000.parquet"
"""The first three tables have a deadly full-load file, the last one a change file."""


class Installation(FolderInstallation):
    """Tables of one row a file."""

    def write(self, table: str, relative: str, *, key: int) -> None:
        rows = {"id": [key], "name": [f"{relative} of {table}"]}
        rows = {"Op": ["I"], **rows} if not relative.startswith("LOAD") else rows
        pq.write_table(pa.table(rows), self.folder(table) / relative)

    def folder(self, table: str) -> Path:
        folder = self.root / RAW / "shop" / table
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def keys(self, table: str) -> list[int]:
        files = (self.root / LAKE / "shop" / table).glob("*.parquet")
        return sorted(key for file in files for key in pq.read_table(file)["id"].to_pylist())

    def hour(self) -> list[int]:
        """Run the Controller as every hour; returns the number of tables of each Spark run."""
        self.jobs.started.clear()
        self.run_controller()
        spark = [start.arguments for start in self.jobs.started if start.job != JOB_PROCESS_TABLE]
        return sorted(len(parse_paths(one[Argument.PATHS])) for one in spark)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path, clock=ManualClock(datetime.now(timezone.utc) + timedelta(hours=1)))
    for table in TABLES:
        made.write(table, "LOAD00000001.parquet", key=1)
        made.write(table, "LOAD00000002.parquet", key=2)
    made.run_controller()  # registers them as inactive
    for table in TABLES:
        made.activate(f"{RAW}/shop/{table}/", PrimaryKey="id", FullLoadQuietMinutes="0")
    made.deadly = {f"shop/{table}/{DEADLY_LOAD}" for table in DEADLY[:3]} | {f"shop/{DEADLY[3]}/{DEADLY_CHANGE}"}
    return made


@pytest.mark.slow
def test_four_tables_that_end_runs_cost_the_other_46_nothing_and_are_failed_with_file_and_remedy(
    installation: Installation,
):
    good = [table for table in TABLES if table not in DEADLY]
    for table in TABLES:
        installation.write(table, "20240305-100500000.parquet", key=3)
    installation.hour()
    assert {table: installation.keys(table) for table in good} == {table: [1, 2, 3] for table in good}
    assert installation.keys(DEADLY[3]) == [1, 2]  # its full load is in order
    require_failed(installation)

    for hour in (2, 3):
        for table in TABLES:
            installation.write(table, f"20240305-1{hour}0500000.parquet", key=10 + hour)
        assert installation.hour() == [1, 1, 1, 1, 46]  # the others share a run, each of these dies in its own
        assert all(10 + hour in installation.keys(table) for table in good)
        require_failed(installation)

    installation.deadly.clear()  # DMS has written the files again
    assert installation.hour() == [1, 1, 1, 1]
    assert {table: installation.keys(table) for table in TABLES} == {table: [1, 2, 3, 12, 13] for table in TABLES}
    assert {status.health for status in installation.statuses().values()} == {Health.UP_TO_DATE}

    for table in TABLES:
        installation.write(table, "20240305-140500000.parquet", key=14)
    assert installation.hour() == [50]  # they share a run again


def require_failed(installation: Installation) -> None:
    statuses = installation.statuses()
    failed = {table for table, status in statuses.items() if status.health is not Health.UP_TO_DATE}
    assert failed == {f"shop.{table}" for table in DEADLY}
    for table in DEADLY:
        file = DEADLY_CHANGE if table == DEADLY[3] else DEADLY_LOAD
        item = installation.state(f"{RAW}/shop/{table}/").item
        assert item[Attribute.LAST_ERROR_CODE] == "DeadlyFileError"
        for text in (item[Attribute.LAST_ERROR], statuses[f"shop.{table}"].to_do):
            assert f"file {file}," in text
            assert "ended by signal 6" in text
            assert "Have DMS write the file again" in text
        assert statuses[f"shop.{table}"].health is Health.FAILED
