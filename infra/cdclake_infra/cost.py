"""`make costs`: what a deployment costs a month, by size and by what starts the work.

Prices are AWS's list prices of 2025 for us-east-1, without a free tier and without tax. Each has the page where today's
stands. What the workloads are, and what a run takes, are assumptions: change them to those of your tables.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import ceil

from cdclake.control.plan.packing import PackLimits

HOURS = 730
DAYS = HOURS / 24

# https://aws.amazon.com/glue/pricing/: by the second, and a minute at least. Python shell and Spark alike
DPU_HOUR, LEAST_BILLED_SECONDS = 0.44, 60.0
# https://aws.amazon.com/s3/pricing/: standard storage; requests of the classes PUT and GET, by the thousand
S3_GB, S3_PUTS, S3_GETS = 0.023, 0.005, 0.0004
# https://aws.amazon.com/dynamodb/pricing/on-demand/: by the million
WRITES, READS = 0.625, 0.125
# https://aws.amazon.com/cloudwatch/pricing/: metrics up to 10,000 and those beyond; alarms; dashboards; log data by GB
METRIC, METRIC_BEYOND, METRICS_AT_THE_FIRST_PRICE, ALARM, DASHBOARD, LOG_GB = 0.30, 0.10, 10_000, 0.10, 3.0, 0.50
# https://aws.amazon.com/lambda/pricing/: invocations by the million, and GB-seconds
INVOCATIONS, GB_SECOND = 0.20, 0.0000166667
SAMPLE_AN_HOUR = {
    "DMS, dms.t3.small": 0.036,  # https://aws.amazon.com/dms/pricing/
    "RDS, db.t4g.micro": 0.016,  # https://aws.amazon.com/rds/mysql/pricing/
    "bastion, t4g.nano": 0.0042,  # https://aws.amazon.com/ec2/pricing/on-demand/
    "two interface endpoints": 2 * 0.01,  # https://aws.amazon.com/privatelink/pricing/
}
SAMPLE_A_MONTH = {"20 GB of gp3 for RDS, 8 for the bastion": 20 * 0.115 + 8 * 0.08, "secret": 0.40}

SHELL_DPU, SPARK_DPU = 1 / 16, 2
"""Auto scaling adds no third worker for as little work as these tables have."""
SPARK_START_SECONDS, SHELL_START_SECONDS, TABLE_SECONDS = 30.0, 10.0, 4.0
"""As in `benchmarks/packing.py`; it tells where these come from."""
LOOK_SECONDS = 0.1
"""What a Controller's look at a table takes; it looks at many at once."""
PUTS_A_CHANGE, GETS_A_CHANGE, WRITES_A_CHANGE, READS_A_CHANGE = 30, 60, 8, 8
LOG_GB_A_RUN = 0.0002
OLD_VERSIONS = 0.5
"""What replaced files take that can still be brought back, as a share of the lake."""
RAW_SHARE = 0.5
"""What raw files take beside the lake."""
METRICS_OF_ALL, METRICS_A_TABLE, ALARMS = 11, 9, 7
FUNCTION_GB, FUNCTION_SECONDS = 0.25, 0.5


@dataclass(frozen=True)
class Workload:
    """What there is to do.

    Attributes:
        tables: Active tables.
        changed_an_hour: How many of them get changes in an hour, on average.
        bursts_an_hour: How often such a table's files come in an hour, so far apart that each is a run of its own if
            files start the work.
        lake_gb: Size of all tables.
    """

    tables: int
    changed_an_hour: int
    bursts_an_hour: int
    lake_gb: int


WORKLOADS = (Workload(10, 5, 6, 20), Workload(200, 60, 6, 400), Workload(2000, 300, 6, 4000))


