"""A folder that other jobs filled, its item in the state table, and its adoption.

Only adoption starts from files that cdclake did not write.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.lake.operations.adopt.adopt import Adoption, AdoptionSource, plan_adoption
from cdclake.lake.operations.erase.erase import Erasure, ErasureResult, erase
from cdclake.lake.operations.erase.progress import Progress
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_filter import RowKeys
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock, MemoryState
from tests.cdclake.lake.table import NAME, RAW_PREFIX, Table

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.model.change.record import ChangeRecord

RAW_PATH = f"raw/{RAW_PREFIX}"
APPLIED = "20240305-090000000.parquet"
"""The last change file that the other jobs applied."""
LOADED_UTC = "2024-03-01 12:00:00"


@dataclass
class AdoptableTable:
    """A registered table whose folder other jobs filled.

    Attributes:
        table: Raw and lake folder; its settings are the item's.
        states: The state table.
    """

    table: Table
    clock: ManualClock = field(default_factory=lambda: ManualClock(datetime(2024, 3, 5, 12, tzinfo=timezone.utc)))
    states: MemoryState = field(init=False)

    def __post_init__(self) -> None:
        state = TableState.new("raw", "shop/", "orders/").with_attributes(
            **{
                Attribute.ACTIVE_FLAG: "true",
                Attribute.LAST_FULL_LOAD_DATE: LOADED_UTC,
                Attribute.LAST_INCREMENTAL_FILE: RAW_PATH + APPLIED,
                **self.table.item,
            }
        )
        self.states = MemoryState([state])

    @property
    def state(self) -> TableState:
        state = self.states.get(RAW_PATH)
        assert state
        return state

    @property
    def folder(self) -> Path:
        """The table's folder in the lake."""
        self.table.folder.mkdir(parents=True, exist_ok=True)
        return self.table.folder

    def write(self, path: str, rows: pa.Table, *, store_schema: bool = False, int96: bool = False) -> None:
        """Write a Parquet file into the folder, as another program would."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target, store_schema=store_schema, use_deprecated_int96_timestamps=int96)

    def plan(self) -> Adoption:
        raw = self.table.raw.as_uri()
        source = AdoptionSource(
            state=self.state,
            log=self.table.log,
            lake_fs=lake_filesystem(self.table.lake.as_uri()).open(),
            raw=open_store(raw),
            raw_fs=lake_filesystem(raw).open(),
            limits=self.table.limits,
        )
        return plan_adoption(source)

    def registered(self, run_id: str = "by-hand") -> RegisteredTable:
        return RegisteredTable(self.states, self.state, self.table.log, run_id, self.clock)

    def adopt(self) -> ChangeRecord:
        record = self.registered().adopt(self.plan().table)
        self.table.runs = record.fencing_token  # later runs have later leases
        return record

    def erase(self, *keys: str) -> ErasureResult:
        table = self.table
        lake = table.log.snapshot(table.log.head())
        erasure = Erasure(
            location=TableLocation.at(table.lake.as_uri(), NAME.typed),
            log=table.log,
            keys=RowKeys.parse(keys, lake.primary_key, lake.schema),
            raw=None,
            run_id="erase",
            reason="request 17",
            made_by="the officer",
            clock=self.clock,
            progress=Progress(),
        )
        return self.registered("erase").change(lambda token: erase(erasure, token))

    def hashes(self) -> dict[str, str]:
        """SHA-256 of every file in the folder, including hidden ones, by relative path."""
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.rglob("*")
            if path.is_file()
        }
