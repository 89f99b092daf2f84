"""Glue job DMSCDC_LoadIncremental (PySpark): applies new change files to lake tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cdclake import logs
from cdclake.control.jobs.entry import job_run_id, run_job
from cdclake.lake.operations.job import load_tables, relative_file, table_run
from cdclake.lake.operations.load import load_incremental
from cdclake.lake.spark.session import spark_backend
from cdclake.model.names import Argument

if TYPE_CHECKING:
    from collections.abc import Sequence


def load(argv: Sequence[str]) -> dict[str, Any]:
    """Apply the change files of one table; returns its summary."""
    names = (Argument.LAST_INCREMENTAL_FILE, Argument.NEW_INCREMENTAL_FILE)
    run, arguments = table_run(argv, required=names, optional={Argument.NEW_INCREMENTAL_FILES: "0"})
    last, new = (relative_file(arguments[name], arguments[Argument.BUCKET], run.raw_prefix) for name in names)
    listed = int(arguments[Argument.NEW_INCREMENTAL_FILES])
    return load_incremental(run, spark_backend(), last, new, listed)


if __name__ == "__main__":
    logs.configure(run_id=job_run_id(sys.argv))
    run_job(lambda: load_tables(sys.argv, load, spark_backend))
