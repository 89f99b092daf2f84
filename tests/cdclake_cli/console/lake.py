"""A lake with tables in different states, made without Spark: the content of data files is arbitrary.

Only the console uses it: its pages show figures, names and texts that no other test looks at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from cdclake.commit.log import ChangeLog
from cdclake.control.admin.installation import Installation
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.controller import PlanInputs
from cdclake.control.plan.open_findings import OpenFindings
from cdclake.model.change.record import ChangeKind, ChangeRecord, RawFileRows
from cdclake.model.schema import Column, Schema
from cdclake.model.table.name import TableName
from cdclake.model.times import iso_utc
from tests.builders import LakeBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cdclake.ports import Clock, ObjectStore, StateStore
    from cdclake_devkit.memory import MemoryState, MemoryStore

FIRST_CHANGE_UTC = datetime(2024, 3, 5, 10, 2, 11, tzinfo=timezone.utc)
SCHEMA = Schema((Column("id", "bigint"), Column("customer", "string")))
ORDERS, STORE, PRODUCT = TableName("shop", "orders"), TableName("shop", "store"), TableName("shop", "product")
LONG = TableName("enterprise_resource_planning", "customer_order_line_item_allocation_history_by_fulfilment_centre")
DELAYS = {20: 40, 21: 42, 22: 185}
"""Of changes of `ORDERS`, in seconds."""
WRONG = (
    "BadRowError: A value of column price is not a valid decimal(10,2) (file 20240305-181502440.csv, row 3). "
    "Nothing was applied. Have the file corrected"
)
BAD_ROWS: list[dict[str, object]] = [
    {
        "file": "20240305-180233117.csv",
        "row": 41,
        "reason": "The operation of a change row is not I, U or D",
        "columns": ["Op"],
        "content": {"Op": "X", "id": "80412", "customer": "<script>document.title = 'owned'</script>", "price": None},
    },
    {
        "file": "20240305-180233117.csv",
        "row": 97,
        "reason": "A value of column price is not a valid decimal(10,2)",
        "columns": ["price"],
        "content": {"Op": "U", "id": "80467", "customer": "Grace & Söhne", "price": "12,5"},
    },
    {
        "file": "20240305-181502440.csv",
        "row": 3,
        "reason": "The row has 3 fields, and the file's header 4",
        "columns": [],
        "content": 'U,80471,"Ada <ada@example.com>"',
    },
]


@dataclass(frozen=True)
class MemoryLake:
    """The lake of a console, in memory."""

    store: MemoryStore
    raw: MemoryStore
    states: MemoryState
    clock: Clock
    installation: Installation = field(default_factory=Installation)

    @property
    def plan_inputs(self) -> PlanInputs:
        return PlanInputs(self.raw, self.states, self.installation.raw_bucket, self.installation.raw_folder)

    def log(self, name: TableName) -> ChangeLog:
        return ChangeLog(self.store, self.installation.layout(name))

    def open_table(self, name: TableName, made_by: str = "") -> RegisteredTable:
        state = self.installation.find_table(self.states, name)
        return RegisteredTable(self.states, state, self.log(name), "by-hand-1", self.clock, None, made_by)


class GrowingTable:
    """Appends changes to a table's log, an hour apart; each rewrites one data file and adds one."""

    def __init__(self, log: ChangeLog, full_load_utc: str = "2024-03-05 10:00:00") -> None:
        self.log = log
        self._builder = LakeBuilder(log, self._next_time, lambda key: key.encode() * 40, SCHEMA)
        self._full_load_utc = full_load_utc

    def _next_time(self) -> datetime:
        return FIRST_CHANGE_UTC + timedelta(hours=self.log.head())

    def load(self, rows: int, files: int = 4) -> ChangeRecord:
        """Commit and publish a full load."""
        return self._append(
            [rows - rows // files * (files - 1), *[rows // files] * (files - 1)],
            (),
            {"full_load_utc": self._full_load_utc, "watermark": ""},
            kind=ChangeKind.FULL_LOAD,
            raw_files=(RawFileRows("LOAD00000001.csv", rows),),
            seconds={"list": 0.4, "load": 21.7},
        )

    def change(
        self,
        inserted: int,
        updated: int,
        deleted: int,
        *,
        superseded: int = 0,
        bad_rows: Sequence[Mapping[str, object]] = (),
        made_by: str = "",
        reason: str = "",
        written_utc: str = "",
        seconds: float | None = None,
    ) -> ChangeRecord:
        """Commit and publish a change with these numbers of rows, and in as many seconds as they take if not told."""
        oldest = self._builder.snapshot.files[0]
        rows = oldest.rows + inserted - deleted
        raw = f"{self._next_time():%Y%m%d-%H%M%S}117.csv"
        return self._append(
            [rows - rows // 2, rows // 2],
            (oldest.path,),
            {"watermark": raw},
            books={
                "read_insert": inserted + superseded,
                "read_update": updated,
                "read_delete": deleted,
                "read_unknown": len(bad_rows),
                "applied": inserted + updated + deleted,
                "superseded": superseded,
                "quarantined": len(bad_rows),
                "inserted": inserted,
                "updated": updated,
                "deleted": deleted,
                "replaced": 0,
            },
            kind=ChangeKind.DIRECT if made_by else ChangeKind.INCREMENTAL,
            raw_files=(RawFileRows(raw, inserted + superseded + updated + deleted + len(bad_rows), len(bad_rows)),),
            bad_rows="".join(json.dumps(row) + "\n" for row in bad_rows).encode(),
            made_by=made_by,
            reason=reason,
            oldest_written_utc=written_utc,
            newest_written_utc=written_utc,
            bytes_read=1_430_000 + 900 * updated,
            seconds={"rewrite": seconds}
            if seconds is not None
            else {
                "list": 0.31,
                "read": 0.84,
                "route": 0.4,
                "rewrite": 1.5 + (inserted + updated) / 900,
                "stage": 0.22,
            },
        )

    def _append(
        self, sizes: list[int], retired: tuple[str, ...], snapshot: Mapping[str, Any], **fields: Any
    ) -> ChangeRecord:
        record = self._builder.change(
            len(sizes),
            retired,
            run_id=f"jr_{self.log.head() + 1:032x}",
            rows=sizes,
            snapshot=snapshot,
            **fields,
        )
        self.log.mark_published(record.change, {"publish": 0.38})
        return record


def fill(states: StateStore, raw: ObjectStore, log_of: Callable[[TableName], ChangeLog], now: datetime) -> None:
    """Add five tables: with many changes, with a failed run, inactive, unregistered, and with long names."""
    installation = Installation()
    for name in (ORDERS, STORE, PRODUCT, LONG):
        raw.put(f"{name.schema}/{name.table}/LOAD00000001.csv", b"id\n1\n")
        states.register(installation.new_state(name))
    raw.put("shop/vouchers/LOAD00000001.csv", b"id\n1\n")  # no run has seen it yet
    loaded = (now + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")
    ran = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for name in (ORDERS, STORE, LONG):
        path = installation.new_state(name).path
        states.set_attributes(path, {"PrimaryKey": "id", "ActiveFlag": "true"})
        states.record_run(path, {"LastFullLoadDate": loaded, "LastRunState": "SUCCEEDED", "LastRunUtc": ran})
    states.set_attributes(installation.new_state(PRODUCT).path, {"PrimaryKey": "id"})
    states.record_run(installation.new_state(STORE).path, {"LastRunState": "FAILED", "LastError": WRONG})

    orders = GrowingTable(log_of(ORDERS), loaded)
    orders.load(300_000)
    for number in range(2, 23):
        if number == 9:
            orders.change(310, 180, 22, superseded=12, bad_rows=BAD_ROWS)
        elif number == 15:
            orders.change(0, 41, 0, made_by="ada", reason="prices of last week, as agreed with sales")
        else:
            written = iso_utc(now - timedelta(seconds=DELAYS[number])) if number in DELAYS else ""
            rows = (900 + 410 * (number * 7 % 5), 260 + 130 * (number * 3 % 7), 40 * (number % 4))
            orders.change(*rows, written_utc=written)
    GrowingTable(log_of(STORE), loaded).load(120, files=1)
    long = GrowingTable(log_of(LONG), loaded)
    long.load(1_204_331_077, files=8)
    long.change(12_004_331, 7_900_120, 55_102)
    for name in (ORDERS, STORE, LONG):
        path = installation.new_state(name).path
        lake = log_of(name).snapshot(log_of(name).head())
        states.set_attributes(path, {"AcknowledgedChange": str(lake.change)})
        attributes = {"LastChangeId": str(lake.change), "LastFindings": str(OpenFindings(lake.change))}
        if name == ORDERS:
            delays = [[number, int(now.timestamp()), seconds] for number, seconds in DELAYS.items()]
            attributes["LastDelays"] = json.dumps(delays)
        if lake.watermark:
            attributes["LastIncrementalFile"] = f"{path}{lake.watermark}"
        states.record_run(path, attributes)
