"""A stand-in for the jobs of AWS's walkthrough: their algorithm on Arrow tables, which may die as they do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.adopt import adopt
from cdclake.commit.log import ChangeLog
from cdclake.lake.operations.adopt.adopt import AdoptionSource, plan_adoption
from cdclake.lake.operations.load import load_incremental
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake.model.table.state import TableState
from cdclake_cli.walkthrough.beside import RawBucket
from cdclake_cli.walkthrough.check import WalkthroughTable
from tests.builders import table_run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cdclake.lake.operations.table_run import TableRun

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.int32())])
START = datetime(2024, 3, 1, tzinfo=timezone.utc)
WRITING, DELETING = "while it writes", "before it deletes"
"""Where a run may die."""


@dataclass
class Walkthrough:
    """One table of the walkthrough, with its raw folder, its lake folder and its item.

    Attributes:
        root: Folder of all tables.
        partition: Whether the table is partitioned by its column `city`.
    """

    root: Path
    name: str
    partition: bool = False
    item: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.raw, self.lake = self.root / "raw", self.root / "lake"
        self.state = TableState.new("raw", "shop/", f"{self.name}/")
        self.item = {**self.state.item, "PrimaryKey": "id", "ActiveFlag": "true", **self.item}
        self.item["PartitionKey"] = "city" if self.partition else "null"
        self.raw_folder, self.folder = (one / "shop" / self.name for one in (self.raw, self.lake))
        for one in (self.raw_folder, self.folder):
            one.mkdir(parents=True)
        self._minutes = count(1)
        self._numbers = count()

    def write_load(self, rows: Iterable[dict[str, Any]]) -> None:
        self._write_raw("LOAD00000001.parquet", pa.Table.from_pylist(list(rows), COLUMNS))

    def write_changes(self, changes: Iterable[tuple[str, dict[str, Any]]], name: str = "") -> str:
        """Write a change file, by default named by its time."""
        now = START + timedelta(minutes=next(self._minutes))
        schema = COLUMNS.insert(0, pa.field("Op", pa.string()))
        name = name or f"{now:%Y%m%d-%H%M%S}000.parquet"
        self._write_raw(name, pa.Table.from_pylist([{"Op": op, **row} for op, row in changes], schema))
        return name

    def _write_raw(self, name: str, rows: pa.Table) -> None:
        pq.write_table(rows, self.raw_folder / name)
        self._stamp(self.raw_folder / name)

    def _stamp(self, path: Path) -> None:
        written = (START + timedelta(minutes=next(self._minutes))).timestamp()
        os.utime(path, (written, written))

    def load_initial(self, files: int = 4) -> None:
        """The job LoadInitial."""
        (load,) = self.raw_folder.glob("LOAD*")
        rows = [{**row, "Op": "I"} for row in pq.read_table(load).to_pylist()]
        for number in range(files):
            self._write(rows[number::files])
        (self.folder / "_SUCCESS").touch()
        loaded = datetime.fromtimestamp(load.stat().st_mtime, timezone.utc)
        self.item["LastFullLoadDate"] = f"{loaded:%Y-%m-%d %H:%M:%S}"

    def load_incremental(self, dies: str = "") -> None:
        """The job LoadIncremental, and what ProcessTable does after it."""
        last = self.item["LastIncrementalFile"].rpartition("/")[2]
        files = [path for path in sorted(self.raw_folder.glob("2*")) if path.name > last]
        changes = [row for path in files for row in pq.read_table(path).to_pylist()]
        newest = {row["id"]: row for row in changes}
        rows = {path: self._read(path) for path in self._files()}
        touched = {path: own for path, own in rows.items() if any(row["id"] in newest for row in own)}
        kept = [row for own in touched.values() for row in own if row["id"] not in newest]
        output = [*kept, *(row for row in newest.values() if row["Op"] != "D")]
        written = self._write(output)
        if dies == WRITING:
            written[-1].write_bytes(written[-1].read_bytes()[:-40])
            return
        if dies == DELETING:
            return
        for path in touched:
            path.unlink()
        self.item["LastIncrementalFile"] = f"{self.state.path}{files[-1].name}"

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.folder.rglob("part-*.parquet")) if "_temporary" not in str(path)]

    def _read(self, path: Path) -> list[dict[str, Any]]:
        city = {}
        if self.partition:
            text = path.parent.name.partition("=")[2]
            city = {"city": None if text.startswith("__HIVE") else text}
        return [{**row, **city} for row in pq.read_table(path, partitioning=None).to_pylist()]

    def _write(self, rows: list[dict[str, Any]]) -> list[Path]:
        """Write one file, or one for each partition."""
        schema = COLUMNS.append(pa.field("Op", pa.string()))
        by_folder: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            text = "__HIVE_DEFAULT_PARTITION__" if row["city"] is None else quote(row["city"])
            by_folder.setdefault(f"city={text}" if self.partition else "", []).append(row)
        written = []
        for folder, own in by_folder.items():
            path = self.folder / folder / f"part-{next(self._numbers):05}-6f1c.c000.snappy.parquet"
            path.parent.mkdir(exist_ok=True)
            stored = schema.remove(schema.get_field_index("city")) if self.partition else schema
            pq.write_table(pa.Table.from_pylist(own, stored), path)
            self._stamp(path)
            written.append(path)
        return written

    def change_row(self, number: int, **values: Any) -> None:
        """Change a row by hand."""
        for path in self._files():
            rows = pq.read_table(path, partitioning=None)
            if number in rows["id"].to_pylist():
                changed = [{**row, **values} if row["id"] == number else row for row in rows.to_pylist()]
                pq.write_table(pa.Table.from_pylist(changed, rows.schema), path)

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(open_store(self.lake.as_uri()), LakeLayout("lake", "", self.state.name))

    @property
    def table(self) -> WalkthroughTable:
        """The table, to check it."""
        raw = RawBucket(open_store(self.raw.as_uri()), lake_filesystem(self.raw.as_uri()))
        fs = lake_filesystem(self.lake.as_uri()).open()
        return WalkthroughTable(TableState(self.item), self.log, fs, raw, lambda: datetime.now(timezone.utc))

    def migrate(self) -> None:
        """Adopt the table where it is, and apply the changes that are due."""
        table = self.table
        source = AdoptionSource(table.state, self.log, table.lake_fs, table.raw.store, table.raw.spec.open())
        adopt(self.log, plan_adoption(source).table, "by-hand", 0, table.clock)
        load_incremental(self._run(), InProcessBackend())

    def _run(self) -> TableRun:
        layout = LakeLayout("lake", "", self.state.name)
        return table_run(self.raw, self.lake, f"shop/{self.name}/", layout, self.item, fencing_token=0)

    def rows(self) -> list[dict[str, Any]]:
        """The rows that a reader of the folder sees."""
        paths = [path for path in self.folder.rglob("*.parquet") if "_temporary" not in str(path)]
        rows = [row for path in paths for row in self._read(path)]
        return sorted(({name: row[name] for name in COLUMNS.names} for row in rows), key=lambda row: int(row["id"]))

    def expected(self) -> list[dict[str, Any]]:
        """The rows after all raw files: each change once, in the order of files and rows."""
        (load,) = self.raw_folder.glob("LOAD*")
        rows = {row["id"]: row for row in pq.read_table(load).to_pylist()}
        for path in sorted(self.raw_folder.glob("2*")):
            for row in pq.read_table(path).to_pylist():
                if row.pop("Op") == "D":
                    rows.pop(row["id"], None)
                else:
                    rows[row["id"]] = row
        return [rows[number] for number in sorted(rows)]
