"""`DmsReloads` asks DMS to reload a table, and tells when it has."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from cdclake.adapters.dms import PAGE_TABLES, DmsStatistics
from cdclake.control.plan.full_load_gate import COMPLETED, FAILED
from cdclake.errors import AttentionError, ConfigurationError, RetryableError
from cdclake.model.table.name import TableName
from cdclake_cli.aws.dms_reload import DmsReloads, TableLoad

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = "arn:aws:dms:eu-central-1:123456789012:task:SHOP"
NAME = TableName("shop", "orders")
ENDED = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
BEFORE = TableLoad("SHOP", "Orders", COMPLETED, 10, ENDED)
LATER = ENDED + timedelta(hours=1)


class Dms:
    """The stubbed client, the pauses and the progress."""

    def __init__(self, stubber: Stubber) -> None:
        self.stubber = stubber
        self.pauses: list[float] = []
        self.shown: list[str] = []
        client: Any = stubber.client
        self.reloads = DmsReloads(client, DmsStatistics(lambda: client), self.pauses.append)

    def task(self, status: str = "running", migration_type: str = "full-load-and-cdc") -> Dms:
        one = {"ReplicationTaskArn": TASK, "Status": status, "MigrationType": migration_type}
        self.stubber.add_response("describe_replication_tasks", {"ReplicationTasks": [one]})
        return self

    def table(self, state: str, rows: int = 10, ended: datetime | None = ENDED, name: str = "Orders") -> Dms:
        one = {"SchemaName": "SHOP", "TableName": name, "TableState": state, "FullLoadRows": rows}
        if ended:
            one["FullLoadEndTime"] = ended
        request = {"ReplicationTaskArn": TASK, "MaxRecords": PAGE_TABLES}
        other = {"SchemaName": "SHOP", "TableName": "Items", "TableState": "Before load"}
        self.stubber.add_response("describe_table_statistics", {"TableStatistics": [other, one]}, request)
        return self

    def wait(self, before: TableLoad = BEFORE) -> TableLoad:
        return self.reloads.wait(TASK, NAME, before, lambda load: self.shown.append(load.state))


@pytest.fixture
def dms() -> Iterator[Dms]:
    client = boto3.client("dms", "eu-central-1", aws_access_key_id="made-up", aws_secret_access_key="made-up")
    with Stubber(client) as stubber:
        yield Dms(stubber)
        stubber.assert_no_pending_responses()


def test_dms_is_asked_by_the_names_that_it_reports(dms: Dms):
    before = dms.task().table(COMPLETED).reloads.before_reload(TASK, NAME)
    assert before == BEFORE
    table = {"SchemaName": "SHOP", "TableName": "Orders"}
    request = {"ReplicationTaskArn": TASK, "TablesToReload": [table], "ReloadOption": "data-reload"}
    dms.stubber.add_response("reload_tables", {"ReplicationTaskArn": TASK}, request)
    dms.reloads.reload(TASK, before)


def test_the_old_load_does_not_count_as_the_new_one(dms: Dms):
    dms.task().table(COMPLETED)
    dms.task().table("Table is being reloaded", 0, None)
    dms.task().table("Full load", 7, None)
    dms.task().table(COMPLETED, 12, LATER)
    assert dms.wait() == TableLoad("SHOP", "Orders", COMPLETED, 12, LATER)
    assert dms.shown == [COMPLETED, "Table is being reloaded", "Full load"]
    assert dms.pauses == [2, 4, 8]


def test_a_load_that_ends_between_two_looks_is_seen_by_its_time(dms: Dms):
    dms.task().table(COMPLETED, 12, LATER)
    assert dms.wait().rows == 12


def test_a_load_is_seen_although_dms_tells_no_time(dms: Dms):
    dms.task().table("Full load", 0, None).task().table(COMPLETED, 12, None)
    assert dms.wait(BEFORE._replace(ended_utc=None)).rows == 12


def test_the_error_of_the_load_before_is_none_of_the_new_one(dms: Dms):
    dms.task().table("Table error").task().table("Full load").task().table(COMPLETED, 12)
    assert dms.wait(BEFORE._replace(state="Table error")).rows == 12


@pytest.mark.parametrize("state", sorted(FAILED))
def test_a_load_that_fails_needs_action(dms: Dms, state: str):
    dms.task().table("Full load").task().table(state)
    with pytest.raises(AttentionError, match=state):
        dms.wait()


def test_a_task_that_stops_before_the_end_needs_action(dms: Dms):
    dms.task().table("Full load").task("stopped").table("Full load")
    with pytest.raises(AttentionError, match="'stopped'"):
        dms.wait()


def test_a_task_may_stop_when_it_has_loaded_the_table(dms: Dms):
    dms.task().table("Full load").task("stopped").table(COMPLETED, 12, LATER)
    assert dms.wait().rows == 12


@pytest.mark.parametrize(("status", "kind"), [("stopped", "full-load"), ("running", "cdc")])
def test_a_task_that_cannot_reload_is_refused(dms: Dms, status: str, kind: str):
    dms.task(status, kind)
    with pytest.raises(ConfigurationError):
        dms.reloads.before_reload(TASK, NAME)


def test_a_table_that_is_being_loaded_is_refused(dms: Dms):
    dms.task().table("Full load")
    with pytest.raises(RetryableError, match="'Full load' already"):
        dms.reloads.before_reload(TASK, NAME)


def test_a_table_that_the_task_lacks_is_refused(dms: Dms):
    dms.task().table(COMPLETED, name="renamed")
    with pytest.raises(ConfigurationError, match="no table of this name"):
        dms.reloads.before_reload(TASK, NAME)


def test_a_missing_permission_is_named(dms: Dms):
    dms.stubber.add_client_error("reload_tables", "AccessDeniedFault")
    with pytest.raises(ConfigurationError, match="dms:ReloadTables"):
        dms.reloads.reload(TASK, BEFORE)


STATES = st.sampled_from([COMPLETED, *sorted(FAILED)])
LOADING = st.sampled_from(["Table is being reloaded", "Before load", "Full load"])


@given(before=STATES, stale=st.integers(0, 2), loading=st.lists(LOADING, max_size=3), last=STATES)
def test_whatever_dms_shows_the_end_is_that_of_the_new_load(before: str, stale: int, loading: list[str], last: str):
    """The table looks as before for a while, then loads unseen or seen, then ends."""
    old = BEFORE._replace(state=before)
    shown = [old] * stale + [old._replace(state=one, ended_utc=None) for one in loading]
    new = old._replace(state=last, rows=12, ended_utc=LATER)
    begun = [load.follows(old) for load in [*shown, new]]
    assert begun == [False] * stale + [True] * (len(loading) + 1)
