"""Where a run works: a folder with the state table in a file, or S3 and DynamoDB. Small, and can be sent to a child."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast

from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.memory import MemoryState
from cdclake.adapters.stores import store
from cdclake.model.names import STATE_TABLE
from cdclake.model.table import TableState
from tests.crash.faults import FaultyFiles, FaultyPort, Injector

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.ports import JobRunner, ObjectStore, StateStore

RAW, LAKE = "raw-bucket", "lake-bucket"


@dataclass(frozen=True)
class Ports:
    """All that a run touches, each call of which may be struck.

    Attributes:
        around_jobs: Puts the fault between a run and the job runner.
    """

    raw: ObjectStore
    lake: ObjectStore
    raw_fs: FileSystemSpec
    lake_fs: FileSystemSpec
    states: StateStore
    around_jobs: Callable[[JobRunner], JobRunner]


class Place(Protocol):
    """Where a run works; knows how to get there from any process."""

    def ports(self, injector: Injector) -> Ports:
        """Connect.

        Args:
            injector: Strikes at the calls of the ports, if this place has no other way.
        """
        ...


@dataclass(frozen=True)
class Folder:
    """Raw and lake folders, and the state table beside them. Faults strike at the ports' calls."""

    root: Path

    def ports(self, injector: Injector) -> Ports:
        """See `Place.ports`."""
        raw, lake = self.root / "raw", self.root / "lake"
        return Ports(
            raw=cast("ObjectStore", FaultyPort(store(raw.as_uri()), injector)),
            lake=cast("ObjectStore", FaultyPort(store(lake.as_uri()), injector)),
            raw_fs=cast("FileSystemSpec", FaultyFiles(raw, lake_filesystem(raw.as_uri()), injector)),
            lake_fs=cast("FileSystemSpec", FaultyFiles(lake, lake_filesystem(lake.as_uri()), injector)),
            states=cast("StateStore", FaultyPort(StateOnDisk(self.root / "state.json"), injector)),
            around_jobs=lambda jobs: cast("JobRunner", FaultyPort(jobs, injector)),
        )


@dataclass(frozen=True)
class Aws:
    """Buckets and a state table behind an endpoint, which is where faults strike."""

    environment: tuple[tuple[str, str], ...]

    def ports(self, injector: Injector) -> Ports:
        """See `Place.ports`. Nothing is injected here."""
        return _connect(self)


@lru_cache(maxsize=1)
def _connect(place: Aws) -> Ports:
    os.environ.update(place.environment)
    return Ports(
        raw=store(RAW),
        lake=store(LAKE),
        raw_fs=lake_filesystem(RAW),
        lake_fs=lake_filesystem(LAKE),
        states=DynamoState(client("dynamodb"), STATE_TABLE),
        around_jobs=lambda jobs: jobs,
    )


class StateOnDisk:
    """A `StateStore` that outlives its process: `MemoryState`, read from a file and written back at each call.

    For one process at a time; its threads may share it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                items = json.loads(self._path.read_text()) if self._path.exists() else []
                states = MemoryState(TableState(item) for item in items)
                result = getattr(states, name)(*arguments, **named)
                written = self._path.with_suffix(".new")
                written.write_text(json.dumps([dict(state.item) for state in states.all()]))
                written.replace(self._path)
                return result

        return call
