"""The demo: runs the sample shop through the whole pipeline on the embedded AWS, and checks the lake after every step.

Hourly runs of the Controller apply the full load and round one. Events of new raw files apply round two, without the
Controller. To keep the two apart, the raw bucket's notification is off until round two.

One table has Iceberg readers. A reader counts its rows all the while.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.report import ChangeSummary, change_summaries
from cdclake.control.catalog.plan import table_name
from cdclake.errors import IntegrityError
from cdclake.model.layout import LakeLayout
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.shop import lake_tables
from cdclake_devkit.shop.checksum import read_lake
from cdclake_devkit.shop.data import TABLES
from cdclake_devkit.shop.event_times import EventTimes, event_times
from cdclake_devkit.shop.iceberg_reader import IcebergReader
from cdclake_devkit.shop.memory_table import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake_cli.dms.names import DmsFile
    from cdclake_devkit.local.deploy import LocalDeployment
    from cdclake_devkit.local.server import EmbeddedAws
    from cdclake_devkit.shop.checksum import ChecksumComparison
    from cdclake_devkit.shop.iceberg_reader import CountReport
    from cdclake_devkit.shop.sample_shop import SampleShop

STAGES = 8
"""Number of stages that `Demo` reports."""

EVENT_TIMEOUT_SECONDS = 240
ICEBERG_TABLE = "product"
ICEBERG_ATTRIBUTES = {Attribute.READERS: "iceberg", Attribute.PARTITION_KEY: "dept"}
"""Round one moves a product to another department, and thus to another file."""
HOURLY, EVENT = "hourly run", "file event"


@dataclass(frozen=True)
class TableStep:
    """What a step did to a table, and whether the lake equaled the source after it.

    Attributes:
        step: `full load`, `round one` or `round two`.
        started_by: `hourly run` or `file event`.
        changes: The changes that the step committed, at least one.
        comparison: The lake table compared with the source, and the catalog with the lake table.
        times: From its first new file to its visible change; None in hourly runs.
    """

    table: str
    step: str
    started_by: str
    changes: tuple[ChangeSummary, ...]
    comparison: ChecksumComparison
    times: EventTimes | None = None

    def to_json(self) -> dict[str, Any]:
        """The totals of all changes of the step."""
        totals = ("raw_files", "rows_read", "inserted", "updated", "deleted", "files_rewritten", "files_added")
        return {
            "step": self.step,
            "started_by": self.started_by,
            "equal": self.comparison.equal,
            "rows": self.comparison.rows,
            "changes": len(self.changes),
            **{name: sum(getattr(change, name) for change in self.changes) for name in totals},
            "files_before": self.changes[0].files_before,
            "seconds": round(sum(change.seconds for change in self.changes), 3),
            **({"event_times": self.times._asdict()} if self.times else {}),
        }


@dataclass(frozen=True)
class DemoReport:
    """Result of the demo.

    Attributes:
        registered: Tables that the Controller registered as inactive.
        steps: Steps in the order of execution; within a step, one entry per table.
        reader: What the reader of the Iceberg table found during all steps.
        seconds: Total duration.
    """

    registered: tuple[str, ...]
    steps: tuple[TableStep, ...]
    reader: CountReport
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every table equaled its source after every step."""
        return all(step.comparison.equal for step in self.steps)

    def last_comparisons(self) -> dict[str, ChecksumComparison]:
        """Each table's comparison after the last step."""
        return {step.table: step.comparison for step in self.steps}

    def to_json(self) -> dict[str, Any]:
        """The whole result, by table."""
        tables = {
            table: {
                **comparison.to_json(),
                "equal": all(step.comparison.equal for step in self.steps if step.table == table),
                "steps": [step.to_json() for step in self.steps if step.table == table],
            }
            for table, comparison in self.last_comparisons().items()
        }
        registered = list(self.registered)
        return {
            "equal": self.equal,
            "registered_inactive": registered,
            "tables": tables,
            "reader": self.reader.to_json(),
            "seconds": self.seconds,
        }


