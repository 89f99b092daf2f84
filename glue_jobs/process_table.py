"""Glue job DMSCDC_ProcessTable: brings one lake table up to date by running the Spark jobs it needs."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.stores import store
from cdclake.control.arguments import folder_prefix, parse_arguments, parse_item
from cdclake.control.entry import job_run_id, run_job, stop_on_sigterm
from cdclake.control.process_table import Outside, process_table
from cdclake.model.names import STATE_TABLE, Argument, Attribute


def main() -> dict[str, object]:
    """Process the table that the item names."""
    stop_on_sigterm()
    run_id = job_run_id(sys.argv)
    logs.configure(run_id=run_id)
    optional = {Argument.OUT_PREFIX: "", Argument.STATE_TABLE: STATE_TABLE}
    required = (Argument.ITEM, Argument.OUT_BUCKET)
    given = parse_arguments(sys.argv, required, optional, may_be_empty=[Argument.OUT_PREFIX])
    outside = Outside(
        states=DynamoState(client("dynamodb"), given[Argument.STATE_TABLE]),
        jobs=GlueJobs(client("glue")),
        open_bucket=store,
        clock=lambda: datetime.now(timezone.utc),
        sleep=time.sleep,
    )
    path, out_prefix = parse_item(given[Argument.ITEM])[Attribute.PATH], folder_prefix(given[Argument.OUT_PREFIX])
    return process_table(path, given[Argument.OUT_BUCKET], out_prefix, run_id, outside).to_json()


if __name__ == "__main__":
    run_job(main)
