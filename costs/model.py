"""Estimates the monthly cost of a deployment, by size and by trigger, from recorded hours and prices.

`prices.json` has AWS's list prices of one region, without free tier and tax, each with a link to the current price.
`recorded.json` has what `costs.simulate` recorded. All else is an assumption, and is named here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.packing import PackLimits
from cdclake.model.table.settings import TableSettings
from costs.recording import Recording
from costs.simulate import HOURS as RECORDED_HOURS

if TYPE_CHECKING:
    from costs.prices import Prices

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded.json"
HOURS = 730
DAYS = HOURS / 24
RECORDINGS = HOURS / RECORDED_HOURS
"""Of a month."""
BURSTS_PER_HOUR = 6
"""Of a table that changes, in the recorded hours."""

MIN_BILLED_SECONDS = 60.0
"""For each run of a Glue job. https://aws.amazon.com/glue/pricing/"""
METRICS_AT_FULL_PRICE = 10_000
SHELL_DPU, SPARK_DPU = 1 / 16, 2
"""Auto scaling adds no third worker for tables of this size."""
SPARK_START_SECONDS, SHELL_START_SECONDS = 30.0, 10.0
TABLE_SECONDS, PROCESS_SECONDS = 5.3, 0.4
"""A table's time in a Spark run, 1.3 of it for requests before and after the load, and in ProcessTable, which plans
and starts that run. These and the above are those of `benchmarks/packing.py`, which documents their sources.
"""
PLAN_SECONDS = 0.1
"""The Controller's time per table; it plans many tables at once."""
GLUE_LOG_BYTES = 200_000
"""What Glue itself logs for a run of a job. Not measured."""
TABLE_GB = 2
RAW_SHARE = 0.5
"""Size of the raw files, relative to the lake."""
KEPT_DAYS = TableSettings.retention_days * 1.1
"""A clean-up deletes files that have been past retention for up to a tenth of it."""
SHARED_METRICS, METRICS_PER_TABLE, ALARMS = 11, 9, 7
FUNCTION_GB, FUNCTION_SECONDS = 0.25, 0.5
_GB = 1e9


@dataclass(frozen=True)
class Usage:
    """The size and activity of a deployment.

    Attributes:
        tables: Number of active tables.
        changed_per_hour: Average number of tables with changes in an hour.
    """

    tables: int
    changed_per_hour: int

    @property
    def lake_gb(self) -> int:
        """Size of all tables."""
        return self.tables * TABLE_GB


USAGES = (Usage(10, 5), Usage(200, 60), Usage(2000, 300))


class Recorded(NamedTuple):
    """What `costs.simulate` recorded of one table.

    Attributes:
        idle: Hours without changes.
        hourly: Hours with changes, which the hourly schedule applies.
        by_file: Hours with the same changes, of which each file starts a run.
    """

    idle: Recording
    hourly: Recording
    by_file: Recording

    @classmethod
    def read(cls) -> Recorded:
        """The committed recordings."""
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
        return cls(*(Recording(**recorded[name]) for name in cls._fields))

    def write(self) -> None:
        """Replace the committed recordings."""
        recorded = {name: one.to_json() for name, one in zip(self._fields, self)}
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")


