"""Glue job DMSCDC_LoadInitial (PySpark): replaces a lake table by the full load in the raw folder."""

from __future__ import annotations

import sys
from typing import Any

from pyspark import SparkContext

from cdclake.control.entry import run_job
from cdclake.lake.jobs import load_initial
from cdclake.lake.wiring import table_run
from cdclake.model.names import Argument


def main() -> dict[str, Any]:
    """Read the arguments, connect, load."""
    run, arguments = table_run(sys.argv, optional={Argument.BASE_CHANGE: ""})
    base = arguments[Argument.BASE_CHANGE]
    return load_initial(run, SparkContext.getOrCreate(), int(base) if base else None)


if __name__ == "__main__":
    run_job(main)
