"""Runs the sample shop in a real database through the whole pipeline on the embedded AWS, and compares every row.

The shop is in a private server, and a separate process replicates it. File events and hourly runs both start
jobs. The walkthrough's changes reach the lake by events alone. During the untidy changes, hourly runs repeat, and the
replication is killed each time that it has written changes.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.report import change_summaries
from cdclake.model.layout import LakeLayout
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import IMMEDIATE
from cdclake_cli.dms.settings import CHANGE_SEQUENCE
from cdclake_cli.sources.compare import compare_rows
from cdclake_devkit.replicate.progress import ProgressFile
from cdclake_devkit.shop.checksum import read_lake
from cdclake_devkit.shop.data import TIMESTAMP_COLUMN
from cdclake_devkit.shop.lake_tables import catalog_differences, raw_path, require_inactive, require_success
from cdclake_devkit.shop.replicator import Replicator
from cdclake_devkit.shop.shop_database import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake_cli.sources.compare import RowComparison
    from cdclake_cli.sources.tables import SourceTable
    from cdclake_devkit.local.deploy import LocalDeployment
    from cdclake_devkit.local.server import EmbeddedAws
    from cdclake_devkit.shop.replicator import ReplicationCommand
    from cdclake_devkit.shop.shop_database import ShopDatabase

PARTITION_KEYS = {"productorder": "orderdate"}
STAGES = 7
"""Number of stages that `SampleDatabaseRun` reports."""

_ADDED = (TIMESTAMP_COLUMN, CHANGE_SEQUENCE)
_REPLICATION_TIMEOUT_SECONDS = 120
_EVENT_TIMEOUT_SECONDS = 600
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class TableCheck:
    """A comparison of a lake table with its source.

    Attributes:
        step: The step before the check.
        changes: Number of changes that were committed since the previous check.
        rows_read: Number of change rows in them.
        comparison: Comparison of all rows.
        catalog: Differences between the catalog and the lake table.
    """

    step: str
    table: str
    changes: int
    rows_read: int
    comparison: RowComparison
    catalog: tuple[str, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """All differences, in words."""
        return (*self.comparison.differences, *self.catalog)

    @property
    def equal(self) -> bool:
        """Whether the lake equals the source, and the catalog the lake."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return {**asdict(self), "comparison": self.comparison.to_json(), "equal": self.equal}


@dataclass(frozen=True)
class SampleReport:
    """Result of a run.

    Attributes:
        checks: All checks, in order.
        kills: Number of times that the replication was killed.
        hourly_runs: Number of hourly runs.
        seconds: Total duration.
    """

    checks: tuple[TableCheck, ...]
    kills: int
    hourly_runs: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every check found everything equal."""
        return all(check.equal for check in self.checks)


class SampleDatabaseRun:
    """A run on an embedded AWS with cdclake deployed.

    Args:
        shop: The shop's database, still empty.
        command: Replicates the source to the raw bucket.
        run_hourly: Runs the hourly workflow and waits for its end; raises if a job fails.
        report_stage: Called with a text at the start of each of the `STAGES` stages.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        deployment: LocalDeployment,
        shop: ShopDatabase,
        command: ReplicationCommand,
        run_hourly: Callable[[], None],
        report_stage: Callable[[str], None],
    ) -> None:
        self._aws = aws
        self._deployment = deployment
        self._shop = shop
        self._source = shop.source
        self._run_hourly_once = run_hourly
        self._report_stage = report_stage
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
        """Run all stages.

        Args:
            orders: Number of orders in the database at the start.

        Raises:
            JobRunError: A job or the replication failed, or did not finish in time.
            IntegrityError: A table was not registered correctly.
        """
        started = time.monotonic()
        self._report_stage("Filling the database")
        self._shop.execute("schema.sql")
        self._shop.execute("rows.sql", {"orders": orders})
        with self._replicator:
            self._report_stage("Replicating the full load to the raw bucket")
            self._replicator.wait_for_full_load(_REPLICATION_TIMEOUT_SECONDS)
            self._report_stage("Registering the tables")
            self._aws.wait_until_idle(_EVENT_TIMEOUT_SECONDS)
            self._run_hourly()
            self._activate()
            self._report_stage("Applying the full load in the hourly run")
            self._run_hourly()
            self._check("full load")
            self._report_stage("Applying the walkthrough's changes after file events")
            self._shop.execute("changes.sql")
            self._check("walkthrough's changes")
            self._report_stage("Applying untidy changes while the replication is killed")
            self._make_untidy_changes()
            self._check("untidy changes")
            self._report_stage("Running the hourly run again, which has nothing to do")
            self._run_hourly()
            self._check("another hourly run")
        return SampleReport(tuple(self._checks), self._kills, self._hourly_runs, round(time.monotonic() - started, 1))

    def _run_hourly(self) -> None:
        self._run_hourly_once()
        self._hourly_runs += 1

    def _make_untidy_changes(self) -> None:
        failures: list[Exception] = []

        def make() -> None:
            try:
                self._shop.execute("untidy.sql")
            except Exception as error:  # noqa: BLE001 - raised again in the main thread
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
        """Wait until all changes of the database are applied, and compare every table."""
        self._replicator.wait_for(self._shop.end(), _REPLICATION_TIMEOUT_SECONDS)
        self._aws.wait_until_idle(_EVENT_TIMEOUT_SECONDS)
        with self._source.snapshot() as now:
            for table in now.tables:
                require_success(table.name, self._state.get(self._path(table)))
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
        """Set each table's attributes and turn it on, as an operator does."""
        with self._source.snapshot() as now:
            tables = now.tables
        for table in tables:
            require_inactive(table.name, self._state.get(self._path(table)))
            attributes = {
                Attribute.PRIMARY_KEY: ",".join(table.key),
                Attribute.PARTITION_KEY: PARTITION_KEYS.get(table.name.table, Sentinel.NONE),
                Attribute.UNIQUE_CHECKS: IMMEDIATE,
                Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
            }
            self._state.set_attributes(self._path(table), attributes)

    def _path(self, table: SourceTable) -> str:
        return raw_path(self._deployment, table.name)
