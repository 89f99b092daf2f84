"""An embedded AWS for its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake_devkit.local import EmbeddedAws
from tests.cdclake_devkit.local.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    """One for all tests of a module, with limits of one Spark run and two Python shell runs, and fast retries."""
    with EmbeddedAws(spark_runs=1, python_shell_runs=2, retry_delays_seconds=(0.05, 0.1)) as aws:
        yield Workbench(aws)
