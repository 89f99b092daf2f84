"""Glue job DMSCDC_LoadIncremental (PySpark): applies new change files to a lake table."""

from __future__ import annotations

import sys
from typing import Any

from pyspark import SparkContext

from cdclake.control.entry import run_job
from cdclake.lake.jobs import load_incremental
from cdclake.lake.wiring import relative_file, table_run
from cdclake.model.names import Argument


def main() -> dict[str, Any]:
    """Read the arguments, connect, apply."""
    names = (Argument.LAST_INCREMENTAL_FILE, Argument.NEW_INCREMENTAL_FILE)
    run, arguments = table_run(sys.argv, required=names, optional={Argument.NEW_INCREMENTAL_FILES: "0"})
    last, new = (relative_file(arguments[name], arguments[Argument.BUCKET], run.raw_prefix) for name in names)
    listed = int(arguments[Argument.NEW_INCREMENTAL_FILES])
    return load_incremental(run, SparkContext.getOrCreate(), last, new, listed)


if __name__ == "__main__":
    run_job(main)
