"""The function for small changes on the embedded AWS: what it loads, what it leaves to Spark, and what it dies of."""

from __future__ import annotations

import io
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.moto_api._internal.models import moto_api_backend

from cdclake.adapters import aws
from cdclake.adapters.aws import server_clock
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.control.jobs.arguments import paths_json, to_argv
from cdclake.errors import RetryableError
from cdclake.lake.operations.job import run_spark_job
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.change.place import Place
from cdclake.model.layout import LakeLayout
from cdclake.model.names import FUNCTION_SMALL_CHANGES, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, STATE_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.web import http_server
from small_changes import handler as module
from small_changes.handler import LIMITS, TIME_TO_COMMIT_MS, process
from tests.builders import parquet_bytes
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from cdclake.lake.limits import EngineLimits

RAW, LAKE = "raw-bucket", "lake-bucket"
ORDERS = f"{RAW}/shop/orders/"
TASK = "arn:aws:dms:us-east-1:123456789012:task:SHOP"
CHANGE = "20240305-101500000.parquet"
ROWS = {number: "new" if number in (1, 4) else "old" for number in (1, 2, 4)}
"""After the full load of the keys 1, 2 and 3 and the change."""
WORDS = {Attribute.ACTIVE_FLAG: "true", Attribute.PRIMARY_KEY: "id", Attribute.FULL_LOAD_QUIET_MINUTES: "0"}

REQUESTS = 29
"""Requests of boto3 for one change."""

pytestmark = [pytest.mark.aws, pytest.mark.usefixtures("own_logging")]


@dataclass
class Deaths:
    """Ends the process at a request of boto3, before it is sent or after it was answered.

    Attributes:
        at: Number of the request, from 1; 0: it lives.
    """

    at: int = 0
    carried_out: bool = False
    requests: int = 0

    def before(self, **_: object) -> None:
        """A request is about to be sent."""
        self.requests += 1
        if self.at and self.requests >= self.at + self.carried_out:
            raise DiedError

    def after(self, **_: object) -> None:
        """A request was answered."""
        if self.at and self.requests >= self.at:
            raise DiedError

    def revive(self, at: int = 0, *, carried_out: bool = False) -> None:
        """Count again from the beginning."""
        self.at, self.carried_out, self.requests = at, carried_out, 0


class Account:
    """A table with a full load, in an account with the function."""

    def __init__(self, deaths: Deaths) -> None:
        self.deaths = deaths
        self.s3: Any = boto3.client("s3")
        self.states = DynamoState(aws.client("dynamodb"), STATE_TABLE)

    def create(self) -> None:
        """Create buckets, state table, catalog and jobs, and load the table."""
        for bucket in (RAW, LAKE):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})
        create_state_table(aws.client("dynamodb"), STATE_TABLE)
        glue: Any = boto3.client("glue")
        glue.create_database(DatabaseInput={"Name": "lake"})
        for job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            glue.create_job(
                Name=job, Role="role", Command={"Name": "glueetl"}, ExecutionProperty={"MaxConcurrentRuns": 9}
            )
        self.load()

    def load(self) -> None:
        """Register the table, and load it, in Spark's place."""
        self.put("LOAD00000001.parquet", {"id": [1, 2, 3], "word": ["old"] * 3})
        self.states.register(TableState.new(RAW, "shop/", "orders/").with_attributes(**WORDS))
        assert self.call()["tables"][0]["outcome"] == "handed on"
        self.run_spark(JOB_LOAD_INITIAL)

    def put(self, name: str, columns: dict[str, list[Any]]) -> None:
        self.s3.put_object(Bucket=RAW, Key=f"shop/orders/{name}", Body=parquet_bytes(pa.table(columns)))

    def change(self) -> None:
        """DMS writes a change file."""
        self.put(CHANGE, {"Op": ["U", "D", "I"], "id": [1, 3, 4], "word": ["new"] * 3})

    def call(
        self,
        request: str = "request-1",
        left_ms: Callable[[], int] = lambda: 300_000,
        limits: EngineLimits = LIMITS,
        *,
        warm: bool = False,
    ) -> dict[str, Any]:
        """Call the function for the table, in the container of the last call or in another one."""
        context = SimpleNamespace(aws_request_id=request, get_remaining_time_in_millis=left_ms, memory_limit_in_mb=1769)
        if not warm:
            module._ports.cache_clear()
        event = {"paths": paths_json([ORDERS])}
        return cast("dict[str, Any]", process(event, cast("LambdaContext", context), limits))

    def started(self, job: str) -> list[dict[str, Any]]:
        """The runs of a Spark job, the newest first."""
        return cast("list[dict[str, Any]]", boto3.client("glue").get_job_runs(JobName=job)["JobRuns"])

    def run_spark(self, job: str) -> None:
        """Do the work of the newest run of a Spark job."""
        run = self.started(job)[0]
        arguments = {name.removeprefix("--"): value for name, value in run["Arguments"].items()}
        argv = [*to_argv(arguments), f"--{Argument.JOB_RUN_ID}", run["Id"]]
        assert not run_spark_job(job, argv, InProcessBackend)["error"]

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(open_store(LAKE), LakeLayout(LAKE, "", TableName("shop", "orders")))

    @property
    def item(self) -> dict[str, str]:
        state = self.states.get(ORDERS)
        assert state
        return dict(state.item)

    def seen(self) -> Counter[tuple[int, str]]:
        """What a reader of the table's folder sees: each row, and how often."""
        rows: Counter[tuple[int, str]] = Counter()
        for entry in self.s3.list_objects_v2(Bucket=LAKE, Prefix="shop/orders/").get("Contents", []):
            data = pq.read_table(io.BytesIO(self.s3.get_object(Bucket=LAKE, Key=entry["Key"])["Body"].read()))
            rows.update(zip(data["id"].to_pylist(), data["word"].to_pylist()))
        return rows


