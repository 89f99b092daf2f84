"""The demonstration: the sample shop through the whole pipeline on the embedded AWS, proved after every step.

Full load and round one come into the lake the hourly way: the Controller finds them. Round two comes by the event of
each new raw file, with no Controller in it. To keep the two apart, the raw bucket's notification is off until then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.report import ChangeSummary, change_summaries
from cdclake.devkit.shop.data import TABLES
from cdclake.devkit.shop.lake import prove, settings_of
from cdclake.errors import IntegrityError, JobRunError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import Attribute
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.devkit.dms.names import DmsFile
    from cdclake.devkit.local.deploy import Deployment
    from cdclake.devkit.local.server import EmbeddedAws
    from cdclake.devkit.shop.check import Comparison
    from cdclake.devkit.shop.source import Shop

STAGES = 8
"""How often `Demo` says that a stage begins."""

EVENT_TIMEOUT_SECONDS = 240
HOURLY, EVENT = "hourly run", "file event"


@dataclass(frozen=True)
class TableStep:
    """What one step did to one table, and whether the lake equalled the source after it.

    Attributes:
        step: `full load`, `round one` or `round two`.
        started_by: `hourly run` or `file event`.
        changes: The changes committed by it, at least one.
        proof: The lake table beside the source's, and the catalog beside the lake table.
    """

    table: str
    step: str
    started_by: str
    changes: tuple[ChangeSummary, ...]
    proof: Comparison

    def to_json(self) -> dict[str, Any]:
        """The figures of all changes of the step together."""
        totals = ("raw_files", "rows_read", "inserted", "updated", "deleted", "files_rewritten", "files_added")
        return {
            "step": self.step,
            "started_by": self.started_by,
            "equal": self.proof.equal,
            "rows": self.proof.rows,
            "changes": len(self.changes),
            **{name: sum(getattr(change, name) for change in self.changes) for name in totals},
            "files_before": self.changes[0].files_before,
            "seconds": round(sum(change.seconds for change in self.changes), 3),
        }


@dataclass(frozen=True)
class DemoReport:
    """What the demonstration showed.

    Attributes:
        registered: Tables that the Controller found and registered as inactive.
        steps: In the order they were done, the tables of each by name.
        seconds: From start to end.
    """

    registered: tuple[str, ...]
    steps: tuple[TableStep, ...]
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every table equalled its source after every step."""
        return all(step.proof.equal for step in self.steps)

    def last_proofs(self) -> dict[str, Comparison]:
        """Each table's proof after the last step."""
        return {step.table: step.proof for step in self.steps}

    def to_json(self) -> dict[str, Any]:
        """Everything, by table."""
        tables = {
            table: {
                **proof.to_json(),
                "equal": all(step.proof.equal for step in self.steps if step.table == table),
                "steps": [step.to_json() for step in self.steps if step.table == table],
            }
            for table, proof in self.last_proofs().items()
        }
        registered = list(self.registered)
        return {"equal": self.equal, "registered_inactive": registered, "tables": tables, "seconds": self.seconds}


