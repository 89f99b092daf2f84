"""Tables whose raw file ends the process of the Spark job, for real, in a pack of healthy ones on the embedded AWS.

`make thorough` tries fifty tables, four of them deadly, in two hourly runs; other tiers twelve with one, in one run.
`test_deadly_files.py` lets jobs within this process die instead, in more ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import cdclake
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.control.controller import PlanInputs, plan
from cdclake.control.status import LATE_AFTER_MINUTES, Health, TableStatus, table_statuses
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.aws.services import Services
from cdclake_cli.pipeline import Pipeline
from cdclake_cli.target import Target
from cdclake_devkit.local import EmbeddedAws, LocalDeployment, deploy
from tests.builders import parquet_bytes
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.conftest import COUNTS
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOYMENT = LocalDeployment()
COUNT, DEADLY_NUMBERS = (50, (0, 1, 17, 49)) if TIER is Tier.THOROUGH else (12, (7,))
TABLES = [f"t{number:02d}" for number in range(COUNT)]
DEADLY = {TABLES[number] for number in DEADLY_NUMBERS}
LOAD, CHANGE = "LOAD00000001.parquet", "20240305-100500000.parquet"
TRUSTING_READER = """
from cdclake.lake.raw import parquet as raw_parquet

def trusting(source, read=raw_parquet.footer_of):
    import pyarrow.parquet
    pyarrow.parquet.ParquetFile(source).metadata.to_dict()  # ends the process at the deadly file
    return read(source)

raw_parquet.footer_of = trusting
"""
"""Begins the job's script. The product's own reader refuses the file, so the job gets one that trusts pyarrow."""


class Lake:
    """The embedded AWS with registered, active tables, of which no event starts a run."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws, self.s3 = aws, aws.client("s3")
        self.states = DynamoState(aws.client("dynamodb"), DEPLOYMENT.state_table)
        self.target = Target(
            endpoint_url=aws.endpoint,
            region=aws.region,
            raw_bucket=DEPLOYMENT.raw_bucket,
            lake_bucket=DEPLOYMENT.lake_bucket,
            state_table=DEPLOYMENT.state_table,
        )
        deploy(aws, DEPLOYMENT)
        self.s3.put_bucket_notification_configuration(Bucket=DEPLOYMENT.raw_bucket, NotificationConfiguration={})
        key = "scripts/load_initial.py"
        own = Path(cdclake.__file__).parents[1].joinpath("load_initial.py").read_text()
        future = "from __future__ import annotations\n"
        script = own.replace(future, future + TRUSTING_READER)
        self.s3.put_object(Bucket=DEPLOYMENT.assets_bucket, Key=key, Body=script.encode())
        settings = {Attribute.PRIMARY_KEY: "id", Attribute.FULL_LOAD_QUIET_MINUTES: "0", Attribute.ACTIVE_FLAG: "true"}
        for table in TABLES:
            name = TableName("shop", table)
            self.states.register(self.target.installation.new_state(name).with_attributes(**settings))

    def write(self, table: str, file: str, content: bytes) -> None:
        self.s3.put_object(Bucket=DEPLOYMENT.raw_bucket, Key=f"shop/{table}/{file}", Body=content)

    def run(self) -> None:
        """Run the pipeline as every hour."""
        Pipeline(Services(self.target, self.aws.client), self.target).run()

    def log(self, name: TableName) -> ChangeLog:
        return ChangeLog(S3Store(self.s3, DEPLOYMENT.lake_bucket), LakeLayout(DEPLOYMENT.lake_bucket, "", name))

    def statuses(self) -> dict[str, TableStatus]:
        clock = Services(self.target, self.aws.client).clock
        inputs = PlanInputs(S3Store(self.s3, DEPLOYMENT.raw_bucket), self.states, DEPLOYMENT.raw_bucket, "")
        planned = plan(inputs, clock()).tables
        found = table_statuses(planned, self.log, clock(), LATE_AFTER_MINUTES)
        return {status.table.removeprefix("shop."): status for status in found}

    def rows(self, table: str) -> int:
        log = self.log(TableName("shop", table))
        return log.snapshot(log.head()).rows

    def ended_by_signal(self) -> int:
        """Number of runs of the full load's job that a signal ended."""
        runs = self.aws.client("glue").get_job_runs(JobName=JOB_LOAD_INITIAL)["JobRuns"]
        return sum("ended by signal 6" in run.get("ErrorMessage", "") for run in runs)


@pytest.fixture
def lake() -> Iterator[Lake]:
    with EmbeddedAws() as aws:
        yield Lake(aws)


def rows_of(**columns: list[object]) -> bytes:
    return parquet_bytes(pa.table(columns))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.aws
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_healthy_tables_load_while_raw_files_of_others_end_the_process_of_the_job(
    lake: Lake, request: pytest.FixtureRequest
) -> None:
    for table in TABLES:
        lake.write(table, LOAD, ABORTS_PYARROW.read_bytes() if table in DEADLY else rows_of(id=[1, 2]))
    lake.run()
    require_failed(lake, rows=2)
    deaths = lake.ended_by_signal()
    assert deaths == 2 * len(DEADLY)  # once in the pack, and once alone
    if TIER is Tier.THOROUGH:
        for table in TABLES:
            lake.write(table, CHANGE, rows_of(Op=["I"], id=[3]))
        lake.run()
        require_failed(lake, rows=3)
        assert lake.ended_by_signal() == deaths + len(DEADLY)
    request.node.user_properties.append((COUNTS, {"tables": COUNT, "processes that died": lake.ended_by_signal()}))


def require_failed(lake: Lake, rows: int) -> None:
    assert {table: lake.rows(table) for table in TABLES} == {table: 0 if table in DEADLY else rows for table in TABLES}
    statuses = lake.statuses()
    assert {table for table, status in statuses.items() if status.health is Health.FAILED} == DEADLY
    for table in DEADLY:
        state = lake.states.get(f"{DEPLOYMENT.raw_bucket}/shop/{table}/")
        assert state
        item = state.item
        assert item[Attribute.LAST_ERROR_CODE] == "DeadlyFileError"
        for text in (item[Attribute.LAST_ERROR], statuses[table].to_do):
            assert f"file {LOAD}," in text
            assert "ended by signal 6" in text
            assert "Have DMS write the file again" in text
