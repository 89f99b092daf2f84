"""Glue job DMSCDC_ProcessTable: decides what is due for lake tables, and starts the Spark jobs that load it."""

from __future__ import annotations

import sys
import time

from cdclake.control.jobs.libraries import use_deployed_libraries

use_deployed_libraries()  # before any import of boto3

from cdclake import logs
from cdclake.control.jobs.entry import job_run_id, run_job, stop_on_signals
from cdclake.control.run.process_table import process_tables
from cdclake.control.run.run_arguments import RunArguments
from cdclake.run_ports import open_ports


def main() -> dict[str, object]:
    """Process the table of `item`, or the tables of `paths`."""
    stop_on_signals()
    run_id = job_run_id(sys.argv)
    logs.configure(run_id=run_id)
    arguments = RunArguments.parse(sys.argv)
    lake = (arguments.out_bucket, arguments.out_prefix)
    ports, further = open_ports(arguments), arguments.passed_on()
    report = process_tables(arguments.paths, *lake, run_id, ports, further, time.sleep)
    return report.only.to_json() if len(arguments.paths) == 1 else report.to_json()


if __name__ == "__main__":
    run_job(main)