def glue(work: Workload, *, by_file: bool) -> float:
    """Dollars for Controller, ProcessTable and Spark runs."""
    controller = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + LOOK_SECONDS * work.tables)
    runs, tables_a_run = _runs_an_hour(work, by_file=by_file)
    spark_seconds = SPARK_START_SECONDS + TABLE_SECONDS * tables_a_run
    spark = _dpu_hours(SPARK_DPU, spark_seconds)
    shell = _dpu_hours(SHELL_DPU, SHELL_START_SECONDS + max(spark_seconds, LEAST_BILLED_SECONDS))
    return HOURS * DPU_HOUR * (controller + runs * (spark + shell))


def requests(work: Workload, *, by_file: bool) -> float:
    """Dollars for requests to S3 and DynamoDB, for invocations and log lines."""
    changes = HOURS * work.changed_an_hour * (work.bursts_an_hour if by_file else 1)
    looks = HOURS * work.tables
    files = HOURS * work.changed_an_hour * work.bursts_an_hour if by_file else 0
    runs = HOURS * (1 + 2 * _runs_an_hour(work, by_file=by_file)[0])
    return (
        (changes * PUTS_A_CHANGE + looks) * S3_PUTS / 1000
        + changes * GETS_A_CHANGE * S3_GETS / 1000
        + (changes * WRITES_A_CHANGE * WRITES + (changes * READS_A_CHANGE + looks) * READS) / 1e6
        + files * (INVOCATIONS / 1e6 + FUNCTION_GB * FUNCTION_SECONDS * GB_SECOND)
        + runs * LOG_GB_A_RUN * LOG_GB
    )


def storage(work: Workload) -> float:
    """Dollars for raw files, the lake, and what can be brought back."""
    return work.lake_gb * (1 + OLD_VERSIONS + RAW_SHARE) * S3_GB


def watching(work: Workload, *, table_metrics: bool) -> float:
    """Dollars for metrics, alarms and the dashboard."""
    metrics = METRICS_OF_ALL + (METRICS_A_TABLE * work.changed_an_hour if table_metrics else 0)
    beyond = max(0, metrics - METRICS_AT_THE_FIRST_PRICE)
    return (metrics - beyond) * METRIC + beyond * METRIC_BEYOND + ALARMS * ALARM + DASHBOARD


def sample_a_day() -> float:
    """Dollars that the sample stack costs a day."""
    return (sum(SAMPLE_AN_HOUR.values()) * HOURS + sum(SAMPLE_A_MONTH.values())) / DAYS


def table() -> str:
    """The costs of all workloads, as Markdown."""
    lines = [
        "| active tables | with changes in an hour | lake | Glue, by the hour | Glue, by the file | requests | storage "
        "| metrics of all | of each table, too | a month, from | to |",
        "| ---: " * 11 + "|",
    ]
    for work in WORKLOADS:
        hour, file = glue(work, by_file=False), glue(work, by_file=True)
        few, many = requests(work, by_file=False), requests(work, by_file=True)
        kept, plain, each = storage(work), watching(work, table_metrics=False), watching(work, table_metrics=True)
        figures = (
            f"{work.tables:,}",
            f"{work.changed_an_hour:,}",
            f"{work.lake_gb:,} GB",
            *map(_dollars, (hour, file)),
            f"{_dollars(few)} to {_dollars(many)}",
            *map(_dollars, (kept, plain, each, hour + few + kept + plain, file + many + kept + each)),
        )
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> int:
    """Print the costs."""
    sys.stdout.write(f"{table()}\n\nThe sample stack costs ${sample_a_day():.2f} a day.\n")
    return 0


def _runs_an_hour(work: Workload, *, by_file: bool) -> tuple[int, float]:
    """How many ProcessTable runs, each with a Spark run, and how many tables go into one."""
    if by_file:
        return work.changed_an_hour * work.bursts_an_hour, 1
    runs = ceil(work.changed_an_hour / PackLimits().tables)
    return runs, work.changed_an_hour / runs


def _dpu_hours(dpu: float, seconds: float) -> float:
    return dpu * max(seconds, LEAST_BILLED_SECONDS) / 3600


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
