"""Glue job DMSCDC_ProcessTable: brings one lake table, or several, up to date by running the Spark jobs they need."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.catalog import catalog_of
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.stores import store
from cdclake.control.jobs.entry import job_run_id, run_job, stop_on_sigterm
from cdclake.control.run.process_table import Ports, process_table, process_tables
from cdclake.control.run.process_table_arguments import what_to_process


def main() -> dict[str, object]:
    """Process the table that the item names, or the tables of the paths."""
    stop_on_sigterm()
    run_id = job_run_id(sys.argv)
    logs.configure(run_id=run_id)
    asked = what_to_process(sys.argv)
    ports = Ports(
        states=DynamoState(client("dynamodb"), asked.state_table),
        jobs=GlueJobs(client("glue")),
        open_bucket=store,
        clock=lambda: datetime.now(timezone.utc),
        sleep=time.sleep,
        metrics=cloudwatch_metrics(asked.table_metrics),
        statistics=DmsStatistics(lambda: client("dms")),
        catalog=catalog_of(asked.catalog_database),
    )
    lake = (asked.out_bucket, asked.out_prefix)
    if len(asked.paths) == 1:
        return process_table(asked.paths[0], *lake, run_id, ports, asked.timeout_seconds).to_json()
    return process_tables(asked.paths, *lake, run_id, ports, asked.timeout_seconds).to_json()


if __name__ == "__main__":
    run_job(main)
