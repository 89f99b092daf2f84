"""Spark's Java maps an archive of its classes, and starts without one where there can be none."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.aws import java_classes
from cdclake_cli.aws.java_classes import class_archive_option, java_home
from cdclake_cli.aws.spark import spark_environment

if TYPE_CHECKING:
    from collections.abc import Callable

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


def make_files(command: list[str], *, env: dict[str, str], **_: object) -> None:
    """Write what Java would, to the files of its options."""
    for option in (*command, *env.get("SPARK_SUBMIT_OPTS", "").split()):
        if match := re.match("-XX:(?:SharedArchiveFile|ArchiveClassesAtExit)=(.*)", option):
            Path(match[1]).write_text("classes")


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


def fail(command: list[str], **_: object) -> None:
    raise subprocess.CalledProcessError(1, command)


def make_nothing(command: list[str], **_: object) -> None: ...


@pytest.mark.parametrize("java", [fail, make_nothing])
def test_an_archive_that_java_did_not_write_is_not_there(
    java: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", java)
    assert class_archive_option() == ""
    assert [path.suffix for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["with blank", "with:colon", "o'brien", 'two"quotes', "back\\slash"])
def test_a_path_that_java_would_split_has_no_archive(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / name))
    monkeypatch.setattr(subprocess, "run", no_command)
    assert class_archive_option() == ""
    assert not (tmp_path / name).exists()


def test_an_archive_is_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", make_files)
    options = class_archive_option()
    monkeypatch.setattr(subprocess, "run", no_command)
    assert class_archive_option() == options
    (archive,) = (path for path in folder.iterdir() if path.is_dir())
    assert options.endswith(f"={archive}/jdk.jsa:{archive}/spark.jsa")


@pytest.mark.parametrize("content", [None, "", "cut"])
@pytest.mark.parametrize("name", ["jdk.jsa", "spark.jsa", "sizes.txt"])
def test_an_archive_that_was_damaged_is_made_again(
    name: str, content: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", make_files)
    options = class_archive_option()
    (damaged,) = folder.rglob(name)
    before = damaged.read_bytes()
    if content is None:
        damaged.unlink()
    else:
        damaged.write_text(content)
    assert class_archive_option() == options
    assert damaged.read_bytes() == before


def test_what_a_killed_process_left_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_over = folder / f"making-java-classes-{java_classes._key()}-x" / "archive"
    left_over.mkdir(parents=True)
    monkeypatch.setattr(subprocess, "run", make_files)
    assert class_archive_option()
    assert not left_over.parent.exists()


def test_the_archive_does_not_depend_on_the_callers_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-class-path /other.jar pyspark-shell")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx64g")
    monkeypatch.setenv("SPARK_HOME", "/other")
    environments: list[dict[str, str]] = []

    def record(command: list[str], *, env: dict[str, str], **options: object) -> None:
        environments.append(env)
        make_files(command, env=env, **options)

    monkeypatch.setattr(subprocess, "run", record)
    class_archive_option()
    assert len(environments) == 2
    for variables in environments:
        assert {"PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS"}.isdisjoint(variables)
        assert variables.get("SPARK_HOME") in (None, str(java_classes._spark_home()))


@pytest.mark.parametrize(("spark", "uses_own"), [("3.5.6", False), ("4.1.1", True)])
def test_spark_4_runs_on_the_java_of_this_machine(
    spark: str, uses_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setattr(java_classes, "version", {"pyspark": spark}.__getitem__)
    monkeypatch.setenv("PATH", str(java.parent))
    assert (java_home() == tmp_path / "jdk") == uses_own
    monkeypatch.setenv("PATH", str(tmp_path))
    if uses_own:
        with pytest.raises(ConfigurationError, match="Java 17 or 21"):
            java_home()
