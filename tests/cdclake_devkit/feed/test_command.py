"""`cdclake local feed` and `cdclake run` on the embedded AWS with real Spark: many tables in one run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.model.names import STATE_TABLE, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake_cli.main import assembled
from cdclake_devkit.local import EmbeddedAws, deploy
from cdclake_devkit.local.deploy import DEFAULT_DEPLOYMENT
from tests.cdclake_devkit.feed.combinations import COMBINATIONS, SMALL, key_of
from tests.cdclake_devkit.feed.expectation import check_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.timeout(600)]

RAW = DEFAULT_DEPLOYMENT.raw_bucket
ELSEWHERE = {
    "BucketFolder=dms",  # one installation has one folder of schemas
    *("--late", "--rounds", "--fault", "--untidy", "--soft-delete", "--rows", "--transaction-rows"),
}
"""Combinations with these are tested without the command, in `test_matrix`."""
NAMES = [name for name, options in COMBINATIONS.items() if "--set" in options and not ELSEWHERE & set(options)]


@pytest.fixture
def aws() -> Iterator[EmbeddedAws]:
    """Without the on-raw-file function: the hourly run does all the work, with all tables in one Spark session."""
    with EmbeddedAws() as embedded:
        deploy(embedded)
        embedded.client("s3").put_bucket_notification_configuration(Bucket=RAW, NotificationConfiguration={})
        yield embedded


@pytest.mark.thorough
@pytest.mark.long
def test_one_run_produces_every_expected_table(aws: EmbeddedAws, tmp_path: Path) -> None:
    def cdclake(*arguments: str) -> None:
        done = CliRunner().invoke(assembled(), arguments, env=aws.environment())
        assert done.exit_code == 0, f"{arguments}: {done.output}"

    assert len(NAMES) >= 30
    for name in NAMES:
        place = (f"s3://{RAW}", "--expected", str(tmp_path / name), "--table", f"feed.{name}")
        # Histories are covered by `test_matrix`.
        arguments = [argument for argument in COMBINATIONS[name] if argument != "--history"]
        cdclake("local", "feed", *place, *SMALL, "--files", "4", *arguments)
    cdclake("run")  # registers the tables, inactive
    states = DynamoState(aws.client("dynamodb"), STATE_TABLE)
    for name in NAMES:
        attributes = json.loads((tmp_path / name / "table.json").read_text())
        states.set_attributes(f"{RAW}/feed/{name}/", {**attributes, Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})
    cdclake("run")
    lake = S3Store(aws.client("s3"), DEFAULT_DEPLOYMENT.lake_bucket)
    for name in NAMES:
        check_table(lake, f"feed.{name}", key_of(name), pq.read_table(tmp_path / name / "table"))
