"""`cdclake demo`: the whole pipeline on this machine, with proof."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.run import STEP_COLUMNS, failure, step_record
from cdclake.errors import CdclakeError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.cli.output import ProgressBar
    from cdclake.local import EmbeddedAws
    from cdclake.local.demo import DemoReport
    from cdclake.local.shop_check import Comparison

_DEFAULT_ORDERS = 300_000
_MIN_ORDERS = 1_000

_STEP_COLUMNS = (Column("table", "Table"), *STEP_COLUMNS, Column("equal", "Equal"))
_PROOF_COLUMNS = (
    Column("table", "Table"),
    Column("side", "Of"),
    Column("rows", "Rows", number=True),
    Column("checksum", "Checksum"),
    Column("equal", "Equal"),
)


def demo(
    *,
    orders: Annotated[int, typer.Option(min=_MIN_ORDERS, help="Orders in the sample shop.")] = _DEFAULT_ORDERS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Run the whole pipeline on this machine: a sample shop, full load, changes, and proof that the lake is equal.

    Nothing outside this machine is used, and no AWS account.

    Example: cdclake demo --orders 20000
    """
    from cdclake.local import EmbeddedAws  # heavy, and --help needs none of it

    with _kept_on_failure() as data_dir, EmbeddedAws(0, data_dir) as aws:
        try:
            with progress("Deploying cdclake in an embedded AWS") as bar:
                report = _run(aws, orders, bar)
        except CdclakeError as error:
            raise _with_log(error, aws) from error
        show(report, output)
        if not report.equal:
            raise _difference(report, aws)


def _difference(report: DemoReport, aws: EmbeddedAws) -> IntegrityError:
    found = [
        f"{step.table} after {step.step}: {', '.join(step.proof.differences)}"
        for step in report.steps
        if not step.proof.equal
    ]
    return IntegrityError(
        f"The lake is not equal to the source: {'; '.join(found)}", remedy=f"Logs are in {aws.logs_dir}"
    )


def _run(aws: EmbeddedAws, orders: int, bar: ProgressBar) -> DemoReport:
    from cdclake.cli.pipeline import Pipeline
    from cdclake.cli.services import Services
    from cdclake.cli.target import Target
    from cdclake.local import Deployment, deploy
    from cdclake.local.demo import STAGES, Demo
    from cdclake.local.shop import Shop

    deployment = Deployment()
    deploy(aws, deployment)
    target = Target(
        endpoint_url=aws.endpoint,
        region=aws.region,
        raw_bucket=deployment.raw_bucket,
        raw_prefix=deployment.raw_prefix,
        lake_bucket=deployment.lake_bucket,
        lake_prefix=deployment.lake_prefix,
        state_table=deployment.state_table,
    )
    pipeline = Pipeline(Services(target, aws.client), target)

    def run_hourly() -> None:
        outcome = pipeline.run()
        if outcome.failed:
            raise failure(outcome)

    bar.expect(STAGES)
    shop = Shop(lambda: datetime.now(timezone.utc), orders=orders)
    return Demo(aws, deployment, shop, run_hourly, bar.stage).run()


def show(report: DemoReport, output: OutputFormat) -> None:
    """Print what was done and whether the lake equals the source: two tables, or one JSON object."""
    shown = output_for(output)
    if output is OutputFormat.JSON:
        shown.records("Demo", (), [report.to_json()])
        return
    registered = ", ".join(report.registered)
    shown.remark(f"The Controller registered {registered} as inactive. Keys were set, then all were activated.\n")
    for (name, started_by), steps in groupby(report.steps, key=lambda step: (step.step, step.started_by)):
        records = [{"table": step.table, **step_record(step.to_json())} for step in steps]
        shown.records(f"{name.capitalize()}, started by: {started_by}", _STEP_COLUMNS, records)
    proofs = [line for table, proof in report.last_proofs().items() for line in _proof_lines(table, proof)]
    shown.records("Lake and source after the last step", _PROOF_COLUMNS, proofs)
    shown.remark(f"Equal to the source: {'yes' if report.equal else 'NO'}, after {report.seconds:.0f} seconds")


def _proof_lines(table: str, proof: Comparison) -> list[dict[str, object]]:
    return [
        {"table": table, "side": "lake", "rows": proof.rows, "checksum": proof.checksum, "equal": proof.equal},
        {"side": "source", "rows": proof.source_rows, "checksum": proof.source_checksum},
    ]


@contextmanager
def _kept_on_failure() -> Iterator[Path]:
    """A folder for logs, which is deleted unless something fails."""
    folder = Path(tempfile.mkdtemp(prefix="cdclake-demo-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # leftovers in the temporary folder hurt nobody


def _with_log(error: CdclakeError, aws: EmbeddedAws) -> CdclakeError:
    """The error, with where the job that caused it wrote its log, and the end of that."""
    from cdclake.local.demo_logs import failed_runs

    runs = failed_runs(aws)
    if not runs:
        return type(error)(error.message, remedy=error.remedy or f"Look at the logs in {aws.logs_dir}", **error.details)
    first = runs[0]
    typer.echo("\n".join((f"Last lines of {first.job}, run {first.run_id}:", *first.last_lines)), err=True)
    return type(error)(error.message, remedy=f"The log of {first.job} is {first.log}", **error.details)
