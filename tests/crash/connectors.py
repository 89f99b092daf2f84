"""Connects runs to their stores: a folder with the state table in a file, or S3 and DynamoDB.

Connectors are picklable.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast

from cdclake.adapters.aws import client
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.filesystem import FileSystemSpec, lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import MemoryState
from tests.crash.faults import FaultyFiles, FaultyPort, Injector

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.ports import Catalog, JobRunner, ObjectStore, StateStore

RAW, LAKE, DATABASE = "raw-bucket", "lake-bucket", "lake"


@dataclass(frozen=True)
class Ports:
    """All stores and services of a run, with faults injected into their calls.

    Attributes:
        around_jobs: Injects faults into a job runner.
        catalog: The catalog of the lake tables; None: there is none.
    """

    raw: ObjectStore
    lake: ObjectStore
    raw_fs: FileSystemSpec
    lake_fs: FileSystemSpec
    states: StateStore
    around_jobs: Callable[[JobRunner], JobRunner]
    catalog: Catalog | None = None


class Connector(Protocol):
    """Connects a run to its stores, from any process."""

    def ports(self, injector: Injector) -> Ports:
        """Connect.

        Args:
            injector: Injects faults into calls, unless the faults are injected elsewhere.
        """
        ...


@dataclass(frozen=True)
class FolderConnector:
    """Raw and lake folders, and the state table in a file. Faults are injected into calls of the ports."""

    root: Path

    def ports(self, injector: Injector) -> Ports:
        raw, lake = self.root / "raw", self.root / "lake"
        return Ports(
            raw=cast("ObjectStore", FaultyPort(open_store(raw.as_uri()), injector)),
            lake=cast("ObjectStore", FaultyPort(open_store(lake.as_uri()), injector)),
            raw_fs=cast("FileSystemSpec", FaultyFiles(raw, lake_filesystem(raw.as_uri()), injector)),
            lake_fs=cast("FileSystemSpec", FaultyFiles(lake, lake_filesystem(lake.as_uri()), injector)),
            states=cast("StateStore", FaultyPort(StateOnDisk(self.root / "state.json"), injector)),
            around_jobs=lambda jobs: cast("JobRunner", FaultyPort(jobs, injector)),
        )


@dataclass(frozen=True)
class AwsConnector:
    """Buckets, a state table and a catalog at an endpoint, which injects the faults."""

    environment: tuple[tuple[str, str], ...]

    def ports(self, injector: Injector) -> Ports:
        """See `Connector.ports`. Ignores the injector."""
        return _connect(self)


@lru_cache(maxsize=1)
def _connect(connector: AwsConnector) -> Ports:
    os.environ.update(connector.environment)
    return Ports(
        raw=open_store(RAW),
        lake=open_store(LAKE),
        raw_fs=lake_filesystem(RAW),
        lake_fs=lake_filesystem(LAKE),
        states=DynamoState(client("dynamodb"), STATE_TABLE),
        around_jobs=lambda jobs: jobs,
        catalog=GlueCatalog(client("glue"), DATABASE),
    )


_LOCKS = defaultdict["Path", Lock](Lock)


class StateOnDisk:
    """A persistent `StateStore`: a `MemoryState` that is read from a file and written back on each call.

    For one process at a time. Its threads may share the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _LOCKS[path]

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
