"""Glue job DMSCDC_Controller: registers new tables and starts a ProcessTable run for each active table with work."""

from __future__ import annotations

import sys

from cdclake.control.jobs.libraries import use_deployed_libraries

use_deployed_libraries()  # before any import of boto3

from cdclake import logs
from cdclake.adapters.aws import client, server_clock
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.stores import open_store
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import folder_prefix, parse_arguments, parse_new_table, parse_tables
from cdclake.control.jobs.entry import job_run_id, run_job
from cdclake.control.plan.packing import PackLimits
from cdclake.control.run.metrics import controller_metrics
from cdclake.model.names import STATE_TABLE, Argument, Sentinel


def main() -> dict[str, object]:
    """Plan all tables and carry out the plan."""
    logs.configure(run_id=job_run_id(sys.argv))
    empty = dict.fromkeys((Argument.PREFIX, Argument.TABLES, Argument.NEW_TABLE, Argument.NAME_PREFIX), "")
    defaults = {Argument.STATE_TABLE: STATE_TABLE, Argument.TABLE_METRICS: Sentinel.ACTIVE, **PackLimits.defaults()}
    arguments = parse_arguments(sys.argv, [Argument.BUCKET], {**empty, **defaults}, may_be_empty=empty)
    bucket, prefix = arguments[Argument.BUCKET], folder_prefix(arguments[Argument.PREFIX])
    states = DynamoState(client("dynamodb"), arguments[Argument.STATE_TABLE])
    statistics = DmsStatistics(lambda: client("dms"))
    inputs = PlanInputs(
        open_store(bucket), states, bucket, prefix, statistics, parse_new_table(arguments[Argument.NEW_TABLE])
    )
    now = server_clock.after(lambda: states.get(f"{bucket}/{prefix}"))
    limits = PackLimits.from_arguments(arguments)
    name_prefix = arguments[Argument.NAME_PREFIX]
    jobs = GlueJobs(client("glue"), name_prefix)
    summary = execute(plan(inputs, now, parse_tables(arguments[Argument.TABLES])), states, jobs, server_clock, limits)
    metrics = cloudwatch_metrics(arguments[Argument.TABLE_METRICS], name_prefix)
    metrics.put(controller_metrics(summary.tables, now, len(summary.errors)))
    metrics.flush()
    return summary.to_json()


if __name__ == "__main__":
    run_job(main)