class Demo:
    """The demonstration on an embedded AWS that cdclake is deployed in.

    Args:
        aws: The embedded AWS.
        deployment: What is deployed in it.
        shop: The source database.
        run_hourly: Does what the hourly workflow does and waits for the end of it; raises if anything fails.
        stage: Told of each stage as it begins, `STAGES` times.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        deployment: Deployment,
        shop: Shop,
        run_hourly: Callable[[], None],
        stage: Callable[[str], None],
    ) -> None:
        self._aws = aws
        self._deployment = deployment
        self._shop = shop
        self._run_hourly = run_hourly
        self._stage = stage
        self._state = DynamoState(aws.client("dynamodb"), deployment.state_table)
        self._lake = S3Store(aws.client("s3"), deployment.lake_bucket)
        self._catalog = GlueCatalog(aws.client("glue"), deployment.catalog_database)
        self._heads = dict.fromkeys(TABLES, 0)

    def run(self) -> DemoReport:
        """Do it all.

        Raises:
            JobRunError: A job failed, or events were not worked off in time.
            IntegrityError: A table was not registered as it should be, or a step left one without a change.
        """
        started = time.monotonic()
        notification = self._notification_off()
        self._stage("Uploading the full load")
        self._upload(self._shop.full_load())
        self._stage("Controller registers the tables")
        self._run_hourly()
        registered = self._registered_inactive()
        self._activate()
        self._stage("Full load of every table")
        self._run_hourly()
        steps = self._prove("full load", HOURLY)

        self._stage("Round one: uploading changes")
        self._upload(self._shop.round_one())
        self._stage("Round one: applied by the hourly run")
        self._run_hourly()
        steps += self._prove("round one", HOURLY)

        self._notification_on(notification)
        self._stage("Round two: uploading late corrections")
        self._upload(self._shop.round_two())
        self._stage("Round two: applied by the event of each file")
        self._aws.wait_until_idle(EVENT_TIMEOUT_SECONDS)
        self._check_last_runs()
        steps += self._prove("round two", EVENT)
        return DemoReport(registered, tuple(steps), round(time.monotonic() - started, 1))

    def _upload(self, files: Iterable[DmsFile]) -> None:
        for file in files:
            key = self._deployment.raw_prefix + file.key
            self._aws.client("s3").put_object(Bucket=self._deployment.raw_bucket, Key=key, Body=file.data)

    def _notification_off(self) -> Mapping[str, Any]:
        s3, bucket = self._aws.client("s3"), self._deployment.raw_bucket
        configuration: dict[str, Any] = s3.get_bucket_notification_configuration(Bucket=bucket)
        configuration.pop("ResponseMetadata")
        s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        return configuration

    def _notification_on(self, configuration: Mapping[str, Any]) -> None:
        self._aws.client("s3").put_bucket_notification_configuration(
            Bucket=self._deployment.raw_bucket, NotificationConfiguration=configuration
        )

    def _registered_inactive(self) -> tuple[str, ...]:
        names = []
        for table in TABLES:
            state = self._state.get(self._path(table))
            if state is None or state.active:
                found = "is not there" if state is None else "is active"
                message = (
                    f"The Controller should have registered {self._shop.name_of(table)} as inactive, and it {found}"
                )
                raise IntegrityError(message, remedy="Look at the Controller's log")
            names.append(str(state.name))
        return tuple(names)

    def _activate(self) -> None:
        """What a person does: look at each table, set its keys, turn it on."""
        for table in TABLES:
            self._state.set_attributes(self._path(table), settings_of(table))

    def _check_last_runs(self) -> None:
        for table in TABLES:
            state = self._state.get(self._path(table))
            error = state.item.get(Attribute.LAST_ERROR) if state else "it is not registered any more"
            if error:
                message = f"The last run of {self._shop.name_of(table)} failed: {error}"
                raise JobRunError(message)

    def _prove(self, step: str, started_by: str) -> list[TableStep]:
        return [self._prove_table(table, step, started_by) for table in TABLES]

    def _prove_table(self, table: str, step: str, started_by: str) -> TableStep:
        log = ChangeLog(self._lake, self._layout(table))
        changes = tuple(change_summaries(log, self._heads[table]))
        if not changes:
            message = f"Nothing was applied to {log.layout.name} in the step '{step}'"
            raise IntegrityError(message, remedy="Look at the logs of the jobs")
        self._heads[table] = changes[-1].change
        proof = prove(log, self._lake, self._catalog, self._shop.expected(table))
        return TableStep(str(log.layout.name), step, started_by, changes, proof)

    def _layout(self, table: str) -> LakeLayout:
        return LakeLayout(self._deployment.lake_bucket, self._deployment.lake_prefix, self._shop.name_of(table))

    def _path(self, table: str) -> str:
        name = self._shop.name_of(table)
        prefix = f"{self._deployment.raw_prefix}{name.schema}/"
        return TableState.new(self._deployment.raw_bucket, prefix, f"{name.table}/").path
