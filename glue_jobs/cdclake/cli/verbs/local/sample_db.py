"""`cdclake local sample-db`: run the whole pipeline on this machine with a real database as its source."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.embedded import hourly_run, kept_on_failure, with_log
from cdclake.cli.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.source_database import PASSWORD_VARIABLE
from cdclake.errors import CdclakeError, IntegrityError

if TYPE_CHECKING:
    from cdclake.cli.output import ProgressBar
    from cdclake.devkit.local import EmbeddedAws, LocalDeployment
    from cdclake.devkit.shop.mariadb import PrivateMariadb
    from cdclake.devkit.shop.replicator import ReplicationCommand
    from cdclake.devkit.shop.sample_database import SampleReport

_DEFAULT_ORDERS = 30_000
_MIN_ORDERS = 1_000
_INTERVAL_SECONDS = 2
_LOAD_FILE_KILOBYTES = 1_000
_MAIN = "from cdclake.cli.main import main; main()"

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
    orders: Annotated[
        int, typer.Option(min=_MIN_ORDERS, max=1_000_000, help="Orders in the sample shop.")
    ] = _DEFAULT_ORDERS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Run the whole pipeline on this machine, with a private MariaDB as source.

    Compares the lake with the database. Uses nothing outside this machine, and does nothing if no MariaDB server is
    installed.

    Example: cdclake local sample-db --orders 100000
    """
    from cdclake.devkit.local import EmbeddedAws  # slow to import, and --help does not need it
    from cdclake.devkit.shop.mariadb import PrivateMariadb

    if not PrivateMariadb.is_installed():
        typer.echo(f"Skipped: there is no MariaDB server on this machine. {PrivateMariadb.how_to_install}.", err=True)
        return
    with kept_on_failure("cdclake-sample-") as data_dir, EmbeddedAws(0, data_dir) as aws, PrivateMariadb() as server:
        try:
            with progress("Deploying cdclake in an embedded AWS") as bar:
                report = _run(aws, server, orders, bar)
        except CdclakeError as error:
            raise with_log(error, aws) from error
        show(report, output)
        if not report.equal:
            raise _difference(report, aws)


def _run(aws: EmbeddedAws, server: PrivateMariadb, orders: int, bar: ProgressBar) -> SampleReport:
    from cdclake.devkit.local import LocalDeployment, deploy
    from cdclake.devkit.shop.sample_database import STAGES, SampleDatabaseRun

    deployment = LocalDeployment()
    deploy(aws, deployment)
    bar.expect(STAGES)
    command = _replication(aws, deployment, server)
    return SampleDatabaseRun(aws, deployment, server, command, hourly_run(aws, deployment), bar.stage).run(orders)


def _replication(aws: EmbeddedAws, deployment: LocalDeployment, server: PrivateMariadb) -> ReplicationCommand:
    """The command that replicates the database to the raw bucket."""
    from cdclake.devkit.shop.replicator import ReplicationCommand
    from cdclake.devkit.shop.sample_database import DATABASE

    connection_options = server.connection_options
    arguments = [
        *(sys.executable, "-c", _MAIN, "local", "replicate", DATABASE),
        *("--user", str(connection_options.user), "--socket", connection_options.socket),
        *("--endpoint-url", aws.endpoint, "--raw-bucket", deployment.raw_bucket),
        *("--raw-prefix", deployment.raw_prefix),
        *("--set", f"CdcMaxBatchInterval={_INTERVAL_SECONDS}", "--set", f"MaxFileSize={_LOAD_FILE_KILOBYTES}"),
    ]
    return ReplicationCommand(arguments, {**aws.environment(), PASSWORD_VARIABLE: str(connection_options.password)})


def show(report: SampleReport, output: OutputFormat) -> None:
    """Print every check: a table, or one JSON object per check."""
    out = output_for(output)
    records = [
        {**check.to_json(), "rows": check.comparison.rows, "source_rows": check.comparison.source_rows}
        for check in report.checks
    ]
    out.records("Lake and database", _COLUMNS, records)
    counts = f"Hourly runs: {report.hourly_runs}. Kills and restarts of the replication: {report.kills}."
    out.remark(f"{len(report.checks)} checks, each of every row of a table. {counts}")
    out.remark(f"Equal to the database: {'yes' if report.equal else 'NO'}, after {report.seconds:.0f} seconds")


def _difference(report: SampleReport, aws: EmbeddedAws) -> IntegrityError:
    differences = [
        f"{check.table} after {check.step}: {'; '.join(check.differences)}"
        for check in report.checks
        if not check.equal
    ]
    message = f"The lake is not equal to the database: {' | '.join(differences)}"
    return IntegrityError(message, remedy=f"Check the logs in {aws.logs_dir}")
