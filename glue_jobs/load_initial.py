"""Glue job DMSCDC_LoadInitial (PySpark): replaces lake tables with the full loads in their raw folders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cdclake import logs
from cdclake.control.jobs.entry import job_run_id, run_job
from cdclake.lake.operations.job import load_tables, relative_file, table_run
from cdclake.lake.operations.load import load_initial
from cdclake.lake.spark.session import spark_backend
from cdclake.model.names import Argument, Sentinel

if TYPE_CHECKING:
    from collections.abc import Sequence


def load(argv: Sequence[str]) -> dict[str, Any]:
    """Load one table; returns its summary."""
    run, arguments = table_run(argv, optional={Argument.BASE_CHANGE: "", Argument.LAST_INCREMENTAL_FILE: Sentinel.NONE})
    base = arguments[Argument.BASE_CHANGE]
    begin = relative_file(arguments[Argument.LAST_INCREMENTAL_FILE], arguments[Argument.BUCKET], run.raw_prefix)
    return load_initial(run, spark_backend(), int(base) if base else None, begin)


if __name__ == "__main__":
    logs.configure(run_id=job_run_id(sys.argv))
    run_job(lambda: load_tables(sys.argv, load, spark_backend))