class Demo:
    """The demo on an embedded AWS with cdclake deployed.

    Args:
        run_hourly: Runs the hourly workflow and waits for its end; raises if a job fails.
        report_stage: Called with a text at the start of each of the `STAGES` stages.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        deployment: LocalDeployment,
        shop: SampleShop,
        run_hourly: Callable[[], None],
        report_stage: Callable[[str], None],
    ) -> None:
        self._aws = aws
        self._deployment = deployment
        self._shop = shop
        self._run_hourly = run_hourly
        self._report_stage = report_stage
        self._state = DynamoState(aws.client("dynamodb"), deployment.state_table)
        self._lake = S3Store(aws.client("s3"), deployment.lake_bucket)
        self._catalog = GlueCatalog(aws.client("glue"), deployment.catalog_database)
        self._heads = dict.fromkeys(TABLES, 0)
        name = f"{deployment.catalog_database}.{table_name(shop.name_of(ICEBERG_TABLE))}"
        self._reader = IcebergReader(aws, name, KEY)

    def run(self) -> DemoReport:
        """Run all stages.

        Raises:
            JobRunError: A job failed, or events were not handled in time.
            IntegrityError: A table was not registered correctly, or a step committed no change to a table.
        """
        with self._reader:
            return self._run()

    def _run(self) -> DemoReport:
        started = time.monotonic()
        notification = self._turn_notification_off()
        self._report_stage("Uploading the full load")
        self._upload(self._shop.full_load())
        self._report_stage("Registering the tables")
        self._run_hourly()
        registered = self._registered_inactive()
        self._activate()
        self._report_stage("Applying the full load")
        self._run_hourly()
        steps = self._check("full load", HOURLY)

        self._report_stage("Round one: uploading changes")
        self._upload(self._shop.round_one())
        self._report_stage("Round one: applying changes in the hourly run")
        self._run_hourly()
        steps += self._check("round one", HOURLY)

        self._turn_notification_on(notification)
        self._report_stage("Round two: uploading late corrections")
        written = self._upload(self._shop.round_two())
        self._report_stage("Round two: applying corrections after file events")
        self._aws.wait_until_idle(EVENT_TIMEOUT_SECONDS)
        self._check_last_runs()
        steps += [self._with_times(step, written) for step in self._check("round two", EVENT)]
        counts = self._reader.report(self._rows_after_changes(ICEBERG_TABLE))
        return DemoReport(registered, tuple(steps), counts, round(time.monotonic() - started, 1))

    def _upload(self, files: Iterable[DmsFile]) -> dict[str, datetime]:
        """Write files; returns when the first one of each table was written, by the table's name."""
        written: dict[str, datetime] = {}
        for file in files:
            schema, table = file.key.split("/")[:2]
            written.setdefault(f"{schema}.{table}", datetime.now(timezone.utc))
            key = self._deployment.raw_prefix + file.key
            self._aws.client("s3").put_object(Bucket=self._deployment.raw_bucket, Key=key, Body=file.data)
        return written

    def _turn_notification_off(self) -> Mapping[str, Any]:
        s3, bucket = self._aws.client("s3"), self._deployment.raw_bucket
        configuration: dict[str, Any] = s3.get_bucket_notification_configuration(Bucket=bucket)
        configuration.pop("ResponseMetadata")
        s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        return configuration

    def _turn_notification_on(self, configuration: Mapping[str, Any]) -> None:
        self._aws.client("s3").put_bucket_notification_configuration(
            Bucket=self._deployment.raw_bucket, NotificationConfiguration=configuration
        )

    def _registered_inactive(self) -> tuple[str, ...]:
        for table in TABLES:
            lake_tables.require_inactive(self._shop.name_of(table), self._state.get(self._path(table)))
        return tuple(str(self._shop.name_of(table)) for table in TABLES)

    def _activate(self) -> None:
        """Set each table's attributes and turn it on, as an operator does."""
        for table in TABLES:
            attributes = lake_tables.attributes_of(table) | (ICEBERG_ATTRIBUTES if table == ICEBERG_TABLE else {})
            self._state.set_attributes(self._path(table), attributes)

    def _check_last_runs(self) -> None:
        for table in TABLES:
            lake_tables.require_success(self._shop.name_of(table), self._state.get(self._path(table)))

    def _check(self, step: str, started_by: str) -> list[TableStep]:
        return [self._check_table(table, step, started_by) for table in TABLES]

    def _check_table(self, table: str, step: str, started_by: str) -> TableStep:
        log = ChangeLog(self._lake, self._layout(table))
        changes = tuple(change_summaries(log, self._heads[table]))
        if not changes:
            message = f"No change of {log.layout.name} was committed in the step '{step}'"
            raise IntegrityError(message, remedy="Check the logs of the jobs")
        self._heads[table] = changes[-1].change
        source = self._shop.expected(table)
        rows = self._reader.rows() if table == ICEBERG_TABLE else read_lake(self._lake, log.layout, source.schema)
        comparison = lake_tables.compare_with_source(rows, source, log, self._catalog)
        return TableStep(str(log.layout.name), step, started_by, changes, comparison)

    def _with_times(self, step: TableStep, written: Mapping[str, datetime]) -> TableStep:
        log = ChangeLog(self._lake, self._layout(step.table.partition(".")[2]))
        times = event_times(self._aws, step.table, log.record(step.changes[0].change), written[step.table])
        return replace(step, times=times)

    def _rows_after_changes(self, table: str) -> dict[int, int]:
        summaries = change_summaries(ChangeLog(self._lake, self._layout(table)), 0)
        return {summary.change: summary.rows for summary in summaries}

    def _layout(self, table: str) -> LakeLayout:
        return LakeLayout(self._deployment.lake_bucket, self._deployment.lake_prefix, self._shop.name_of(table))

    def _path(self, table: str) -> str:
        return lake_tables.raw_path(self._deployment, self._shop.name_of(table))
