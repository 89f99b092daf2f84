"""Arrow allocates memory with the C library's allocator, unless an operator chose another."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cdclake.lake.spark.backend import Task
    from cdclake.lake.spark.spark_backend import SparkBackend

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
CODE = "import cdclake.lake.storage.reader, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["", "mimalloc"])
def test_the_first_import_of_pyarrow_chooses_the_allocator(chosen: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {VARIABLE: chosen} if chosen else {}
    command = [sys.executable, "-c", CODE]
    used = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert used == (chosen or "system")


def allocator(_task: Task, _rows: Iterable[int]) -> Iterator[str]:
    import cdclake.lake.storage.reader  # noqa: F401 - as every task does

    yield pa.default_memory_pool().backend_name


@pytest.mark.spark
def test_tasks_of_spark_use_it(spark_backend: SparkBackend) -> None:
    assert set(spark_backend.distribute([[1], [2]]).run(allocator).collect()) == {"system"}
