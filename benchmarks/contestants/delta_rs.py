"""delta-rs: a Delta table merged in one process, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake

from benchmarks.contestants.folders import load_groups
from benchmarks.task import TableFiles

if TYPE_CHECKING:
    from benchmarks.task import Task

_WRITER = WriterProperties(compression="SNAPPY")


class Engine:
    """delta-rs."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._table = Path(task.work) / "table"
        self._partitions = [task.partition] if task.partition else None

    def start(self) -> None:
        """See `Contestant`. Needs only its imports."""

    def build(self) -> None:
        """See `Contestant`. Makes a commit per file, or per group of files if partitioned."""
        for group in load_groups(self._task):
            rows = pa.concat_tables([pq.read_table(file) for file in group])
            write_deltalake(self._table, rows, mode="append", partition_by=self._partitions, writer_properties=_WRITER)
        DeltaTable(self._table).create_checkpoint()

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        full_load = ds.dataset(list(self._task.load_files))
        reader = pa.RecordBatchReader.from_batches(full_load.schema, full_load.to_batches())
        write_deltalake(self._table, reader, partition_by=self._partitions, writer_properties=_WRITER)
        return {}

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        changes = self._last_of_each_key()
        table = DeltaTable(self._table)
        # `streamed_exec=False` enables file skipping by key statistics.
        merge = table.merge(
            changes,
            " AND ".join(f"t.{name} = s.{name}" for name in self._task.key),
            source_alias="s",
            target_alias="t",
            writer_properties=_WRITER,
            streamed_exec=False,
        )
        metrics = (
            merge.when_matched_delete("s.Op = 'D'")
            .when_matched_update_all(except_cols=["Op"])
            .when_not_matched_insert_all("s.Op <> 'D'", except_cols=["Op"])
            .execute()
        )
        return dict(metrics)

    def files(self) -> TableFiles:
        """See `Contestant`."""
        return TableFiles(tuple(DeltaTable(self._table).file_uris()))

    def _last_of_each_key(self) -> pa.Table:
        """The last change row of each key, by file, then by row number."""
        changes = pa.concat_tables([pq.read_table(file) for file in self._task.change_files])
        numbered = changes.append_column("row", pa.array(range(changes.num_rows), pa.int64()))
        last = numbered.group_by(list(self._task.key)).aggregate([("row", "max")])["row_max"]
        return changes.take(last.sort())