@pytest.fixture
def account() -> Iterator[Account]:
    environment = {"OUT_BUCKET": LAKE, "CATALOG_DATABASE": "lake", "TABLE_METRICS": "false", "OUT_PREFIX": ""}
    with http_server(0) as endpoint, patch.dict(os.environ, child_environment(os.environ, endpoint, "us-east-1")):
        deaths = Deaths()
        with patch.dict(os.environ, environment):
            account = Account(deaths)
            account.create()
            session = _session_events()
            session.register("before-send", deaths.before)
            session.register("response-received", deaths.after)
            yield account
            session.unregister("before-send", deaths.before)
            session.unregister("response-received", deaths.after)
        moto_api_backend.reset()


def _session_events() -> Any:
    return aws.session().events


def is_free(account: Account) -> bool:
    return Attribute.LEASE_HOLDER not in account.item


def test_a_warm_container_asks_dms_in_each_call(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(["Full load", "Table completed"])

    def tables(_: DmsStatistics, task: str) -> Iterator[dict[str, str]]:
        assert task == TASK
        yield {"SchemaName": "shop", "TableName": "orders", "TableState": next(words)}

    monkeypatch.setattr(DmsStatistics, "tables", tables)
    account.states.set_attributes(ORDERS, {"DmsTask": TASK})
    account.put("LOAD00000001.parquet", {"id": [1, 2], "word": ["new"] * 2})
    waiting, handed_on = (account.call(f"request-{number}", warm=True)["tables"][0] for number in range(2))
    assert "DMS task reports 'Full load'" in waiting["rounds"][0]["decision"]["reason"]
    assert handed_on["outcome"] == "handed on"


def test_a_small_change_is_loaded_without_spark(account: Account) -> None:
    account.change()
    (table,) = account.call()["tables"]
    assert account.deaths.requests == REQUESTS
    assert (table["outcome"], table["rounds"][0]["loads"]) == ("done", [JOB_LOAD_INCREMENTAL])
    assert account.seen() == Counter(ROWS.items())
    assert account.started(JOB_LOAD_INCREMENTAL) == []
    record = account.log.record(2)
    assert (record.run_id, account.item[Attribute.LAST_RUN_ID]) == ("request-1", "request-1")
    assert record.place == Place(FUNCTION_SMALL_CHANGES, 1769)
    assert is_free(account)
    assert (
        boto3.client("glue").get_table(DatabaseName="lake", Name="shop_orders")["Table"]["Parameters"]["numRows"] == "3"
    )


@pytest.mark.parametrize("limit", ["raw_bytes", "held_bytes", "rewritten_bytes", "time"])
def test_what_exceeds_a_limit_goes_to_spark_once_and_leaves_nothing(account: Account, limit: str) -> None:
    account.change()
    if limit == "raw_bytes":
        account.put(
            "20240305-101500001.parquet", {"Op": ["U", "U"], "id": [1, 1], "word": [os.urandom(18 << 20).hex(), "new"]}
        )
    limits = replace(LIMITS, **{limit: 100}) if limit in ("held_bytes", "rewritten_bytes") else LIMITS
    left_ms = TIME_TO_COMMIT_MS - 1 if limit == "time" else 300_000
    (table,) = account.call(left_ms=lambda: left_ms, limits=limits)["tables"]
    assert (table["outcome"], account.log.head()) == ("handed on", 1)
    assert account.item[Attribute.LEASE_HOLDER] == "request-1"
    assert account.call("request-2")["tables"][0]["outcome"].startswith("busy")
    account.run_spark(JOB_LOAD_INCREMENTAL)
    assert account.seen() == Counter(ROWS.items())
    assert len(account.started(JOB_LOAD_INCREMENTAL)) == 1
    assert is_free(account)
    place = account.log.record(2).place
    reason = {
        "raw_bytes": "its raw files have 3",
        "held_bytes": "its rows need ",
        "rewritten_bytes": "it rewrites data files of ",
        "time": "59,999 ms",
    }
    assert place.host == JOB_LOAD_INCREMENTAL
    assert reason[limit] in place.spark_reason


def test_a_full_load_goes_to_spark(account: Account) -> None:
    account.put("LOAD00000001.parquet", {"id": [7], "word": ["reloaded"]})
    assert account.call()["tables"][0]["outcome"] == "handed on"
    account.run_spark(JOB_LOAD_INITIAL)
    assert account.seen() == Counter([(7, "reloaded")])


def test_an_error_of_the_raw_data_is_recorded_and_not_tried_again(account: Account) -> None:
    account.states.set_attributes(ORDERS, {"MaxBadRows": "0"})
    account.put(CHANGE, {"Op": ["X"], "id": [1], "word": ["?"]})
    assert "BadRowError" in str(account.call()["error"])
    assert "BadRowError" in account.item[Attribute.LAST_ERROR]
    assert is_free(account)


def test_a_busy_service_is_raised_so_that_lambda_calls_again(account: Account) -> None:
    account.change()
    busy = RetryableError("S3 is busy", remedy="Run again")
    with patch.object(module, "load_small", side_effect=busy), pytest.raises(RetryableError, match="S3 is busy"):
        account.call()
    account.call()
    assert account.seen() == Counter(ROWS.items())


def test_a_spark_run_that_an_operator_stopped_is_not_started_again_by_lambdas_retries(account: Account) -> None:
    account.change()
    account.call(limits=replace(LIMITS, rewritten_bytes=100))
    (run,) = account.started(JOB_LOAD_INCREMENTAL)
    state = account.states.get(ORDERS)
    assert state
    account.states.renew_lease(ORDERS, "request-1", state.fencing_token, server_clock(), 0)
    with patch.object(GlueJobs, "get", return_value=JobRun(run["Id"], JobState.STOPPED, detail="STOPPED")):
        assert "ended as STOPPED" in account.call("request-2")["error"]
    assert account.started(JOB_LOAD_INCREMENTAL) == [run]
    assert is_free(account)


def test_after_a_second_death_of_the_function_at_a_table_spark_loads_it(account: Account) -> None:
    account.change()
    with patch.object(module, "load_small", side_effect=DiedError):
        for deaths in ("", "1"):
            with pytest.raises(DiedError):
                account.call()
            assert account.item.get(Attribute.LAST_DEATHS, "") == deaths
        assert account.call()["tables"][0]["outcome"] == "handed on"
    account.run_spark(JOB_LOAD_INCREMENTAL)
    assert account.seen() == Counter(ROWS.items())
    assert account.item[Attribute.LAST_DEATHS] == ""


def dies_and_is_called_again(account: Account, at: int, *, carried_out: bool) -> bool:
    """Let the function die at a request, and Lambda call it again, until it is done; whether it died."""
    account.change()
    account.deaths.revive(at, carried_out=carried_out)
    try:
        account.call()
        died = False
    except DiedError:
        died = True
    account.deaths.revive()
    if died:
        rows = account.seen()
        assert max(rows.values()) <= 2  # between publishing and retiring
        assert set(rows) >= {(2, "old")}
        account.call()
    assert account.seen() == Counter(ROWS.items())
    assert is_free(account)
    assert account.started(JOB_LOAD_INCREMENTAL) == []
    applied = [record for record in account.log.records(2, account.log.head()) if record.raw_files]
    assert [len(record.raw_files) for record in applied] == [1]
    return died


@pytest.mark.sampled(test=2, ci=6)
@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, REQUESTS + 1))
def test_a_function_that_dies_at_a_request_is_called_again_and_loses_and_repeats_nothing(
    account: Account, at: int, carried_out: bool
) -> None:
    assert dies_and_is_called_again(account, at, carried_out=carried_out)


@pytest.mark.sampled(test=1, ci=3)
@pytest.mark.parametrize("at", range(1, REQUESTS + 1))
def test_a_function_whose_time_runs_out_at_a_request_commits_or_leaves_the_change_to_spark(
    account: Account, at: int
) -> None:
    account.change()
    account.deaths.revive()
    (table,) = account.call(left_ms=lambda: 0 if account.deaths.requests >= at else 300_000)["tables"]
    if table["outcome"] == "handed on":
        assert (account.log.head(), account.log.record(1).place.host) == (1, JOB_LOAD_INITIAL)
        account.run_spark(JOB_LOAD_INCREMENTAL)
        assert account.log.record(2).place.spark_reason == "the function had only 0 ms left"
    assert account.seen() == Counter(ROWS.items())
    assert account.log.head() == 2
    assert is_free(account)


def test_the_same_event_delivered_twice_at_once_is_applied_once(account: Account) -> None:
    account.change()
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(account.call) for _ in range(2)]
        assert "done" in [call.result()["tables"][0]["outcome"] for call in calls]
    assert account.seen() == Counter(ROWS.items())
    assert is_free(account)
    applied = [record for record in account.log.records(2, account.log.head()) if record.raw_files]
    assert len(applied) == 1
