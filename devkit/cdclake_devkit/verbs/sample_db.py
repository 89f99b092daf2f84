"""`cdclake local sample-db`: run the whole pipeline on this machine with a real database as its source."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import IntegrityError
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.sources.options import PASSWORD_VARIABLE, Engine
from cdclake_devkit.verbs.embedded import hourly_run, kept_on_failure, log_named_on_failure

if TYPE_CHECKING:
    from cdclake_cli.printing.output import ProgressBar
    from cdclake_devkit.local import EmbeddedAws, LocalDeployment
    from cdclake_devkit.shop.replicator import ReplicationCommand
    from cdclake_devkit.shop.sample_database import SampleReport
    from cdclake_devkit.shop.shop_database import ShopDatabase

_DEFAULT_ORDERS = 30_000
_MIN_ORDERS = 1_000
_INTERVAL_SECONDS = 2
_LOAD_FILE_KILOBYTES = 1_000
_MAIN = "from cdclake_cli.main import main; main()"

_COLUMNS = (
    OutputColumn("step", "Step"),
    OutputColumn("table", "Table"),
    OutputColumn("changes", "Changes", number=True),
    OutputColumn("rows_read", "Change\nrows", number=True),
    OutputColumn("rows", "Rows in\nthe lake", number=True),
    OutputColumn("source_rows", "Rows in the\ndatabase", number=True),
    OutputColumn("equal", "Equal"),
)


def sample_db(
    *,
    engine: Annotated[
        Engine | None, typer.Option(help="Only this kind of database. Default: each whose server is installed.")
    ] = None,
    orders: Annotated[
        int, typer.Option(min=_MIN_ORDERS, max=1_000_000, help="Orders in the sample shop.")
    ] = _DEFAULT_ORDERS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Run the whole pipeline on this machine, with a private MariaDB as source, and again with a PostgreSQL.

    Compares the lake with the database. Uses nothing outside this machine, and skips a server that is not installed.

    Example: cdclake local sample-db --engine postgres --orders 100000
    """
    from cdclake_devkit.shop.shop_database import (
        MariadbShop,
        PostgresqlShop,
    )  # slow to import, and --help does not need it

    for shop in (MariadbShop, PostgresqlShop):
        if engine in (None, Engine(shop.engine)):
            _run_with(shop, orders, output)


def _run_with(shop: type[ShopDatabase], orders: int, output: OutputFormat) -> None:
    from cdclake_devkit.local import EmbeddedAws

    product = shop.server.product
    if not shop.server.is_installed():
        typer.echo(f"Skipped: there is no {product} server on this machine. {shop.server.how_to_install}.", err=True)
        return
    with kept_on_failure("cdclake-sample-") as data_dir, EmbeddedAws(0, data_dir) as aws, shop.started() as database:
        with log_named_on_failure(aws), progress(f"Deploying cdclake in an embedded AWS, for {product}") as bar:
            report = _run(aws, database, orders, bar)
        show(report, output, product)
        if not report.equal:
            raise _difference(report, aws)


def _run(aws: EmbeddedAws, shop: ShopDatabase, orders: int, bar: ProgressBar) -> SampleReport:
    from cdclake_devkit.local import LocalDeployment, deploy
    from cdclake_devkit.shop.sample_database import STAGES, SampleDatabaseRun

    deployment = LocalDeployment()
    deploy(aws, deployment)
    bar.expect(STAGES)
    command = _replication(aws, deployment, shop)
    return SampleDatabaseRun(aws, deployment, shop, command, hourly_run(aws, deployment), bar.stage).run(orders)


def _replication(aws: EmbeddedAws, deployment: LocalDeployment, shop: ShopDatabase) -> ReplicationCommand:
    """The command that replicates the database to the raw bucket."""
    from cdclake_devkit.shop.replicator import ReplicationCommand
    from cdclake_devkit.shop.shop_database import DATABASE

    arguments = [
        *(sys.executable, "-c", _MAIN, "local", "replicate", DATABASE, "--engine", shop.engine),
        *("--user", shop.user, "--socket", shop.socket, "--port", str(shop.port)),
        *("--endpoint-url", aws.endpoint, "--raw-bucket", deployment.raw_bucket),
        *("--raw-prefix", deployment.raw_prefix),
        *("--set", f"CdcMaxBatchInterval={_INTERVAL_SECONDS}", "--set", f"MaxFileSize={_LOAD_FILE_KILOBYTES}"),
    ]
    return ReplicationCommand(arguments, {**aws.environment(), PASSWORD_VARIABLE: shop.password})


def show(report: SampleReport, output: OutputFormat, product: str) -> None:
    """Print every check of a kind of database: a table, or one JSON object per check."""
    out = output_for(output)
    records = [
        {**check.to_json(), "rows": check.comparison.rows, "source_rows": check.comparison.source_rows}
        for check in report.checks
    ]
    out.records(f"Lake and {product}", _COLUMNS, records)
    counts = f"Hourly runs: {report.hourly_runs}. Kills and restarts of the replication: {report.kills}."
    out.remark(f"{len(report.checks)} checks, each of every row of a table. {counts}")
    out.remark(f"Equal to {product}: {'yes' if report.equal else 'NO'}, after {report.seconds:.0f} seconds")


def _difference(report: SampleReport, aws: EmbeddedAws) -> IntegrityError:
    differences = [
        f"{check.table} after {check.step}: {'; '.join(check.differences)}"
        for check in report.checks
        if not check.equal
    ]
    message = f"The lake is not equal to the database: {' | '.join(differences)}"
    return IntegrityError(message, remedy=f"Check the logs in {aws.logs_dir}")
