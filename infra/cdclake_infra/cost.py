"""`make costs`: estimates the monthly cost of a deployment, by size and by trigger.

Prices are AWS's 2025 list prices for us-east-1, without free tier and tax; each has a link to the current price. The
usages and the effort per run are assumptions: replace them with figures of your tables.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import ceil

from cdclake.control.plan.packing import PackLimits

HOURS = 730
DAYS = HOURS / 24

# https://aws.amazon.com/glue/pricing/: per second, at least one minute; the same for Python shell and Spark
DPU_HOUR, MIN_BILLED_SECONDS = 0.44, 60.0
# https://aws.amazon.com/s3/pricing/: standard storage; PUT and GET requests per thousand
S3_GB, S3_PUTS, S3_GETS = 0.023, 0.005, 0.0004
# https://aws.amazon.com/dynamodb/pricing/on-demand/: per million
WRITES, READS = 0.625, 0.125
# https://aws.amazon.com/cloudwatch/pricing/: metrics up to 10,000 and beyond; alarms; dashboards; log data per GB
METRIC, METRIC_BEYOND, METRICS_AT_FULL_PRICE, ALARM, DASHBOARD, LOG_GB = 0.30, 0.10, 10_000, 0.10, 3.0, 0.50
# https://aws.amazon.com/lambda/pricing/: per million invocations, and per GB-second
INVOCATIONS, GB_SECOND = 0.20, 0.0000166667
SAMPLE_PER_HOUR = {
    "DMS, dms.t3.small": 0.036,  # https://aws.amazon.com/dms/pricing/
    "RDS, db.t4g.micro": 0.016,  # https://aws.amazon.com/rds/mysql/pricing/
    "bastion, t4g.nano": 0.0042,  # https://aws.amazon.com/ec2/pricing/on-demand/
    "two interface endpoints": 2 * 0.01,  # https://aws.amazon.com/privatelink/pricing/
}
SAMPLE_PER_MONTH = {"20 GB of gp3 for RDS, 8 for the bastion": 20 * 0.115 + 8 * 0.08, "secret": 0.40}

SHELL_DPU, SPARK_DPU = 1 / 16, 2
"""Auto scaling adds no third worker for tables of this size."""
SPARK_START_SECONDS, SHELL_START_SECONDS, TABLE_SECONDS = 30.0, 10.0, 4.0
"""As in `benchmarks/packing.py`, which documents their sources."""
PLAN_SECONDS = 0.1
"""The Controller's time per table; it plans many tables at once."""
PUTS_PER_CHANGE, GETS_PER_CHANGE, WRITES_PER_CHANGE, READS_PER_CHANGE = 30, 60, 8, 8
LOG_GB_PER_RUN = 0.0002
OLD_VERSIONS = 0.5
"""Size of replaced files that are still retained, relative to the lake."""
RAW_SHARE = 0.5
"""Size of the raw files, relative to the lake."""
SHARED_METRICS, METRICS_PER_TABLE, ALARMS = 11, 9, 7
FUNCTION_GB, FUNCTION_SECONDS = 0.25, 0.5


@dataclass(frozen=True)
class Usage:
    """The size and activity of a deployment.

    Attributes:
        tables: Number of active tables.
        changed_per_hour: Average number of tables with changes in an hour.
        bursts_per_hour: Bursts of files per changed table and hour. Each burst is a run if files start the work.
        lake_gb: Size of all tables.
    """

    tables: int
    changed_per_hour: int
    bursts_per_hour: int
    lake_gb: int


USAGES = (Usage(10, 5, 6, 20), Usage(200, 60, 6, 400), Usage(2000, 300, 6, 4000))


