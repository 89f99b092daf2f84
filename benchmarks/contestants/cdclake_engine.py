"""This repository's LoadInitial and LoadIncremental, in folders or on S3."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from benchmarks.contestants.lake_storage import open_storage
from benchmarks.contestants.spark import start_session
from benchmarks.task import APPLY, TableFiles
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.log import ChangeLog
from cdclake.lake.merge import in_place
from cdclake.lake.operations.load import load_incremental, load_initial
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake.model.iceberg.table import Readers
from cdclake.model.layout import LakeLayout
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.task import Task

_RAW_PREFIX, _HISTORY_PREFIX = "bench/orders/", "bench/orders_history/"
_LAYOUT = LakeLayout("lake", "", TableName("bench", "orders"))
_ATTEMPTS = 4
_WARM_UP_TASKS = 4
_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.driver.memory": "1g"}
"""As in `cdclake local`: Java only passes bytes on, so its optimizing compiler costs more than it saves, and Spark's
default heap is enough."""
_CHANGES_PER_CLEAN_UP = 20


class Engine:
    """cdclake."""

    _backend: SparkBackend

    def __init__(self, task: Task) -> None:
        self._task = task
        self._readers = Readers(task.readers)
        self._storage = open_storage(task)
        self._settings_file = Path(task.work) / "target-file-bytes.json"

    def start(self) -> None:
        """See `Contestant`. Starts Spark and its Python workers, which import the engine's tasks, and runs a small job.

        Also imports pyiceberg, if the table needs it: that takes most of a second, once a job.
        """
        changes = self._task.change_files if self._task.action == APPLY else ()
        self._storage.add_raw(_RAW_PREFIX, (*self._task.load_files, *changes))
        self._backend = SparkBackend(start_session(self._task, _SETTINGS).sparkContext)
        if self._readers.open_iceberg:
            import_module("cdclake.lake.storage.iceberg_manifests")
        tasks = self._backend.distribute([[number] for number in range(_WARM_UP_TASKS)])
        tasks.map_partitions(_import_tasks).shuffle(_WARM_UP_TASKS).collect_partitions()

    def build(self) -> None:
        """See `Contestant`. Finds the file size for the required number of files by trial."""
        required = self._task.data_files
        target_file_bytes = sum(Path(file).stat().st_size for file in self._task.load_files) // required
        if required == self._task.partition_values:
            target_file_bytes = TableSettings.target_file_bytes
        for _ in range(_ATTEMPTS):
            self._storage.clear_lake()
            load_initial(self._run("build", target_file_bytes), self._backend)
            actual = len(self.files().data)
            if actual == required:
                break
            target_file_bytes = target_file_bytes * actual // required
        self._apply_past(target_file_bytes)
        self._storage.discard_raw()
        self._settings_file.write_text(json.dumps(target_file_bytes), encoding="utf-8")

    def _apply_past(self, target_file_bytes: int) -> None:
        """Apply the past's files, in this process: Spark would take several times as long."""
        for number, file in enumerate(self._task.past_files, 1):
            self._storage.add_raw(_RAW_PREFIX, (file,))
            run = self._run(f"past-{number}", target_file_bytes)
            load_incremental(run, InProcessBackend(), "", "")
            if number % _CHANGES_PER_CLEAN_UP == 0:
                clean_up(run.log, plan_clean_up(run.log, timedelta(0), run.clock()))

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        return _details(load_initial(self._run("load", TableSettings.target_file_bytes), self._backend))

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        target_file_bytes = json.loads(self._settings_file.read_text(encoding="utf-8"))
        return _details(load_incremental(self._run("apply", target_file_bytes), self._backend, "", ""))

    def files(self) -> TableFiles:
        """See `Contestant`.

        Raises:
            RuntimeError: Readers of the folder and of the Iceberg table do not see the same files.
        """
        versions = self._storage.data_files(_HISTORY_PREFIX) if self._task.history else ()
        in_folder = self._storage.data_files(_RAW_PREFIX)
        if not self._readers.open_iceberg:
            return TableFiles(in_folder, versions=versions)
        listed = self._iceberg_files()
        if in_folder != (listed if self._readers.list_folder else ()):
            message = f"the folder has {len(in_folder)} files, and the Iceberg table {len(listed)}"
            raise RuntimeError(message)
        return TableFiles(listed, versions=versions)

    def _iceberg_files(self) -> tuple[str, ...]:
        """Paths of the data files that pyiceberg finds, sorted. It finds the newest change by the version hint."""
        from pyiceberg.table import StaticTable  # here: only tables with such readers need it

        store = open_store(self._storage.lake)
        table = StaticTable.from_metadata(store.url(_LAYOUT.iceberg_prefix.rstrip("/")))
        urls = (one.file.file_path for one in table.scan().plan_files())
        return tuple(sorted(unquote(urlsplit(url).path) for url in urls))

    def _run(self, run_id: str, target_file_bytes: int) -> TableRun:
        raw, lake = self._storage.raw, self._storage.lake
        return TableRun(
            raw=open_store(raw),
            raw_fs=lake_filesystem(raw),
            raw_prefix=_RAW_PREFIX,
            log=ChangeLog(open_store(lake), _LAYOUT),
            lake_fs=lake_filesystem(lake),
            settings=TableSettings(
                primary_key=self._task.key,
                partition_key=(self._task.partition,) if self._task.partition else (),
                target_file_bytes=target_file_bytes,
                history=self._task.history,
                readers=self._readers,
            ),
            run_id=run_id,
            fencing_token=1,
            clock=lambda: datetime.now(timezone.utc),
        )


def _import_tasks(numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Import the engine's tasks in a worker."""
    yield from ((number, in_place.__name__) for number in numbers)


def _details(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in ("files_before", "files_retired", "files_added", "seconds")}
