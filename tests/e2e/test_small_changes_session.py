"""Raw files reach the function of small changes through their events, and its role is enforced."""

from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.model.layout import LakeLayout
from cdclake.model.names import FUNCTION_SMALL_CHANGES, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, STATE_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_devkit.local import EmbeddedAws, deploy
from cdclake_devkit.local.deploy import LocalDeployment, place_of
from cdclake_devkit.local.roles import ON_RAW_FILE, SMALL_CHANGES, policies
from tests import ROOT
from tests.builders import parquet_bytes
from tests.infra.calls import Recorder, unused
from tests.infra.reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.long]

DEPLOYMENT = LocalDeployment(small_changes=True)
WAIT_SECONDS = 240
ROLE_PREFIX = "cdclake-"
SETTINGS = {Attribute.ACTIVE_FLAG: "true", Attribute.PRIMARY_KEY: "id", Attribute.FULL_LOAD_QUIET_MINUTES: "0"}
DIES_ONCE = """
import os, pathlib
import own

def handler(event, context):
    requests = pathlib.Path(os.environ["REQUESTS"])
    died = requests.exists()
    with requests.open("a") as file:
        file.write(context.aws_request_id + "\\n")
    if not died:
        own.load_small = lambda *_, **__: os._exit(1)
    return own.handler(event, context)
"""


class Account:
    """An account with the table `shop.orders`."""

    def __init__(self, aws: EmbeddedAws, recorder: Recorder) -> None:
        self.aws, self.recorder = aws, recorder
        self.states = DynamoState(aws.client("dynamodb"), STATE_TABLE)
        self.log = ChangeLog(
            open_store(DEPLOYMENT.lake_bucket), LakeLayout(DEPLOYMENT.lake_bucket, "", TableName("shop", "orders"))
        )

    def put(self, name: str, columns: dict[str, list[Any]], table: str = "orders") -> None:
        """Write a raw file, and wait for all that its event starts."""
        key = f"shop/{table}/{name}.parquet"
        self.aws.client("s3").put_object(Bucket=DEPLOYMENT.raw_bucket, Key=key, Body=parquet_bytes(pa.table(columns)))
        self.aws.wait_until_idle(WAIT_SECONDS)

    def runs(self, job: str) -> list[str]:
        """The states of a job's runs."""
        return [run["JobRunState"] for run in self.aws.client("glue").get_job_runs(JobName=job)["JobRuns"]]

    def words(self) -> dict[int, str]:
        """The table's rows."""
        s3, rows = self.aws.client("s3"), []
        for entry in s3.list_objects_v2(Bucket=DEPLOYMENT.lake_bucket, Prefix="shop/orders/")["Contents"]:
            content = s3.get_object(Bucket=DEPLOYMENT.lake_bucket, Key=entry["Key"])["Body"].read()
            rows += pq.read_table(io.BytesIO(content)).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["word"] for row in rows}


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """The table has a full load, which its event started."""
    recorder = Recorder()
    with EmbeddedAws(middleware=recorder.around) as aws, patch.dict(os.environ, aws.environment()):
        deploy(aws, DEPLOYMENT)
        account = Account(aws, recorder)
        account.states.register(TableState.new(DEPLOYMENT.raw_bucket, "shop/", "orders/").with_attributes(**SETTINGS))
        account.put("LOAD00000001", {"id": [1, 2], "word": ["old"] * 2})
        yield account


def test_a_full_load_goes_to_spark(account: Account) -> None:
    assert account.runs(JOB_LOAD_INITIAL) == ["SUCCEEDED"]
    assert account.log.record(1).place.host == JOB_LOAD_INITIAL
    assert account.log.record(1).place.spark_reason == "it is a full load"


def test_a_change_is_computed_by_the_function_without_a_run(account: Account) -> None:
    account.put("20240305-101500000", {"Op": ["U"], "id": [1], "word": ["new"]})
    assert account.words() == {1: "new", 2: "old"}
    place = account.log.record(2).place
    assert (place.host, place.memory_mb) == (FUNCTION_SMALL_CHANGES, 1769)
    assert account.runs(JOB_LOAD_INCREMENTAL) == []


def test_a_function_that_dies_is_called_again_and_goes_on(account: Account, tmp_path: Path) -> None:
    own = zipfile_of(own=(ROOT / "lambdas" / "small_changes" / "handler.py").read_text(), handler=DIES_ONCE)
    functions = account.aws.client("lambda")
    variables = functions.get_function_configuration(FunctionName=FUNCTION_SMALL_CHANGES)["Environment"]["Variables"]
    requests = tmp_path / "requests"
    functions.update_function_code(FunctionName=FUNCTION_SMALL_CHANGES, ZipFile=own)
    functions.update_function_configuration(
        FunctionName=FUNCTION_SMALL_CHANGES, Environment={"Variables": {**variables, "REQUESTS": str(requests)}}
    )
    account.put("20240305-101600000", {"Op": ["I"], "id": [3], "word": ["new"]})
    first, second = requests.read_text().splitlines()
    assert first == second == account.log.record(account.log.head()).run_id
    assert account.words()[3] == "new"
    assert account.runs(JOB_LOAD_INCREMENTAL) == []


def zipfile_of(**modules: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, code in modules.items():
            archive.writestr(f"{name}.py", code)
    return content.getvalue()


@pytest.mark.parametrize("caller", [ON_RAW_FILE, SMALL_CHANGES])
def test_a_role_allows_only_what_a_call_or_a_reason_needs(account: Account, caller: str) -> None:
    account.put("LOAD00000001", {"id": [1]}, table="new")  # registers it
    granted = policies(place_of(DEPLOYMENT, account.aws.region), small_changes=True)[caller]
    needed = account.recorder.needed[f"{ROLE_PREFIX}{caller}"]
    assert unused(granted, needed) - REASONS[caller].keys() == set()
    assert REASONS[caller].keys() <= unused(granted, ())