def glue(usage: Usage, *, by_file: bool) -> float:
    """Dollars per month for Controller, ProcessTable and Spark runs."""
    controller = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + PLAN_SECONDS * usage.tables)
    runs, tables_per_run = _runs_per_hour(usage, by_file=by_file)
    spark_seconds = SPARK_START_SECONDS + TABLE_SECONDS * tables_per_run
    spark = _dpu_hours(SPARK_DPU, spark_seconds)
    shell = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + max(spark_seconds, MIN_BILLED_SECONDS))
    return HOURS * DPU_HOUR * (controller + runs * (spark + shell))


def requests(usage: Usage, *, by_file: bool) -> float:
    """Dollars per month for S3 and DynamoDB requests, function invocations and logs."""
    changes = HOURS * usage.changed_per_hour * (usage.bursts_per_hour if by_file else 1)
    plans = HOURS * usage.tables
    files = HOURS * usage.changed_per_hour * usage.bursts_per_hour if by_file else 0
    runs = HOURS * (1 + 2 * _runs_per_hour(usage, by_file=by_file)[0])
    return (
        (changes * PUTS_PER_CHANGE + plans) * S3_PUTS / 1000
        + changes * GETS_PER_CHANGE * S3_GETS / 1000
        + (changes * WRITES_PER_CHANGE * WRITES + (changes * READS_PER_CHANGE + plans) * READS) / 1e6
        + files * (INVOCATIONS / 1e6 + FUNCTION_GB * FUNCTION_SECONDS * GB_SECOND)
        + runs * LOG_GB_PER_RUN * LOG_GB
    )


def storage(usage: Usage) -> float:
    """Dollars per month for raw files, the lake, and replaced files that are retained."""
    return usage.lake_gb * (1 + OLD_VERSIONS + RAW_SHARE) * S3_GB


def monitoring(usage: Usage, *, table_metrics: bool) -> float:
    """Dollars per month for metrics, alarms and the dashboard."""
    metrics = SHARED_METRICS + (METRICS_PER_TABLE * usage.changed_per_hour if table_metrics else 0)
    beyond = max(0, metrics - METRICS_AT_FULL_PRICE)
    return (metrics - beyond) * METRIC + beyond * METRIC_BEYOND + ALARMS * ALARM + DASHBOARD


def sample_per_day() -> float:
    """Dollars per day for the sample stack."""
    return (sum(SAMPLE_PER_HOUR.values()) * HOURS + sum(SAMPLE_PER_MONTH.values())) / DAYS


def table() -> str:
    """The monthly costs of each usage, as Markdown."""
    lines = [
        "| active tables | changed per hour | lake | Glue, hourly runs | Glue, a run per file | requests | storage "
        "| shared metrics | with table metrics | total per month, from | to |",
        "| ---: " * 11 + "|",
    ]
    for usage in USAGES:
        hour, file = glue(usage, by_file=False), glue(usage, by_file=True)
        few, many = requests(usage, by_file=False), requests(usage, by_file=True)
        stored = storage(usage)
        shared, each = monitoring(usage, table_metrics=False), monitoring(usage, table_metrics=True)
        figures = (
            f"{usage.tables:,}",
            f"{usage.changed_per_hour:,}",
            f"{usage.lake_gb:,} GB",
            *map(_dollars, (hour, file)),
            f"{_dollars(few)} to {_dollars(many)}",
            *map(_dollars, (stored, shared, each, hour + few + stored + shared, file + many + stored + each)),
        )
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> int:
    """Print the costs."""
    sys.stdout.write(f"{table()}\n\nThe sample stack costs ${sample_per_day():.2f} per day.\n")
    return 0


def _runs_per_hour(usage: Usage, *, by_file: bool) -> tuple[int, float]:
    """ProcessTable runs per hour, each with a Spark run, and tables per run."""
    if by_file:
        return usage.changed_per_hour * usage.bursts_per_hour, 1
    runs = ceil(usage.changed_per_hour / PackLimits().tables)
    return runs, usage.changed_per_hour / runs


def _dpu_hours(dpu: float, seconds: float) -> float:
    return dpu * max(seconds, MIN_BILLED_SECONDS) / 3600


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
