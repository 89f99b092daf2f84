"""Estimates the monthly cost of a deployment, by size and by freshness, from recorded hours and prices.

`prices.json` has AWS's list prices of one region, without free tier and tax, each with a link to the current price and
when it was last seen. `recorded.json` has what `costs.simulate` and `costs.stored` recorded. All else is an assumption,
and is named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.packing import PackLimits
from cdclake.control.plan.raw_scan import PAGE_OBJECTS
from costs.recording import MEMORY_MB, REQUEST_SECONDS

if TYPE_CHECKING:
    from costs.prices import Prices
    from costs.recorded import Recorded
    from costs.recording import Recording
    from costs.stored import Stored

HOURS = 730
"""Of a month."""

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
PROVISION_SECONDS = 10.0, 60.0
"""Until Glue begins a run that was started; it bills none of that. Not measured."""
GLUE_LOG_BYTES = 200_000
"""What Glue itself logs for a run of a job. Not measured."""
TABLE_GB = 2
RAW_SHARE = 0.5
"""Size of the raw files, relative to the lake."""
SHARED_METRICS, METRICS_PER_TABLE, ALARMS = 11, 9, 7
FUNCTION_GB, FUNCTION_SECONDS = 0.25, 0.5
"""Of the function of raw files."""
SMALL_CHANGES_GB = MEMORY_MB / 1024
EVENT_SECONDS = 0.5, 5.0
"""Until S3's event reaches the function of raw files, and its call the one that loads small changes. Not measured."""
NETWORK_MB_PER_SECOND = 60.0
"""Of the latter, which reads what it rewrites, and writes it. Not measured."""
STARTS_PER_CALL = 0.1
"""How often a call of it needs a new process. Not measured: Lambda keeps one for some minutes without a call."""
_GB = 1e9


class Freshness(NamedTuple):
    """How soon new raw files are applied.

    Attributes:
        name: For people.
        settings: The settings of the deployment, as Markdown.
        key: In the recording.
        looks: Controller runs per hour.
        by_file: Whether each file starts a run; otherwise only the schedule does.
        on_lambda: Whether a function does the work of these runs.
    """

    name: str
    settings: str
    key: str
    looks: int
    by_file: bool = False
    on_lambda: bool = False

    def changes(self, bursts: int) -> int:
        """Changes per hour of a table with so many bursts, each of which is a raw file."""
        return bursts if self.by_file else min(bursts, self.looks)


FRESHNESSES = (
    Freshness("hourly", "`start_by_file` = `false`", "hourly", 1),
    Freshness(
        "every five minutes", "`start_by_file` = `false`, `schedule` = `cron(0/5 * * * ? *)`", "five_minutes", 12
    ),
    Freshness("by file, on Spark", "the default", "by_file", 1, by_file=True),
    Freshness("by file, on Lambda", "`small_changes` = `lambda`", "on_lambda", 1, by_file=True, on_lambda=True),
)


@dataclass(frozen=True)
class Usage:
    """The size and activity of a deployment.

    Attributes:
        tables: Number of active tables.
        changing: Average number of tables with changes in an hour.
        bursts: Bursts of changes per hour of each of these tables. Each is one raw file.
    """

    tables: int
    changing: int
    bursts: int = 6

    def __str__(self) -> str:
        """For people."""
        return f"{self.tables:,}, a file a minute" if self.bursts == 60 else f"{self.tables:,}"


USAGES = (Usage(10, 5), Usage(200, 60), Usage(2000, 300), Usage(10, 10, 60))


