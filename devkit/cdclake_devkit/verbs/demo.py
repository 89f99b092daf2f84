"""`cdclake demo`: run the whole pipeline on this machine, and compare the lake with its source."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import IntegrityError
from cdclake.model.layout import LakeLayout
from cdclake.model.table.name import TableName
from cdclake_cli.printing.change_columns import STEP_COLUMNS, step_record
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_devkit.verbs.embedded import hourly_run, kept_on_failure, log_named_on_failure
from cdclake_devkit.verbs.query import Answer, ask

if TYPE_CHECKING:
    from cdclake_cli.printing.output import ProgressBar
    from cdclake_devkit.local import EmbeddedAws
    from cdclake_devkit.shop.checksum import ChecksumComparison
    from cdclake_devkit.shop.demo import DemoReport

_DEFAULT_ORDERS = 300_000
_MIN_ORDERS = 1_000
QUERY = """\
select orderdate, count(*) as orders, sum(quantity * unitprice) as revenue
from shop.productorder
group by orderdate
order by orderdate desc
limit 5"""

_STEP_COLUMNS = (OutputColumn("table", "Table"), *STEP_COLUMNS, OutputColumn("equal", "Equal"))
_TIME_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("process_table", "ProcessTable\nbegan", number=True),
    OutputColumn("spark", "Spark run\nbegan", number=True),
    OutputColumn("visible", "Change\nvisible", number=True),
)
_COMPARISON_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("side", "Side"),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("checksum", "Checksum"),
    OutputColumn("equal", "Equal"),
)


def demo(
    *,
    orders: Annotated[int, typer.Option(min=_MIN_ORDERS, help="Orders in the sample shop.")] = _DEFAULT_ORDERS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Run the whole pipeline on this machine, with a sample shop.

    Applies a full load and changes, compares the lake with the source after each step, and queries the lake at the end.

    Uses nothing outside this machine, and no AWS account.

    Example: cdclake demo --orders 20000
    """
    from cdclake_devkit.local import EmbeddedAws  # slow to import, and --help does not need it

    with kept_on_failure("cdclake-demo-") as data_dir, EmbeddedAws(0, data_dir) as aws:
        with log_named_on_failure(aws), progress("Deploying cdclake in an embedded AWS") as bar:
            report, answer = _run(aws, orders, bar)
        show(report, answer, output)
        if not report.equal:
            raise _difference(report, aws)
        if not report.reader.right:
            message = f"The reader of {report.reader.table} did not always count right"
            raise IntegrityError(message, remedy=f"Check the logs in {aws.logs_dir}")


def _difference(report: DemoReport, aws: EmbeddedAws) -> IntegrityError:
    differences = [
        f"{step.table} after {step.step}: {', '.join(step.comparison.differences)}"
        for step in report.steps
        if not step.comparison.equal
    ]
    return IntegrityError(
        f"The lake is not equal to the source: {'; '.join(differences)}", remedy=f"Check the logs in {aws.logs_dir}"
    )


def _run(aws: EmbeddedAws, orders: int, bar: ProgressBar) -> tuple[DemoReport, Answer]:
    from cdclake.adapters.s3 import S3Store
    from cdclake.commit.log import ChangeLog
    from cdclake_devkit.local import LocalDeployment, deploy
    from cdclake_devkit.shop.demo import STAGES, Demo
    from cdclake_devkit.shop.sample_shop import SampleShop

    deployment = LocalDeployment()
    deploy(aws, deployment)
    bar.expect(STAGES)
    shop = SampleShop(lambda: datetime.now(timezone.utc), orders=orders)
    report = Demo(aws, deployment, shop, hourly_run(aws, deployment), bar.stage).run()
    names = map(TableName.parse, report.registered)
    lake = S3Store(aws.client("s3"), deployment.lake_bucket)
    logs = [ChangeLog(lake, LakeLayout(deployment.lake_bucket, deployment.lake_prefix, name)) for name in names]
    return report, ask(QUERY, aws.endpoint, logs)


def show(report: DemoReport, answer: Answer, output: OutputFormat) -> None:
    """Print the steps, the comparison with the source, and a query of the lake: tables, or one JSON object."""
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.json_record({**report.to_json(), "query": {"sql": QUERY, "rows": answer.records}})
        return
    registered = ", ".join(report.registered)
    out.remark(f"The Controller registered {registered} as inactive. The demo set keys and activated them.")
    out.remark("")
    for (name, started_by), steps in groupby(report.steps, key=lambda step: (step.step, step.started_by)):
        records = [{"table": step.table, **step_record(step.to_json())} for step in steps]
        out.records(f"{name.capitalize()} ({started_by})", _STEP_COLUMNS, records)
    records = [{"table": step.table, **step.times._asdict()} for step in report.steps if step.times]
    if records:
        out.records("Seconds after the first file of a table (file event)", _TIME_COLUMNS, records)
    comparisons = report.last_comparisons().items()
    records = [record for table, last in comparisons for record in _comparison_records(table, last)]
    out.records("Lake and source after the last step", _COMPARISON_COLUMNS, records)
    reader = report.reader
    failed = f", {reader.failed} failed ({reader.error})" if reader.failed else ""
    out.remark(
        f"Iceberg reader of {reader.table}: {reader.counts} counts during {reader.changes} changes, "
        f"{reader.wrong} wrong{failed}"
    )
    out.remark(f"Equal to the source: {'yes' if report.equal else 'NO'}, after {report.seconds:.0f} seconds")
    out.verbatim(f"\nDuckDB reads the lake's Parquet files:\n\n{QUERY}\n{answer.text}")
    out.remark("Now with files of your own: cdclake local shell (docs/your-first-table.md)")


def _comparison_records(table: str, last: ChecksumComparison) -> list[dict[str, object]]:
    return [
        {"table": table, "side": "lake", "rows": last.rows, "checksum": last.checksum, "equal": last.equal},
        {"side": "source", "rows": last.source_rows, "checksum": last.source_checksum},
    ]
