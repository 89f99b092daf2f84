"""Glue job DMSCDC_ProcessTable: brings one lake table up to date by running the Spark jobs it needs."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.stores import store
from cdclake.control.arguments import folder_prefix, parse_arguments, parse_item
from cdclake.control.entry import job_run_id, run_job, stop_on_sigterm
from cdclake.control.process_table import Outside, process_table
from cdclake.model.names import STATE_TABLE, Argument, Attribute, Sentinel


def main() -> dict[str, object]:
    """Process the table that the item names."""
    stop_on_sigterm()
    run_id = job_run_id(sys.argv)
    logs.configure(run_id=run_id)
    optional = {Argument.OUT_PREFIX: "", Argument.STATE_TABLE: STATE_TABLE, Argument.TABLE_METRICS: Sentinel.ACTIVE}
    args = parse_arguments(sys.argv, (Argument.ITEM, Argument.OUT_BUCKET), optional, may_be_empty=[Argument.OUT_PREFIX])
    states, jobs = DynamoState(client("dynamodb"), args[Argument.STATE_TABLE]), GlueJobs(client("glue"))
    metrics, statistics = cloudwatch_metrics(args[Argument.TABLE_METRICS]), DmsStatistics(lambda: client("dms"))
    outside = Outside(
        states, jobs, store, lambda: datetime.now(timezone.utc), time.sleep, metrics=metrics, statistics=statistics
    )
    path, prefix = parse_item(args[Argument.ITEM])[Attribute.PATH], folder_prefix(args[Argument.OUT_PREFIX])
    return process_table(path, args[Argument.OUT_BUCKET], prefix, run_id, outside).to_json()


if __name__ == "__main__":
    run_job(main)
