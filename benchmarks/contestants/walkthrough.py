"""The algorithm of AWS's walkthrough for DMS and Glue, written from its description.

To apply a change, it reads the table to find the files with changed keys, unions their rows with the change, keeps the
last row of each key unless it is a delete, writes one file (one per partition), and deletes the files that it read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as fn
from pyspark.sql.window import Window

from benchmarks.contestants.folders import FolderEngine, parquet_files
from benchmarks.contestants.limit import write_partitions
from benchmarks.contestants.spark import start_session, warm_up
from benchmarks.task import BUILD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Engine(FolderEngine):
    """The walkthrough's LoadInitial and LoadIncremental."""

    def start(self) -> None:
        """See `Contestant`."""
        super().start()
        if self._task.action != BUILD:
            self._spark = start_session(self._task)
            warm_up(self._spark, self._task)

    def build(self) -> None:
        """See `Contestant`. Writes the rows as LoadInitial does, in as many files as the others."""
        if self._task.partition:
            write_partitions(self._task, self._table)
            without_op = parquet_files(self._table)
        else:
            without_op = self._task.load_files
        for file in without_op:
            with pq.ParquetFile(file) as parquet:
                rows = parquet.read()
            target = Path(file) if self._task.partition else self._table / f"part-{Path(file).name}"
            pq.write_table(rows.append_column("Op", pa.repeat("I", rows.num_rows)), target)

    def load(self) -> dict[str, Any]:
        """See `Contestant`. Only reads and writes with Spark."""
        full_load = self._spark.read.parquet(*self._task.load_files).withColumn("Op", fn.lit("I"))
        full_load.write.mode("overwrite").parquet(str(self._table))
        return {}

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        key = list(self._task.key)
        source = self._spark.read.parquet(*self._task.change_files)
        order_in_key = Window.partitionBy(key).orderBy("sortpath")
        changes = source.withColumn("sortpath", fn.input_file_name()).withColumn(
            "rownum", fn.row_number().over(order_in_key)
        )
        table = (
            self._spark.read.parquet(str(self._table))
            .withColumn("table_file", fn.input_file_name())
            .withColumn("sortpath", fn.lit("0"))
            .withColumn("rownum", fn.lit(1))
        )
        touched = table.join(changes, key, "inner").select(fn.col("table_file").alias("touched_file")).distinct()
        old_files = [row.touched_file for row in touched.collect()]
        in_touched = table.join(touched, table.table_file == touched.touched_file)
        newest_first = Window.partitionBy(key).orderBy(fn.desc("sortpath"), fn.desc("rownum"))
        merged = (
            changes.unionByName(in_touched, allowMissingColumns=True)
            .withColumn("rank", fn.rank().over(newest_first))
            .where("rank = 1 AND Op <> 'D'")
            .coalesce(1)
            .select(source.columns)
        )
        self._append(merged)
        for url in old_files:
            Path(unquote(urlsplit(url).path)).unlink()
        return {"files_retired": len(old_files)}

    def _append(self, rows: DataFrame) -> None:
        partition = self._task.partition
        if partition:
            count = rows.select(partition).distinct().count()
            rows.repartition(count, partition).write.mode("append").partitionBy(partition).parquet(str(self._table))
        else:
            rows.write.mode("append").parquet(str(self._table))
