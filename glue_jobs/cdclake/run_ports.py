"""Connects a run to AWS: its state table, jobs, buckets, metrics and catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.adapters.aws import client, server_clock
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.lineage import HttpLineage
from cdclake.adapters.stores import open_store
from cdclake.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.control.run.run_arguments import RunArguments
    from cdclake.ports import MetricSink, TaskStatistics


def dms_statistics() -> TaskStatistics:
    """What one run knows of DMS's tasks: it reads each once, so another run needs another one."""
    return DmsStatistics(lambda: client("dms"))


def open_ports(arguments: RunArguments, open_metrics: Callable[[str, str], MetricSink] = cloudwatch_metrics) -> Ports:
    """What a run works with, by its arguments.

    Args:
        open_metrics: Returns what accepts metrics, for the arguments `table_metrics` and `name_prefix`.
    """
    return Ports(
        states=DynamoState(client("dynamodb"), arguments.state_table),
        jobs=GlueJobs(client("glue"), arguments.name_prefix),
        open_bucket=open_store,
        clock=server_clock,
        metrics=open_metrics(arguments.table_metrics, arguments.name_prefix),
        statistics=dms_statistics(),
        catalog=GlueCatalog(client("glue"), arguments.catalog_database) if arguments.catalog_database else None,
        lineage=HttpLineage(arguments.lineage_url) if arguments.lineage_url else None,
    )
