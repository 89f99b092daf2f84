"""The sample shop in a real database, through the whole pipeline on the embedded AWS, and the lake held against it.

A private MariaDB holds the shop, a process of its own replicates it, and the events of raw files start the work from
the beginning; the hourly run comes on top. The walkthrough's changes get to the lake by events alone. While the untidy
ones are made, the hourly run goes round and round, and the replication is killed whenever it has sent some.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pymysql.constants import CLIENT

import cdclake
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.report import change_summaries
from cdclake.devkit.replicate.compare import compare_rows
from cdclake.devkit.replicate.connection import connect
from cdclake.devkit.replicate.progress import ProgressFile
from cdclake.devkit.replicate.snapshot import end_of_binlog, snapshot
from cdclake.devkit.shop.check import read_lake
from cdclake.devkit.shop.lake import catalog_differences
from cdclake.devkit.shop.replicator import Replicator
from cdclake.errors import ConfigurationError, IntegrityError, JobRunError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.devkit.local.deploy import Deployment
    from cdclake.devkit.local.server import EmbeddedAws
    from cdclake.devkit.replicate.compare import RowComparison
    from cdclake.devkit.replicate.source_tables import SourceTable
    from cdclake.devkit.shop.mariadb import PrivateMariadb
    from cdclake.devkit.shop.replicator import ReplicationCommand

DATABASE = "shop"
PARTITION_KEYS = {"productorder": "orderdate"}
TIMESTAMP_COLUMN = "dms_timestamp"
STAGES = 7
"""How often `SampleDatabase` says that a stage begins."""

_ADDED = (TIMESTAMP_COLUMN, "AR_H_CHANGE_SEQ")
_REPLICATION_TIMEOUT_SECONDS = 120
_EVENT_TIMEOUT_SECONDS = 600
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class TableCheck:
    """A lake table held against its source at one moment.

    Attributes:
        step: After what.
        changes: ChangeRows that were committed since the check before.
        rows_read: Change rows in these.
        comparison: All rows of both.
        catalog: What the catalog says otherwise than the lake table is.
    """

    step: str
    table: str
    changes: int
    rows_read: int
    comparison: RowComparison
    catalog: tuple[str, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """All that is not as it should be, in words."""
        return (*self.comparison.differences, *self.catalog)

    @property
    def equal(self) -> bool:
        """Whether the lake is as the source, and the catalog as the lake."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return {**asdict(self), "comparison": self.comparison.to_json(), "equal": self.equal}


