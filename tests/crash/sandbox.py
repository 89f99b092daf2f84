"""One table for a scenario: its environment, its source table, and a view of the lake from the outside."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.commit.log import ChangeLog
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.model.layout import is_in_history, is_in_iceberg
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.model.versions import VALIDITY_FLAG
from cdclake_devkit.memory import MemoryStore
from tests.cdclake.lake.table import Table, rows_of
from tests.crash.connectors import RAW
from tests.crash.faults import Injector
from tests.crash.iceberg import iceberg_table
from tests.crash.runner import LAYOUT, PATH, Runner, RunSpec
from tests.dying_store import Death, DiedError, DyingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cdclake.ports import ObjectStore
    from cdclake_devkit.oracle import LakeRow
    from tests.crash.environments import Environment

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.int32()), ("note", pa.string())])
SETTINGS = {
    Attribute.PRIMARY_KEY: "id",
    Attribute.PARTITION_KEY: "city",
    Attribute.MAX_QUARANTINED_ROWS: "5",
    Attribute.TARGET_FILE_BYTES: "1500",
    Attribute.FULL_LOAD_QUIET_MINUTES: "0",
    Attribute.HISTORY: "true",
    Attribute.ACTIVE_FLAG: "true",
}


class Sandbox:
    """An environment with one registered, active table.

    Args:
        environment: An empty environment.
        folder: An empty folder for undelivered raw files.
        readers: What readers open, as in the table's settings.

    Attributes:
        table: The source table, which writes raw files and remembers their rows.
        skews: How far the clock of each next run is ahead; of the machines that they run on.
        shown: What the clock of each run showed, by run id.
    """

    def __init__(self, environment: Environment, folder: Path, readers: str = "folder") -> None:
        self.environment = environment
        self.skews: Iterator[timedelta] = repeat(timedelta())
        self.shown: dict[str, datetime] = {}
        settings = {**SETTINGS, Attribute.READERS: readers}
        self.table = Table(folder, COLUMNS, settings)
        self._runs = 0
        self._states = environment.connector.ports(Injector()).states
        self._states.register(TableState.new(RAW, "shop/", "orders/").with_attributes(**settings))
        self._seen: dict[str, bytes] = {}

    def set(self, attribute: str, value: str) -> None:
        """Change a setting of the table, as an operator does."""
        self._states.set_attributes(PATH, {attribute: value})

    def deliver(self) -> None:
        """Deliver the raw files written since the last call, one minute later."""
        self.environment.clock.advance(60)
        for path in sorted(self.table.raw.rglob("*.parquet")):
            self.environment.put_raw(path.relative_to(self.table.raw).as_posix(), path.read_bytes())
            path.unlink()

    def spec(self) -> RunSpec:
        """The specification of the next run."""
        self._runs += 1
        item = self.state().item
        token = int(item.get(Attribute.FENCING_TOKEN, "0"))
        run_id = f"run-{self._runs}"
        self.shown[run_id] = self.environment.clock() + next(self.skews)
        return RunSpec(self.environment.connector, run_id, self.shown[run_id], item, token)

    def runner(self) -> Runner:
        """The next run, without faults."""
        return Runner(self.spec())

    def run_crashing_at_commit(self, start: Callable[[Runner], object], *, committed: bool) -> None:
        """Make the next run crash at its commit."""
        lake = self.environment.connector.ports(Injector()).lake
        dying = cast("ObjectStore", DyingStore(lake, Death(1, committed), ("put_if_absent",)))
        try:
            start(Runner(self.spec(), around_lake=lambda _: dying))
        except DiedError:
            return
        raise AssertionError

    def expire_lease(self) -> None:
        """Wait until every lease has expired."""
        self.environment.clock.advance(LEASE_SECONDS + 1)

    def state(self) -> TableState:
        """The table's item."""
        state = self._states.get(PATH)
        assert state is not None
        return state

    def view(self) -> View:
        """The lake as it is now, seen from the outside."""
        view = View(self.environment.lake_objects())
        for path, data in view.visible.items():
            assert self._seen.setdefault(path, data) == data, f"{path} differs from the earlier file with that name"
        return view

    def save(self) -> None:
        """Save the whole state."""
        self.environment.save()
        self._saved = self._runs, dict(self._seen)

    def restore(self) -> None:
        """Restore the saved state."""
        self.environment.restore()
        self._runs, self._seen = self._saved[0], dict(self._saved[1])


class View:
    """The content of a lake at one moment.

    Attributes:
        objects: All objects, by key.
        iceberg: The Iceberg table; None if readers find none.
        iceberg_history: That of the history, likewise.
        visible: The data files that readers see, in the folders of the table and its history and in the Iceberg tables,
            by their paths in snapshots.
        log: The change log.
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.iceberg, self.iceberg_history = (iceberg_table(objects, one) for one in (LAYOUT, LAYOUT.history))
        folders = (LAYOUT.table_prefix, LAYOUT.history.table_prefix)
        tables = (self.iceberg, self.iceberg_history)
        named = {LAYOUT.data_key(path) for table in tables if table for path in table.files}
        self.visible = {
            LAYOUT.data_path_of(key): data for key, data in objects.items() if key in named or key.startswith(folders)
        }
        store = MemoryStore()
        for key, data in objects.items():
            store.put(key, data)
        self.log = ChangeLog(store, LAYOUT)

    @cached_property
    def files(self) -> dict[str, pa.Table]:
        """The rows of each visible file; fails if one cannot be read."""
        return {path: _read(data) for path, data in self.visible.items()}

    def rows(self) -> list[LakeRow]:
        """The table's rows, in any order."""
        own = {path: data for path, data in self.files.items() if not is_in_history(path)}
        # Files of an Iceberg table contain the partition columns.
        folders = {path: "" if is_in_iceberg(path) else path for path in own}
        return list(chain.from_iterable(rows_of(folders[path], data, COLUMNS) for path, data in own.items()))

    def newest_versions(self) -> list[dict[str, Any]]:
        """The newest version of each key in the history, in any order."""
        rows = chain.from_iterable(data.to_pylist() for path, data in self.files.items() if is_in_history(path))
        return [row for row in rows if row[VALIDITY_FLAG]]


def _read(data: bytes) -> pa.Table:
    return pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
