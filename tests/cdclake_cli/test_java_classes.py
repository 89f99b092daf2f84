"""Spark's Java maps an archive of its classes, and starts without one where there can be none."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cdclake_cli.aws import java_classes
from cdclake_cli.aws.java_classes import class_archive_option
from cdclake_cli.aws.spark import spark_environment

CLASS = re.compile(r"\] (org\.apache\.spark\.[\w.$]+) source: (.*)")
JOB = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").getOrCreate()
print(session.sparkContext.parallelize(range(3), 1).map(lambda number: number + 1).collect())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new environment's folder."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / "share" / "cdclake"


def no_command(*_: object, **__: object) -> None:
    raise AssertionError("nothing is started")


@pytest.mark.spark
@pytest.mark.long
def test_spark_takes_its_classes_from_the_archive(tmp_path: Path, folder: Path) -> None:
    loaded = tmp_path / "classes.txt"
    variables = spark_environment(tmp_path, sys.executable, f"-Xlog:class+load:file={loaded}")
    assert sorted(path.name for path in folder.rglob("*.jsa")) == ["jdk.jsa", "spark.jsa"]
    command = [sys.executable, "-c", JOB]
    run = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    assert run.stdout == "[1, 2, 3]\n"
    sources = [source for _, source in CLASS.findall(loaded.read_text())]
    shared = sum(source.startswith("shared objects file") for source in sources)
    assert len(sources) > 1_000
    assert shared > 0.9 * len(sources)


def test_nothing_is_archived_where_the_folder_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    monkeypatch.setattr(subprocess, "run", no_command)
    assert class_archive_option() == ""


def test_nobody_waits_for_a_process_that_makes_the_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", no_command)
    folder.mkdir(parents=True)
    with Path(folder, f"java-classes-{java_classes._key()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert class_archive_option() == ""


def test_an_archive_that_could_not_be_made_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    assert class_archive_option() == ""
    assert [path.suffix for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["with blank", "with:colon"])
def test_a_path_that_java_would_split_has_no_archive(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / name))
    monkeypatch.setattr(subprocess, "run", no_command)
    assert class_archive_option() == ""
    assert not (tmp_path / name).exists()
