"""Spark's workers run a Python that has cdclake, or the error says which one to choose."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake.lake.spark.task_errors import raising_task_errors
from cdclake.lake.spark.workers_python import VARIABLE, check_python, choose_python
from cdclake_cli.aws.java_classes import java_home
from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path

INSERT = """
import sys
from datetime import datetime, timezone
from cdclake_devkit.memory import MemoryState
from cdclake.lake_table import LakeTable

clock = lambda: datetime.now(timezone.utc)
table = LakeTable("shop.orders", lake=sys.argv[1], states=MemoryState(), user="u", clock=clock)
table.register(["id"])
table.insert([{"id": 1}])
print(table.as_of().count())
"""


def context(python: str = "python3", master: str = "local[2]") -> Any:
    return SimpleNamespace(pythonExec=python, master=master, _python_includes=[])


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """A program in the place of a Python without Arrow."""
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'pyarrow'\" >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def test_workers_on_this_machine_run_this_python_unless_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    local, cluster = context(), context(master="yarn")
    choose_python(local)
    choose_python(cluster)
    assert (local.pythonExec, cluster.pythonExec) == (sys.executable, "python3")
    monkeypatch.setenv(VARIABLE, "mine")
    chosen = context("mine")
    choose_python(chosen)
    assert chosen.pythonExec == "mine"


def test_a_python_that_cannot_run_cdclake_is_refused_before_a_task(other_python: str) -> None:
    with pytest.raises(ConfigurationError, match=r"No module named 'pyarrow'. Set PYSPARK_PYTHON before Spark starts"):
        check_python(context(other_python))
    with pytest.raises(ConfigurationError, match="no-such-python, which does not exist"):
        check_python(context("no-such-python"))
    check_python(context(sys.executable))
    check_python(context(other_python, master="spark://host:7077"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Traceback ...\nModuleNotFoundError: No module named 'cdclake'\n\tat", "No module named 'cdclake'"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "PYTHON_VERSION_MISMATCH"),
        ('java.io.IOException: Cannot run program "python9": error=2', 'Cannot run program "python9"'),
    ],
)
def test_a_task_of_a_cluster_that_fails_for_its_python_says_so(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"run another Python: {said}"), raising_task_errors():
        raise RuntimeError(text)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_lake_table_works_in_a_virtual_environment_that_is_not_on_the_path(tmp_path: Path, other_python: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {"JAVA_HOME": str(java_home()), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = [sys.executable, "-c", INSERT, tmp_path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.stdout.split()[-1:] == ["1"], done.stderr[-3000:]