class Costs:
    """Dollars per month of a deployment, and how fresh it is."""

    def __init__(self, usage: Usage, freshness: Freshness, recorded: Recorded, prices: Prices) -> None:
        self._usage, self._freshness, self._recorded, self._prices = usage, freshness, recorded, prices

    @cached_property
    def glue(self) -> float:
        """Controller, ProcessTable and Spark runs."""
        runs, tables = self._runs_per_hour, self._tables_per_run
        controller = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + PLAN_SECONDS * self._usage.tables)
        spark = _dpu_hours(SPARK_DPU, SPARK_START_SECONDS + TABLE_SECONDS * tables)
        shell = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + PROCESS_SECONDS * tables)
        return HOURS * self._prices["glue_dpu_hour"] * (self._freshness.looks * controller + runs * (spark + shell))

    @cached_property
    def functions(self) -> float:
        """Calls of the functions."""
        prices, freshness = self._prices, self._freshness
        if not freshness.by_file:
            return 0.0
        each = prices["lambda_invocation"] + FUNCTION_GB * FUNCTION_SECONDS * prices["lambda_gb_second"]
        if freshness.on_lambda:
            seconds = self.change_seconds() + STARTS_PER_CALL * self._recorded.function_start_seconds
            each += prices["lambda_invocation"] + SMALL_CHANGES_GB * seconds * prices["lambda_gb_second_arm64"]
        return HOURS * self._usage.changing * self._usage.bursts * each

    @cached_property
    def requests(self) -> float:
        """Requests to S3, DynamoDB, the catalog and CloudWatch, and logs."""
        usage, prices, freshness = self._usage, self._prices, self._freshness
        changing = self._recorded.hours_of(freshness.key, usage.bursts)
        of_tables = usage.changing * (self._dollars(changing) + self._further_listings * prices["s3_put"])
        of_tables += (usage.tables - usage.changing) * freshness.looks * self._dollars(self._recorded.idle)
        logs = (freshness.looks + 2 * self._runs_per_hour) * GLUE_LOG_BYTES / _GB * prices["log_gb"]
        return HOURS * (of_tables + logs)

    @cached_property
    def storage(self) -> float:
        """Raw files, and the lake with what is kept of earlier states."""
        usage = self._usage
        lake_gb = (usage.tables - usage.changing) * TABLE_GB + usage.changing * self._stored.gb
        return (lake_gb + usage.tables * TABLE_GB * RAW_SHARE) * self._prices["s3_gb_month"]

    def monitoring(self, *, table_metrics: bool = False) -> float:
        """Metrics, alarms and the dashboard."""
        prices = self._prices
        metrics = SHARED_METRICS + (METRICS_PER_TABLE * self._usage.changing if table_metrics else 0)
        beyond = max(0, metrics - METRICS_AT_FULL_PRICE)
        billed = (metrics - beyond) * prices["metric_month"] + beyond * prices["metric_month_beyond_10000"]
        return billed + ALARMS * prices["alarm_month"] + prices["dashboard_month"]

    @property
    def total(self) -> float:
        """All, without metrics of each table."""
        return self.glue + self.functions + self.requests + self.storage + self.monitoring()

    @property
    def seconds_to_visible(self) -> tuple[float, float]:
        """How long after a raw file its rows are visible, at least and at most, if no run has to wait."""
        tables, freshness = self._tables_per_run, self._freshness
        if freshness.on_lambda:
            visible, start = self.change_seconds(visible=True), self._recorded.function_start_seconds
            least, most = (seconds + FUNCTION_SECONDS + visible for seconds in EVENT_SECONDS)
            return least, most + start
        process, spark = SHELL_START_SECONDS + PROCESS_SECONDS * tables, SPARK_START_SECONDS
        least, most = process + spark + TABLE_SECONDS, process + spark + TABLE_SECONDS * tables
        runs = 2
        if freshness.by_file:
            least, most = least + FUNCTION_SECONDS, most + FUNCTION_SECONDS
        else:
            controller = SHELL_START_SECONDS + PLAN_SECONDS * self._usage.tables
            least, most, runs = least + controller, most + controller + 3600 / freshness.looks, 3
        return least + runs * PROVISION_SECONDS[0], most + runs * PROVISION_SECONDS[1]

    def change_seconds(self, *, visible: bool = False) -> float:
        """How long the function that loads small changes works for one.

        Args:
            visible: Only until readers see the change.
        """
        work = self._recorded.function
        waits = REQUEST_SECONDS * (work.until_visible if visible else work.in_sequence)
        return waits + self.computing_seconds + 2 * self.written_mb / NETWORK_MB_PER_SECOND

    @property
    def computing_seconds(self) -> float:
        """Of them, on one core."""
        work = self._recorded.function
        return work.cpu_seconds * self.written_mb / work.written_mb

    @property
    def written_mb(self) -> float:
        """What a change writes."""
        return 1000 * self._stored.written_gb / (24 * self._freshness.changes(self._usage.bursts))

    @property
    def _further_listings(self) -> int:
        """Requests of an hour that list a table's data files beyond those of the first answer, once a change."""
        return self._freshness.changes(self._usage.bursts) * ((self._stored.files - 1) // PAGE_OBJECTS)

    @property
    def _stored(self) -> Stored:
        bursts = self._usage.bursts
        return self._recorded.stored_of(bursts, self._freshness.changes(bursts))

    def _dollars(self, one: Recording) -> float:
        """Of an hour."""
        prices = self._prices
        return (
            one.s3_puts * prices["s3_put"]
            + one.s3_gets * prices["s3_get"]
            + one.state_writes * ceil(one.item_bytes / 1024) * prices["dynamodb_write_kb"]
            + one.state_reads * ceil(one.item_bytes / 4096) * prices["dynamodb_read_4kb"]
            + one.catalog_requests * prices["glue_catalog_request"]
            + one.metric_requests * prices["metric_request"]
            + one.log_bytes / _GB * prices["log_gb"]
        ) / one.hours

    @property
    def _due_at_once(self) -> float:
        """Tables with new files when the Controller looks, on average."""
        return self._usage.changing * min(1.0, self._usage.bursts / self._freshness.looks)

    @property
    def _runs_per_hour(self) -> float:
        """ProcessTable runs, each with a Spark run."""
        if self._freshness.on_lambda:
            return 0
        if self._freshness.by_file:
            return self._usage.changing * self._usage.bursts
        return self._freshness.looks * min(self._due_at_once, ceil(self._due_at_once / PackLimits().tables))

    @property
    def _tables_per_run(self) -> float:
        if self._freshness.by_file:
            return 1
        runs = self._runs_per_hour
        return self._freshness.looks * self._due_at_once / runs if runs else 0


def _dpu_hours(dpu: float, seconds: float) -> float:
    return dpu * max(seconds, MIN_BILLED_SECONDS) / 3600
