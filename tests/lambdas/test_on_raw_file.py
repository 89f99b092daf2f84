"""The function for events of raw files and of failed runs, with state and jobs in memory and on the embedded AWS."""

from __future__ import annotations

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.stub import Stubber
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.glue.models import glue_backends

from cdclake.adapters.aws import client, server_clock
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.glue import GlueJobs
from cdclake.control.jobs.arguments import parse_paths, paths_json
from cdclake.errors import ConfigurationError, JobRunError, RetryableError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, Argument
from cdclake.model.names import JOB_PROCESS_TABLE as JOB
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.ports import JobState
from cdclake_devkit.memory import ManualClock, MemoryJobs, MemoryState
from on_raw_file import handler as module
from on_raw_file.handler import FAILED, Dependencies, FunctionForProcessTable, handle, handler, new_files, tables_of
from tests import ROOT
from tests.builders import ended
from tests.lambdas import runtime_sdk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake_devkit.memory import Work

EVENTS = ROOT / "tests" / "events"
ORDERS, ITEMS = "raw-bucket/dms/shop/orders/", "raw-bucket/dms/shop/items/"


def event(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return read


def table(folder: str, active: str = "true") -> TableState:
    return TableState.new("raw-bucket", "dms/shop/", folder).with_attributes(ActiveFlag=active)


def paths_in(read: dict[str, Any], raw_prefix: str) -> list[str]:
    return [one.table.path for one in tables_of(new_files(read), raw_prefix)]


def outcomes(read: dict[str, Any], dependencies: Dependencies, clock: ManualClock) -> dict[str, str]:
    done, errors = handle(read, dependencies, clock())
    assert errors == []
    return done


@pytest.fixture
def jobs() -> MemoryJobs:
    """Jobs that run on and on."""
    return MemoryJobs(lambda _job, _arguments: [JobState.ACTIVE])


def around(jobs: MemoryJobs, *states: TableState) -> Dependencies:
    return Dependencies(MemoryState(states), jobs, "dms/")


PATHS = {
    "change_file": [ORDERS],
    "full_load_multipart": [ORDERS],
    "encoded_key": ["raw-bucket/dms/große läden/order lines+more/"],
    "many_records": [ORDERS, ITEMS],
    "removed": [],
    "test_event": [],
    "transactions": [],
    "spark_run_failed": [],
}
"""The tables with new files of each sample event."""


def test_each_table_with_raw_data_is_found_once():
    assert {path.stem: paths_in(event(path.stem), "dms/") for path in EVENTS.glob("*.json")} == PATHS


@pytest.mark.parametrize("schema", ["_cdclake", "_iceberg"])
def test_a_schema_with_a_reserved_name_has_no_tables(schema: str):
    record = event("change_file")
    record["Records"][0]["s3"]["object"]["key"] = f"dms/{schema}/orders/LOAD00000001.csv"
    assert paths_in(record, "dms/") == []


def test_without_a_prefix_the_schemas_are_at_the_top_of_the_bucket():
    record = event("change_file")
    record["Records"][0]["s3"]["object"]["key"] = "shop/orders/LOAD00000001.csv"
    assert paths_in(record, "") == ["raw-bucket/shop/orders/"]


def test_a_run_of_an_active_table_is_started(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs, table("orders/"))
    assert outcomes(event("change_file"), dependencies, clock) == {ORDERS: "started"}
    (start,) = jobs.started
    assert start.job == JOB
    assert parse_paths(start.arguments[Argument.PATHS]) == [ORDERS]


def test_a_transaction_file_triggers_every_active_table_that_reads_its_folder(clock: ManualClock, jobs: MemoryJobs):
    tables = [table(f"t{number}/").with_attributes(CdcPath="cdc/txn") for number in range(3)]
    others = [
        table("plain/"),
        table("paused/", "false").with_attributes(CdcPath="cdc/txn"),
        table("elsewhere/").with_attributes(CdcPath="cdc"),
        table("deeper/").with_attributes(CdcPath="cdc/txn/more"),
    ]
    dependencies = around(jobs, *tables, *others)
    assert outcomes(event("transactions"), dependencies, clock) == {state.path: "started" for state in tables}
    assert outcomes(event("transactions"), dependencies, clock) == {state.path: "collapsed" for state in tables}
    assert len(jobs.started) == 3


def test_a_transaction_file_of_another_bucket_or_prefix_triggers_no_table(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs, table("orders/").with_attributes(CdcPath="cdc/txn"))
    elsewhere = event("transactions")
    elsewhere["Records"][0]["s3"]["bucket"]["name"] = "other-bucket"
    assert outcomes(elsewhere, dependencies, clock) == {}
    elsewhere = event("transactions")
    elsewhere["Records"][0]["s3"]["object"]["key"] = "cdc/txn/CDC_TXN-20240305101500123.csv"
    assert outcomes(elsewhere, dependencies, clock) == {}


def test_a_table_with_its_own_file_and_a_transaction_file_in_one_event_is_triggered_once(
    clock: ManualClock, jobs: MemoryJobs
):
    dependencies = around(jobs, table("orders/").with_attributes(CdcPath="cdc/txn"))
    both = {"Records": [*event("transactions")["Records"], *event("change_file")["Records"]]}
    assert outcomes(both, dependencies, clock) == {ORDERS: "started"}


def test_an_event_without_transaction_files_does_not_scan_the_state_table(clock: ManualClock, jobs: MemoryJobs):
    class NoScan(MemoryState):
        def all(self, path_prefix: str = "") -> Iterator[TableState]:
            raise AssertionError(path_prefix)

    dependencies = Dependencies(NoScan([table("orders/")]), jobs, "dms/")
    assert outcomes(event("change_file"), dependencies, clock) == {ORDERS: "started"}


def test_a_thousand_concurrent_events_start_one_run(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs, table("orders/"))
    with ThreadPoolExecutor(16) as pool:
        came = list(pool.map(lambda _: outcomes(event("change_file"), dependencies, clock)[ORDERS], range(1000)))
    assert sorted(set(came)) == ["collapsed", "started"]
    assert len(jobs.started) == 1


def test_an_unknown_table_is_registered_inactive_and_not_started(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs)
    assert outcomes(event("change_file"), dependencies, clock) == {ORDERS: "registered"}
    state = dependencies.states.get(ORDERS)
    assert state == TableState.new("raw-bucket", "dms/shop/", "orders/")
    assert outcomes(event("change_file"), dependencies, clock) == {ORDERS: "inactive"}
    assert dependencies.states.get(ORDERS) == state
    assert jobs.started == []


def test_an_event_during_a_run_is_left_to_the_run(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs, table("orders/"))
    token = dependencies.states.acquire_lease(ORDERS, "run-1", clock(), 300).token
    assert outcomes(event("change_file"), dependencies, clock) == {ORDERS: "busy"}
    assert jobs.started == []
    assert not dependencies.states.release_lease(ORDERS, "run-1", token, even_if_requested=False)


def test_a_failed_start_is_reported_after_all_tables_were_tried_and_does_not_block_the_retry(clock: ManualClock):
    full = {"now": True}

    def room_for_items_only(job: str, arguments: Mapping[str, str]) -> list[JobState]:
        if full["now"] and "orders" in arguments[Argument.PATHS]:
            raise JobRunError("Glue has no room for another run now", remedy="Run again when a run has ended")
        return [JobState.ACTIVE]

    dependencies = around(MemoryJobs(room_for_items_only), table("orders/"), table("items/"))
    done, (error,) = handle(event("many_records"), dependencies, clock())
    assert done == {ORDERS: FAILED, ITEMS: "started"}
    assert "no room" in error
    full["now"] = False
    assert outcomes(event("many_records"), dependencies, clock) == {ORDERS: "started", ITEMS: "collapsed"}


def dead_run(jobs: MemoryJobs, *paths: str, **arguments: str) -> dict[str, Any]:
    """A Spark run of these tables that has died; returns its event."""
    run_id = jobs.start(JOB_LOAD_INCREMENTAL, {Argument.PATHS: paths_json(paths), **arguments})
    jobs.run_waiting()
    return event_of(run_id)


def event_of(run_id: str, job: str = JOB_LOAD_INCREMENTAL) -> dict[str, Any]:
    read = event("spark_run_failed")
    read["detail"].update(jobName=job, jobRunId=run_id)
    return read


def hold(dependencies: Dependencies, clock: ManualClock, holder: str, *paths: str) -> None:
    """Let a run have the leases of tables."""
    for path in paths:
        dependencies.states.acquire_lease(path, holder, clock(), 300)


@pytest.fixture
def mortal() -> MemoryJobs:
    """Jobs whose Spark runs die when they begin."""

    def script(job: str, _: Mapping[str, str]) -> Work | list[JobState]:
        return [JobState.ACTIVE] if job == JOB else lambda _: ended("killed")

    return MemoryJobs(script)


def test_a_new_run_goes_on_with_the_tables_of_a_run_that_died(clock: ManualClock, mortal: MemoryJobs):
    others = "raw-bucket/dms/shop/others/"
    dependencies = around(mortal, table("orders/"), table("items/"), table("others/"))
    died = dead_run(mortal, ORDERS, ITEMS, others)
    hold(dependencies, clock, died["detail"]["jobRunId"], ORDERS, ITEMS)
    hold(dependencies, clock, "a later run", others)
    assert outcomes(died, dependencies, clock) == {ORDERS: "started", ITEMS: "started"}
    *_, start = mortal.started
    assert (start.job, parse_paths(start.arguments[Argument.PATHS])) == (JOB, [ORDERS, ITEMS])
    for path in (ORDERS, ITEMS):
        dependencies.states.acquire_lease(path, "the new run", clock(), 300)
    assert outcomes(died, dependencies, clock) == {}  # EventBridge delivers an event at least once


def test_a_new_run_goes_on_with_tables_that_a_run_died_before_it_reached(clock: ManualClock, mortal: MemoryJobs):
    dependencies = around(mortal, table("orders/"))
    died = dead_run(mortal, ORDERS, lease_holder="the ProcessTable run")
    hold(dependencies, clock, "the ProcessTable run", ORDERS)
    assert outcomes(died, dependencies, clock) == {ORDERS: "started"}


def test_a_run_that_failed_because_of_its_tables_holds_none_and_has_no_successor(
    clock: ManualClock, mortal: MemoryJobs
):
    dependencies = around(mortal, table("orders/"))
    assert outcomes(dead_run(mortal, ORDERS), dependencies, clock) == {}
    assert [start.job for start in mortal.started] == [JOB_LOAD_INCREMENTAL]


def test_the_event_counts_although_glue_does_not_report_the_end_yet(clock: ManualClock, jobs: MemoryJobs):
    dependencies = around(jobs, table("orders/"))
    ended = event_of(jobs.start(JOB_LOAD_INCREMENTAL, {Argument.PATHS: paths_json([ORDERS])}))
    hold(dependencies, clock, ended["detail"]["jobRunId"], ORDERS)
    assert outcomes(ended, dependencies, clock) == {ORDERS: "started"}


def test_a_run_that_was_started_by_hand_has_no_tables_to_go_on_with(clock: ManualClock, mortal: MemoryJobs):
    dependencies = around(mortal, table("orders/"))
    run_id = mortal.start(JOB_LOAD_INCREMENTAL, {"bucket": "raw-bucket", "prefix": "dms/shop/orders/"})
    mortal.run_waiting()
    assert outcomes(event_of(run_id), dependencies, clock) == {}
    assert len(mortal.started) == 1


def test_the_name_prefix_of_the_deployment_is_taken_off_the_jobs_name(clock: ManualClock, mortal: MemoryJobs):
    dependencies = around(mortal, table("orders/"))._replace(name_prefix="staging-")
    died = dead_run(mortal, ORDERS)
    hold(dependencies, clock, died["detail"]["jobRunId"], ORDERS)
    died["detail"]["jobName"] = f"staging-{JOB_LOAD_INCREMENTAL}"
    assert outcomes(died, dependencies, clock) == {ORDERS: "started"}


def test_the_end_of_an_unknown_run_is_an_error_that_names_it(clock: ManualClock, mortal: MemoryJobs):
    dependencies = around(mortal, table("orders/"))
    with pytest.raises(JobRunError, match="jr_unknown"):
        handle(event_of("jr_unknown"), dependencies, clock())
    assert mortal.started == []


def test_a_table_of_a_dead_run_that_fails_does_not_stop_the_others_and_is_tried_again(
    clock: ManualClock, mortal: MemoryJobs
):
    broken = {ORDERS}

    class Flaky(MemoryState):
        def get(self, path: str) -> TableState | None:
            if path in broken:
                raise RetryableError("AWS did not respond")
            return super().get(path)

    dependencies = Dependencies(Flaky([table("orders/"), table("items/")]), mortal, "dms/")
    died = dead_run(mortal, ORDERS, ITEMS)
    hold(dependencies, clock, died["detail"]["jobRunId"], ORDERS, ITEMS)
    done, (error,) = handle(died, dependencies, clock())
    assert done == {ORDERS: FAILED, ITEMS: "started"}
    assert "AWS did not respond" in error
    hold(dependencies, clock, "the new run", ITEMS)
    broken.clear()
    assert outcomes(died, dependencies, clock) == {ORDERS: "started"}


def create_job(name: str) -> None:
    client("glue").create_job(
        Name=name,
        Role="arn:aws:iam::123456789012:role/jobs",
        Command={"Name": "pythonshell", "ScriptLocation": "s3://code/process_table.py"},
    )


@pytest.fixture
def deployed(aws: None, own_logging: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoState]:
    """The function's dependencies on the embedded AWS."""
    create_state_table(client("dynamodb"), "DMSCDC_Controller")
    create_job(JOB)
    for name, value in {"RAW_PREFIX": "dms", "STATE_TABLE": "DMSCDC_Controller"}.items():
        monkeypatch.setenv(name, value)
    module._function.cache_clear()
    yield DynamoState(client("dynamodb"), "DMSCDC_Controller")
    module._function.cache_clear()


@dataclass
class Context:
    """Lambda's context object, as far as it is used."""

    aws_request_id: str = "request-1"
    function_name: str = "cdclake-on-raw-file"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:cdclake-on-raw-file"


def call(what: str | dict[str, Any]) -> dict[str, str]:
    read = event(what) if isinstance(what, str) else what
    return handler(read, Context())  # type: ignore[arg-type]  # only the used part of the context


def dies_on_aws(deployed: DynamoState, *paths: str) -> dict[str, Any]:
    """Let a Spark run of these tables die on AWS; returns its event."""
    create_job(JOB_LOAD_INCREMENTAL)
    run_id = GlueJobs(client("glue")).start(JOB_LOAD_INCREMENTAL, {Argument.PATHS: paths_json(paths)})
    backend = glue_backends[DEFAULT_ACCOUNT_ID][client("glue").meta.region_name]
    backend.get_job(JOB_LOAD_INCREMENTAL).get_job_run(run_id).status = "FAILED"
    for path in paths:
        deployed.register(table(path.rpartition("shop/")[2]))
        deployed.acquire_lease(path, run_id, server_clock(), 300)
    return event_of(run_id)


def test_the_function_goes_on_after_a_dead_run_on_aws(deployed: DynamoState):
    died = dies_on_aws(deployed, ORDERS, ITEMS)
    assert call(died) == {ORDERS: "started", ITEMS: "started"}
    (run,) = client("glue").get_job_runs(JobName=JOB)["JobRuns"]
    assert parse_paths(run["Arguments"]["--paths"]) == [ORDERS, ITEMS]


def test_a_failure_after_a_dead_run_is_raised_so_that_lambda_delivers_the_event_again(deployed: DynamoState):
    died = dies_on_aws(deployed, ORDERS)
    client("glue").delete_job(JobName=JOB)
    with pytest.raises(JobRunError, match=f"1 of 1 tables failed: .*{JOB}"):
        call(died)
    create_job(JOB)
    assert call(died) == {ORDERS: "started"}


def test_the_function_registers_a_table_and_later_starts_its_run_on_aws(deployed: DynamoState):
    assert call("change_file") == {ORDERS: "registered"}
    deployed.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    assert call("change_file") == {ORDERS: "started"}
    assert call("change_file") == {ORDERS: "collapsed"}
    (run,) = client("glue").get_job_runs(JobName=JOB)["JobRuns"]
    assert parse_paths(run["Arguments"]["--paths"]) == [ORDERS]


def test_in_a_deployment_with_a_prefix_jobs_and_metrics_have_it(
    deployed: DynamoState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("NAME_PREFIX", "staging-")
    create_job(f"staging-{JOB}")
    call("change_file")
    deployed.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    capsys.readouterr()
    assert call("change_file") == {ORDERS: "started"}
    assert client("glue").get_job_runs(JobName=JOB)["JobRuns"] == []
    assert len(client("glue").get_job_runs(JobName=f"staging-{JOB}")["JobRuns"]) == 1
    (embedded,) = json.loads(capsys.readouterr().out.splitlines()[-1])["_aws"]["CloudWatchMetrics"]
    assert embedded["Namespace"] == "staging-cdclake"


def test_the_botocore_of_lambdas_runtime_knows_every_call(deployed: DynamoState, monkeypatch: pytest.MonkeyPatch):
    died = dies_on_aws(deployed, ITEMS)
    made: dict[str, set[str]] = defaultdict(set)
    make = BaseClient._make_api_call  # type: ignore[attr-defined]  # its stub has only public methods

    def recorded(sdk: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        made[f"{sdk.meta.service_model.service_name}.{operation}"].update(parameters)
        return make(sdk, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    call("change_file")
    deployed.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    call("change_file")
    call("transactions")
    call(died)
    known = json.loads(runtime_sdk.FILE.read_text(encoding="utf-8"))["parameters"]
    assert made.keys() == known.keys()
    unknown = {f"{name}.{one}" for name, parameters in made.items() for one in parameters - set(known[name])}
    assert unknown == set()


def test_a_failure_is_raised_so_that_lambda_delivers_the_event_again(deployed: DynamoState):
    call("many_records")
    deployed.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    client("glue").delete_job(JobName=JOB)
    with pytest.raises(JobRunError, match=f"1 of 2 tables failed: .*{JOB}"):
        call("many_records")


def test_every_line_of_the_function_is_json_with_run_table_and_change_and_its_metrics_are_embedded(
    deployed: DynamoState, capsys: pytest.CaptureFixture[str]
):
    call("many_records")
    deployed.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    deployed.record_run(ORDERS, {Attribute.LAST_CHANGE_ID: "7"})
    client("glue").delete_job(JobName=JOB)
    capsys.readouterr()
    with pytest.raises(JobRunError):
        call("many_records")
    out, err = capsys.readouterr()
    assert err == ""
    *lines, measured = [json.loads(line) for line in out.splitlines()]
    logged = {(line["level"], line["message"], line["run_id"], line["table"]) for line in lines}
    assert logged == {("ERROR", "failed", "request-1", "shop.orders"), ("INFO", "inactive", "request-1", "shop.items")}
    assert [line["change"] for line in lines if line["table"] == "shop.items"] == [None]
    (embedded,) = measured["_aws"]["CloudWatchMetrics"]
    assert (embedded["Namespace"], embedded["Dimensions"]) == ("cdclake", [["service"]])
    assert {name: measured[name] for name in ("Tables", "Failed", "Inactive")} == {
        "Tables": [2.0],
        "Failed": [1.0],
        "Inactive": [1.0],
    }


@pytest.mark.usefixtures("deployed")
def test_the_test_event_of_s3_is_accepted_and_does_nothing():
    assert call("test_event") == {}


@pytest.mark.usefixtures("deployed")
def test_a_missing_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("STATE_TABLE")
    with pytest.raises(ConfigurationError, match="STATE_TABLE"):
        call("change_file")


def test_the_function_for_small_changes_is_called_as_processtable_with_the_tables() -> None:
    lambda_client, jobs = boto3.client("lambda", region_name="us-east-1"), MemoryJobs()
    runs = FunctionForProcessTable(lambda_client, "acme-cdclake-small-changes", jobs)
    answer = {"ResponseMetadata": {"RequestId": "request-1", "HTTPStatusCode": 202}, "StatusCode": 202}
    with Stubber(lambda_client) as stub:
        paths = paths_json([ORDERS, ITEMS])
        called = {"FunctionName": "acme-cdclake-small-changes", "InvocationType": "Event"}
        stub.add_response("invoke", answer, {**called, "Payload": json.dumps({"paths": paths}).encode()})
        assert runs.start(JOB, {Argument.PATHS: paths}) == "request-1"
        stub.add_client_error("invoke", "AccessDeniedException")
        with pytest.raises(ConfigurationError, match="lambda:InvokeFunction"):
            runs.start(JOB, {Argument.PATHS: paths_json([ORDERS])})
        assert jobs.started == []
        runs.start(JOB_LOAD_INCREMENTAL, {})
    assert [started.job for started in jobs.started] == [JOB_LOAD_INCREMENTAL]