class Costs:
    """Dollars per month of a deployment.

    Args:
        by_file: Whether each raw file starts a run; otherwise only the schedule does.
    """

    def __init__(self, usage: Usage, recorded: Recorded, prices: Prices, *, by_file: bool) -> None:
        self._usage, self._recorded, self._prices, self._by_file = usage, recorded, prices, by_file
        self._changing = recorded.by_file if by_file else recorded.hourly

    @property
    def glue(self) -> float:
        """Controller, ProcessTable and Spark runs."""
        controller = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + PLAN_SECONDS * self._usage.tables)
        runs, tables_per_run = self._runs_per_hour()
        spark_seconds = SPARK_START_SECONDS + TABLE_SECONDS * tables_per_run
        spark = _dpu_hours(SPARK_DPU, spark_seconds)
        shell = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + PROCESS_SECONDS * tables_per_run)
        return HOURS * self._prices["glue_dpu_hour"] * (controller + runs * (spark + shell))

    @property
    def requests(self) -> float:
        """Requests to S3, DynamoDB and the catalog, function invocations, and logs."""
        changing, idle = self._usage.changed_per_hour, self._usage.tables - self._usage.changed_per_hour
        recorded = changing * self._dollars(self._changing) + idle * self._dollars(self._recorded.idle)
        runs = HOURS * (1 + 2 * self._runs_per_hour()[0])
        files = HOURS * changing * BURSTS_PER_HOUR if self._by_file else 0
        per_file = self._prices["lambda_invocation"] + FUNCTION_GB * FUNCTION_SECONDS * self._prices["lambda_gb_second"]
        return recorded * RECORDINGS + runs * GLUE_LOG_BYTES / _GB * self._prices["log_gb"] + files * per_file

    @property
    def storage(self) -> float:
        """Raw files, the lake, and replaced files that are retained."""
        one = self._changing
        rewritten_gb_per_day = one.rewritten_files * TABLE_GB / one.table_files * 24 / RECORDED_HOURS
        kept_gb = self._usage.changed_per_hour * rewritten_gb_per_day * KEPT_DAYS
        return (self._usage.lake_gb * (1 + RAW_SHARE) + kept_gb) * self._prices["s3_gb_month"]

    def monitoring(self, *, table_metrics: bool) -> float:
        """Metrics, alarms and the dashboard."""
        prices = self._prices
        metrics = SHARED_METRICS + (METRICS_PER_TABLE * self._usage.changed_per_hour if table_metrics else 0)
        beyond = max(0, metrics - METRICS_AT_FULL_PRICE)
        billed = (metrics - beyond) * prices["metric_month"] + beyond * prices["metric_month_beyond_10000"]
        return billed + ALARMS * prices["alarm_month"] + prices["dashboard_month"]

    def _dollars(self, one: Recording) -> float:
        prices = self._prices
        return (
            one.s3_puts * prices["s3_put"]
            + one.s3_gets * prices["s3_get"]
            + one.state_writes * ceil(one.item_bytes / 1024) * prices["dynamodb_write_kb"]
            + one.state_reads * ceil(one.item_bytes / 4096) * prices["dynamodb_read_4kb"]
            + one.catalog_requests * prices["glue_catalog_request"]
            + one.log_bytes / _GB * prices["log_gb"]
        )

    def _runs_per_hour(self) -> tuple[float, float]:
        """ProcessTable runs per hour, each with a Spark run, and tables per run."""
        changed = self._usage.changed_per_hour
        if self._by_file:
            return changed * self._recorded.by_file.runs / RECORDED_HOURS, 1
        runs = ceil(changed / PackLimits().tables)
        return runs, changed / runs


def table(recorded: Recorded, prices: Prices) -> str:
    """The monthly costs of each usage, as Markdown."""
    lines = [
        "| active tables | changed per hour | lake | Glue, hourly runs | Glue, a run per file | requests | storage "
        "| shared metrics | with table metrics | total per month, from | to |",
        "| ---: " * 11 + "|",
    ]
    for usage in USAGES:
        hourly, by_file = (Costs(usage, recorded, prices, by_file=by_file) for by_file in (False, True))
        shared, each = hourly.monitoring(table_metrics=False), hourly.monitoring(table_metrics=True)
        figures = (
            f"{usage.tables:,}",
            f"{usage.changed_per_hour:,}",
            f"{usage.lake_gb:,} GB",
            *map(_dollars, (hourly.glue, by_file.glue)),
            f"{_dollars(hourly.requests)} to {_dollars(by_file.requests)}",
            f"{_dollars(hourly.storage)} to {_dollars(by_file.storage)}",
            *map(_dollars, (shared, each)),
            _dollars(hourly.glue + hourly.requests + hourly.storage + shared),
            _dollars(by_file.glue + by_file.requests + by_file.storage + each),
        )
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def _dpu_hours(dpu: float, seconds: float) -> float:
    return dpu * max(seconds, MIN_BILLED_SECONDS) / 3600


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}"
