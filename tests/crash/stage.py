"""What a scenario plays on: a world, the source table whose files come into it, and a look at what readers see."""

from __future__ import annotations

import io
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.memory import MemoryStore
from cdclake.commit.log import ChangeLog
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.model.layout import HISTORY
from cdclake.model.names import Attribute
from cdclake.model.table import TableState
from cdclake.model.versions import VALIDITY_FLAG
from tests.crash.actor import LAYOUT, PATH, Actor, Task
from tests.crash.faults import DiedError, DiesAtCommit, Injector
from tests.crash.places import RAW
from tests.lake.table import Table, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.oracle import LakeRow
    from cdclake.ports import ObjectStore
    from tests.crash.worlds import World

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


class Stage:
    """A world with one registered, active table.

    Args:
        world: An empty world.
        folder: An empty folder, for raw files on their way.

    Attributes:
        table: Writes raw files, and keeps what they hold.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.table = Table(folder, COLUMNS, dict(SETTINGS))
        self._runs = 0
        self._states = world.place.ports(Injector()).states
        self._states.register(TableState.new(RAW, "shop/", "orders/").with_attributes(**SETTINGS))
        self._seen: dict[str, bytes] = {}

    def set(self, attribute: str, value: str) -> None:
        """A person changes a setting of the table."""
        self._states.set_attributes(PATH, {attribute: value})

    def deliver(self) -> None:
        """What was written of the table since the last time arrives in the raw bucket, some time later."""
        self.world.clock.advance(60)
        for path in sorted(self.table.raw.rglob("*.parquet")):
            self.world.put_raw(path.relative_to(self.table.raw).as_posix(), path.read_bytes())
            path.unlink()

    def task(self) -> Task:
        """What the next run is given."""
        self._runs += 1
        item = self.state().item
        token = int(item.get(Attribute.FENCING_TOKEN, "0"))
        return Task(self.world.place, f"run-{self._runs}", self.world.clock(), item, token)

    def actor(self) -> Actor:
        """The next run, undisturbed."""
        return Actor(self.task())

    def run_that_dies(self, act: Callable[[Actor], object], *, committed: bool) -> None:
        """The next run, which dies at its commit."""
        lake = self.world.place.ports(Injector()).lake
        dying = cast("ObjectStore", DiesAtCommit(lake, committed=committed))
        try:
            act(Actor(self.task(), around_lake=lambda _: dying))
        except DiedError:
            return
        raise AssertionError

    def outlive_lease(self) -> None:
        """Wait until every lease is over."""
        self.world.clock.advance(LEASE_SECONDS + 1)

    def state(self) -> TableState:
        """The table's item."""
        state = self._states.get(PATH)
        assert state is not None
        return state

    def look(self) -> View:
        """What is there now, as seen from the outside."""
        view = View(self.world.lake_objects())
        for path, data in view.visible.items():
            assert self._seen.setdefault(path, data) == data, f"{path} is not the file of that name that was there"
        return view

    def save(self) -> None:
        """Remember everything as it is."""
        self.world.save()
        self._saved = self._runs, dict(self._seen)

    def restore(self) -> None:
        """Put everything back as it was when it was saved."""
        self.world.restore()
        self._runs, self._seen = self._saved[0], dict(self._saved[1])


class View:
    """What lies in a lake at one moment.

    Attributes:
        objects: All of it, by key.
        visible: What lies in the folders of the table and its history, by path as snapshots have it.
        log: The change log.
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        folders = (LAYOUT.table_prefix, LAYOUT.history_prefix)
        self.visible = {LAYOUT.data_path_of(key): data for key, data in objects.items() if key.startswith(folders)}
        store = MemoryStore()
        for key, data in objects.items():
            store.put(key, data)
        self.log = ChangeLog(store, LAYOUT)

    @cached_property
    def files(self) -> dict[str, pa.Table]:
        """Contents of each visible file; fails if one cannot be read."""
        return {path: _read(data) for path, data in self.visible.items()}

    def rows(self) -> list[LakeRow]:
        """The table's rows, in no order."""
        own = {path: data for path, data in self.files.items() if not path.startswith(HISTORY)}
        return list(chain.from_iterable(rows_of(path, data, COLUMNS) for path, data in own.items()))

    def newest_versions(self) -> list[dict[str, Any]]:
        """The newest version of each key in the history, in no order."""
        rows = chain.from_iterable(data.to_pylist() for path, data in self.files.items() if path.startswith(HISTORY))
        return [row for row in rows if row[VALIDITY_FLAG]]


def _read(data: bytes) -> pa.Table:
    return pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
