"""Spark for the tests that need it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake_cli.aws.java_classes import java_home

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """One Spark on this machine for all tests; its workers run this Python."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    context = SparkContext(conf=SparkConf().setMaster("local[2]").setAll(list(settings.items())))
    context.setLogLevel("OFF")
    yield context
    context.stop()


@pytest.fixture(scope="session")
def spark_backend(spark: SparkContext) -> SparkBackend:
    """Runs the engine on Spark."""
    return SparkBackend(spark)


@pytest.fixture(scope="module")
def session(spark: SparkContext) -> SparkSession:
    """Spark SQL for small tables, in UTC."""
    session = SparkSession(spark).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session
