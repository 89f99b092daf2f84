"""One table whose raw files a test writes by hand, with the whole pipeline in this process."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.model.layout import LakeLayout
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock
from tests.builders import LAKE, RAW, FolderInstallation

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake.control.status import TableStatus
    from cdclake.model.snapshot import Snapshot

PREFIX = "shop/orders/"
PATH = f"{RAW}/{PREFIX}"
START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
SETTINGS = {"PrimaryKey": "id", "Schema": "id int, name string", "FullLoadQuietMinutes": "0"}


class Orders:
    """`shop.orders` with the columns `id` and `name`, in CSV files. It is active, and nothing is loaded yet.

    Attributes:
        clock: The time of runs. Files are written at that time.
    """

    def __init__(self, root: Path, **settings: str) -> None:
        self.clock = ManualClock(START)
        self.installation = FolderInstallation(root, clock=self.clock)
        self._raw = root / RAW
        self.put("LOAD00000001.csv", "1,one\n2,two\n")
        self.installation.run_controller()
        self.installation.activate(PATH, **SETTINGS, **settings)

    def put(self, name: str, content: str, written_utc: datetime | None = None) -> None:
        """Write a raw file.

        Args:
            written_utc: Its Last-Modified; None: now.
        """
        path = self._raw / PREFIX / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        self.touch(name, written_utc)

    def touch(self, name: str, written_utc: datetime | None = None) -> None:
        """Copy a raw file onto itself."""
        seconds = (written_utc or self.clock()).timestamp()
        os.utime(self._raw / PREFIX / name, (seconds, seconds))

    def remove(self, name: str) -> None:
        (self._raw / PREFIX / name).unlink()

    def by_hand(self) -> RegisteredTable:
        """The table for an operator's commands."""
        one = self.installation
        return RegisteredTable(one.states, one.state(PATH), one.log(PATH), "by-hand", self.clock)

    def rollback(self, to: int) -> None:
        """Roll back, then turn the table on."""
        self.by_hand().rollback(to)
        self.installation.activate(PATH)

    def forget_identities(self) -> None:
        """Make the lake and the item know no identities, as of raw files that an erasure has rewritten."""
        log, store, ledger = self.installation.log(PATH), self.installation.bucket(LAKE), self.snapshot.ledger
        recent = {name: entry._replace(identity="") for name, entry in ledger.recent.items()}
        unknown = replace(ledger, loads=dict.fromkeys(ledger.loads, ""), recent=recent)
        store.put(log.record(log.head()).snapshot_key, replace(self.snapshot, ledger=unknown).to_bytes())
        self.installation.states.record_run(PATH, {Attribute.LAST_FULL_LOAD_FILES: ""})

    def set(self, **attributes: str) -> None:
        """Set attributes by hand."""
        self.installation.states.set_attributes(PATH, attributes)

    def run(self, minutes: float = 60) -> TableStatus:
        """Let time pass, run the Controller and what it starts, and return the status."""
        self.clock.advance(minutes * 60)
        self.installation.run_controller()
        self.clock.advance(60)
        return self.status()

    def plan(self) -> PlannedTable:
        (planned,) = self.installation.plan().tables
        return planned

    def status(self) -> TableStatus:
        return self.installation.statuses()["shop.orders"]

    def attribute(self, name: str) -> str:
        return self.installation.state(PATH).item[name]

    @property
    def snapshot(self) -> Snapshot:
        log = self.installation.log(PATH)
        return log.snapshot(log.head())

    def rows(self) -> dict[int, str]:
        """Name by id, as readers see them."""
        store = self.installation.bucket(LAKE)
        layout = LakeLayout(LAKE, "", self.installation.state(PATH).name)
        found = {}
        for entry in store.list(layout.table_prefix):
            for row in pq.read_table(self.installation.root / LAKE / entry.key).to_pylist():
                found[row["id"]] = row["name"]
        return found


def change_name(at: datetime) -> str:
    """Name of a change file that DMS writes at a time."""
    return f"{at:%Y%m%d-%H%M%S}000.csv"


def after(**time: float) -> datetime:
    """A time after `START`."""
    return START + timedelta(**time)
