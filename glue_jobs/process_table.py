"""Glue job DMSCDC_ProcessTable: brings one lake table, or several, up to date by running the Spark jobs they need."""

from __future__ import annotations

import sys
import time

from cdclake.control.jobs.libraries import use_deployed_libraries

use_deployed_libraries()  # before any import of boto3

from cdclake import logs
from cdclake.adapters.aws import client, server_clock
from cdclake.adapters.catalog import open_catalog
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.lineage import open_lineage
from cdclake.adapters.stores import open_store
from cdclake.control.jobs.entry import job_run_id, run_job, stop_on_signals
from cdclake.control.run.process_table import Ports, process_table, process_tables
from cdclake.control.run.process_table_arguments import ProcessTableArguments


def main() -> dict[str, object]:
    """Process the table of `item`, or the tables of `paths`."""
    stop_on_signals()
    run_id = job_run_id(sys.argv)
    logs.configure(run_id=run_id)
    arguments = ProcessTableArguments.parse(sys.argv)
    ports = Ports(
        states=DynamoState(client("dynamodb"), arguments.state_table),
        jobs=GlueJobs(client("glue"), arguments.name_prefix),
        open_bucket=open_store,
        clock=server_clock,
        sleep=time.sleep,
        metrics=cloudwatch_metrics(arguments.table_metrics, arguments.name_prefix),
        statistics=DmsStatistics(lambda: client("dms")),
        catalog=open_catalog(arguments.catalog_database),
        lineage=open_lineage(arguments.lineage_url),
    )
    lake = (arguments.out_bucket, arguments.out_prefix)
    if len(arguments.paths) == 1:
        return process_table(arguments.paths[0], *lake, run_id, ports, arguments.timeout_seconds).to_json()
    return process_tables(arguments.paths, *lake, run_id, ports, arguments.timeout_seconds).to_json()


if __name__ == "__main__":
    run_job(main)
