"""Starts Spark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake.lake.spark.workers_python import choose_python

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_backend() -> SparkBackend:
    """Run tasks in the Spark of this job."""
    return SparkBackend(SparkContext.getOrCreate())


def active_session() -> SparkSession:
    """The active Spark session, or a new one whose workers run this Python if they are on this machine."""
    is_new = SparkContext._active_spark_context is None
    session = SparkSession.builder.getOrCreate()
    if is_new:
        choose_python(session.sparkContext)
    return session


@contextmanager
def local_session(name: str) -> Iterator[SparkSession]:
    """Run Spark on all cores of this machine, in UTC, until the `with` block ends."""
    builder = SparkSession.builder.master("local[*]").appName(name)
    for setting, value in _SETTINGS.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    choose_python(session.sparkContext)
    try:
        yield session
    finally:
        session.stop()