@dataclass(frozen=True)
class SampleReport:
    """What came of it.

    Attributes:
        checks: In the order they were made.
        kills: How often the replication was killed.
        hourly_runs: How many hourly runs there were.
        seconds: From start to end.
    """

    checks: tuple[TableCheck, ...]
    kills: int
    hourly_runs: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every check found everything equal."""
        return all(check.equal for check in self.checks)


def sql_files() -> Path:
    """Folder of the sample database's scripts.

    Raises:
        ConfigurationError: They are not there, as in an installation without the checkout.
    """
    folder = Path(cdclake.__file__).resolve().parents[2] / "sample_db"
    if not (folder / "schema.sql").is_file():
        message = f"The sample database's scripts are not in {folder}"
        raise ConfigurationError(message, remedy="Run this from a checkout of cdclake")
    return folder


class SampleDatabase:
    """The run, on an embedded AWS that cdclake is deployed in.

    Args:
        aws: The embedded AWS.
        deployment: What is deployed in it.
        server: The source.
        command: Replicates it to the raw bucket.
        run_hourly: Does what the hourly workflow does and waits for the end of it; raises if anything fails.
        stage: Told of each stage as it begins, `STAGES` times.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        deployment: Deployment,
        server: PrivateMariadb,
        command: ReplicationCommand,
        run_hourly: Callable[[], None],
        stage: Callable[[str], None],
    ) -> None:
        self._aws = aws
        self._deployment = deployment
        self._connection_options = server.connection_options
        self._run_hourly_once = run_hourly
        self._stage = stage
        raw = S3Store(aws.client("s3"), deployment.raw_bucket)
        progress = ProgressFile(raw, deployment.raw_prefix, DATABASE)
        self._replicator = Replicator(command, progress, aws.logs_dir / "replication.log")
        self._state = DynamoState(aws.client("dynamodb"), deployment.state_table)
        self._lake = S3Store(aws.client("s3"), deployment.lake_bucket)
        self._catalog = GlueCatalog(aws.client("glue"), deployment.catalog_database)
        self._heads: dict[str, int] = {}
        self._checks: list[TableCheck] = []
        self._kills = self._hourly_runs = 0

    def run(self, orders: int) -> SampleReport:
        """Do it all.

        Args:
            orders: Orders in the database at the beginning.

        Raises:
            JobRunError: A job or the replication failed, or did not come to an end in time.
            IntegrityError: A table was not registered as it should be.
        """
        started = time.monotonic()
        self._stage("Filling the database")
        self._execute("schema.sql")
        self._execute("rows.sql", f"set @orders = {orders:d};")
        with self._replicator:
            self._stage("Full load to the raw bucket")
            self._replicator.wait_for_full_load(_REPLICATION_TIMEOUT_SECONDS)
            self._stage("Tables are registered")
            self._aws.wait_until_idle(_EVENT_TIMEOUT_SECONDS)
            self._run_hourly()
            self._activate()
            self._stage("Full load to the lake, by the hourly run")
            self._run_hourly()
            self._check("full load")
            self._stage("The walkthrough's changes, by the events of files")
            self._execute("changes.sql")
            self._check("walkthrough's changes")
            self._stage("Untidy changes, hourly runs and events; the replication is killed")
            self._make_untidy_changes()
            self._check("untidy changes")
            self._stage("Another hourly run, which finds nothing to do")
            self._run_hourly()
            self._check("another hourly run")
        return SampleReport(tuple(self._checks), self._kills, self._hourly_runs, round(time.monotonic() - started, 1))

    def _execute(self, script: str, before: str = "") -> None:
        """Run a script of the sample database, as the `mysql` program does."""
        text = (sql_files() / script).read_text(encoding="utf-8")
        use = "" if script == "schema.sql" else f"use {DATABASE};"
        connection = connect(self._connection_options, client_flag=CLIENT.MULTI_STATEMENTS)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(f"{use}{before}{text}")
            while cursor.nextset():
                pass

    def _run_hourly(self) -> None:
        self._run_hourly_once()
        self._hourly_runs += 1

    def _make_untidy_changes(self) -> None:
        failures: list[Exception] = []

        def make() -> None:
            try:
                self._execute("untidy.sql")
            except Exception as error:  # noqa: BLE001 - raised again where somebody sees it
                failures.append(error)

        changes = threading.Thread(target=make, daemon=True)
        before = self._replicator.position()
        changes.start()
        while changes.is_alive():
            if self._replicator.position() == before:
                time.sleep(_POLL_SECONDS)
                continue
            self._replicator.kill_and_restart()
            self._kills += 1
            before = self._replicator.position()
            self._run_hourly()
        if failures:
            raise failures[0]

    def _check(self, step: str) -> None:
        """Wait until the lake has what the database has, and hold every table against it."""
        with closing(connect(self._connection_options)) as connection:
            end = end_of_binlog(connection)
        self._replicator.wait_for(end, _REPLICATION_TIMEOUT_SECONDS)
        self._aws.wait_until_idle(_EVENT_TIMEOUT_SECONDS)
        with snapshot(self._connection_options, DATABASE) as now:
            for table in now.tables:
                self._require_good_run(table)
                self._checks.append(self._check_table(step, table, pa.concat_tables(now.rows(table))))

    def _check_table(self, step: str, table: SourceTable, source: pa.Table) -> TableCheck:
        layout = LakeLayout(self._deployment.lake_bucket, self._deployment.lake_prefix, table.name)
        log = ChangeLog(self._lake, layout)
        changes = list(change_summaries(log, self._heads.get(table.name.table, 0)))
        if changes:
            self._heads[table.name.table] = changes[-1].change
        lake = read_lake(self._lake, layout, table.schema)
        return TableCheck(
            step,
            str(table.name),
            len(changes),
            sum(change.rows_read for change in changes),
            compare_rows(lake, source, table.key, _ADDED),
            tuple(catalog_differences(log, self._catalog)),
        )

    def _activate(self) -> None:
        """What a person does: look at each table that was registered, set its keys, turn it on."""
        with snapshot(self._connection_options, DATABASE) as now:
            tables = now.tables
        for table in tables:
            state = self._state.get(self._path(table))
            if state is None or state.active:
                found = "is not there" if state is None else "is active"
                message = f"{table.name} should have been registered as inactive, and it {found}"
                raise IntegrityError(message, remedy="Look at the logs of the Controller and of the function")
            settings = {
                Attribute.PRIMARY_KEY: ",".join(table.key),
                Attribute.PARTITION_KEY: PARTITION_KEYS.get(table.name.table, Sentinel.NONE),
                Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
            }
            self._state.set_attributes(self._path(table), settings)

    def _require_good_run(self, table: SourceTable) -> None:
        state = self._state.get(self._path(table))
        error = state.item.get(Attribute.LAST_ERROR) if state else "it is not registered any more"
        if error:
            message = f"The last run of {table.name} failed: {error}"
            raise JobRunError(message)

    def _path(self, table: SourceTable) -> str:
        prefix = f"{self._deployment.raw_prefix}{table.name.schema}/"
        return TableState.new(self._deployment.raw_bucket, prefix, f"{table.name.table}/").path
