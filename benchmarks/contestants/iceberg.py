"""Iceberg's MERGE on Spark: copy-on-write, and merge-on-read including the first read."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import feature_store_pyspark
from pyspark.sql import functions as fn

from benchmarks.contestants.folders import load_groups
from benchmarks.contestants.spark import start_session, warm_up
from benchmarks.task import APPLY, TableFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.task import Task

_ICEBERG = "smfs.shaded.org.apache.iceberg"
_TABLE = "lake.bench.orders"
_MODES = {"iceberg-cow": "copy-on-write", "iceberg-mor": "merge-on-read"}
_DATA, _POSITION_DELETES = 0, 1  # `content` in Iceberg's table of files


class Engine:
    """An Iceberg table, format version 2, in a Hadoop catalog."""

    _spark: SparkSession

    def __init__(self, task: Task) -> None:
        self._task = task
        self._mode = _MODES[task.contestant]

    def start(self) -> None:
        """See `Contestant`."""
        jar = Path(feature_store_pyspark.__file__).parent / "jars" / "sagemaker-feature-store-spark-sdk-3.5.jar"
        self._spark = start_session(
            self._task,
            {
                "spark.jars": str(jar),
                "spark.sql.extensions": f"{_ICEBERG}.spark.extensions.IcebergSparkSessionExtensions",
                "spark.sql.catalog.lake": f"{_ICEBERG}.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": f"{self._task.work}/warehouse",
            },
        )
        warm_up(self._spark, self._task)
        if self._task.action == APPLY:
            self._spark.sql(f"ALTER TABLE {_TABLE} SET TBLPROPERTIES ('write.merge.mode' = '{self._mode}')")

    def build(self) -> None:
        """See `Contestant`."""
        pieces = [self._spark.read.parquet(*group).coalesce(1) for group in load_groups(self._task)]
        rows = reduce(type(pieces[0]).union, pieces)
        one_file_per_piece = {"distribution-mode": "none", "fanout-enabled": "true"}
        self._create(rows, one_file_per_piece)

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        self._create(self._spark.read.parquet(*self._task.load_files), {})
        return {}

    def apply(self) -> dict[str, Any]:
        """See `Contestant`. Merge-on-read leaves work to every reader; the time includes the first read."""
        self._last_of_each_key().createOrReplaceTempView("changes")
        source = self._spark.table("changes")
        columns = [name for name in source.columns if name != "Op"]
        assignments = ", ".join(f"t.{name} = s.{name}" for name in columns)
        same_key = " AND ".join(f"t.{name} = s.{name}" for name in self._task.key)
        self._spark.sql(
            f"MERGE INTO {_TABLE} t USING changes s ON {same_key} "
            "WHEN MATCHED AND s.Op = 'D' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND s.Op <> 'D' THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{name}' for name in columns)})"
        )
        if self._mode == "merge-on-read":
            self._spark.table(_TABLE).write.format("noop").mode("overwrite").save()
        return {}

    def files(self) -> TableFiles:
        """See `Contestant`."""
        rows = self._spark.table(f"{_TABLE}.files").select("content", "file_path").collect()
        return TableFiles(
            tuple(row.file_path for row in rows if row.content == _DATA),
            tuple(row.file_path for row in rows if row.content == _POSITION_DELETES),
        )

    def _create(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        writer = rows.writeTo(_TABLE).using("iceberg").options(**options)
        writer.tableProperty("format-version", "2").tableProperty("write.parquet.compression-codec", "snappy")
        if self._task.partition:
            writer.partitionedBy(fn.col(self._task.partition))
        writer.create()

    def _last_of_each_key(self) -> DataFrame:
        """The last change row of each key, by file, then by row number."""
        source = self._spark.read.parquet(*self._task.change_files)
        place = fn.struct("_metadata.file_name", "_metadata.row_index")
        columns = [name for name in source.columns if name not in self._task.key]
        last = (
            source.select("*", place.alias("place"))
            .groupBy(*self._task.key)
            .agg(fn.max_by(fn.struct(*columns), "place").alias("last"))
        )
        return last.select(*self._task.key, "last.*")
