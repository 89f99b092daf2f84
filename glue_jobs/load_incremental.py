"""Glue job DMSCDC_LoadIncremental (PySpark): applies new change files to lake tables."""

from __future__ import annotations

import sys

from cdclake import logs
from cdclake.control.jobs.entry import job_run_id, run_job
from cdclake.lake.operations.job import run_spark_job
from cdclake.lake.spark.session import spark_backend
from cdclake.model.names import JOB_LOAD_INCREMENTAL

if __name__ == "__main__":
    logs.configure(run_id=job_run_id(sys.argv))
    run_job(lambda: run_spark_job(JOB_LOAD_INCREMENTAL, sys.argv, spark_backend))
