"""Commands on machines whose clocks are off: AWS's time counts, and a warning shows both times."""

import json
import re
from datetime import datetime, timedelta, timezone

import boto3
import pytest

from cdclake.adapters.aws import server_clock
from cdclake.model.table.attributes import Attribute

PATH = "cdclake-raw/shop/store/"
SKEWS = [timedelta(minutes=-120), timedelta(minutes=-10), timedelta(minutes=10), timedelta(minutes=120)]
BEHIND_AND_AHEAD = SKEWS[1::2]


def now():
    return datetime.now(timezone.utc)


@pytest.fixture
def machine_is_off(monkeypatch):
    """Sets the clock of this machine. Requests are still signed by the right one, or AWS would refuse some."""

    def off(skew):
        monkeypatch.setattr(server_clock, "_machine", lambda: now() + skew)

    unheard = {"heard": False, "_asked": False, "skew": timedelta(), "report": server_clock.report}
    for name, value in unheard.items():
        monkeypatch.setattr(server_clock, name, value)
    return off


@pytest.fixture
def due(store, state):
    """The table has a change file that is due."""
    state.record_run(PATH, {"LastRunState": "SUCCEEDED", "LastFullLoadDate": f"{now():%Y-%m-%d %H:%M:%S}"})
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/store/20240309-000000000.parquet", Body=b"rows")
    return store


def assert_warned(result, skew):
    (warning,) = [line for line in result.stderr.splitlines() if "The clock of this machine shows" in line]
    shown, right = (
        datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc)
        for text in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", warning)
    )
    assert abs(shown - right - skew) < timedelta(seconds=3)
    assert abs(right - now()) < timedelta(seconds=10)
    assert ("ahead of AWS" if skew > timedelta() else "behind AWS") in warning


@pytest.mark.parametrize("skew", SKEWS)
def test_status_shows_the_lag_by_the_time_of_aws(cdclake, due, machine_is_off, skew):
    machine_is_off(skew)
    result = cdclake("status", "shop.store", "--output", "json")
    status = json.loads(result.stdout.splitlines()[0])
    assert status["lag_files"] >= 1
    assert 0 <= status["lag_seconds"] < 60
    assert status["standing"] != "late"
    assert_warned(result, skew)


def test_a_clock_that_is_right_is_not_mentioned(cdclake, due, machine_is_off):
    machine_is_off(timedelta(seconds=20))
    assert "clock" not in cdclake("status").stderr


@pytest.mark.parametrize("skew", BEHIND_AND_AHEAD)
@pytest.mark.parametrize("command", ["rollback", "reapply", "clean-up"])
def test_a_lease_that_is_live_by_the_time_of_aws_is_respected(cdclake, store, state, machine_is_off, skew, command):
    if command == "reapply":
        cdclake.ok("rollback", "shop.store", "--yes")
    state.acquire_lease(PATH, "jr_at_work", now(), 300)
    before = store.log.head(), dict(state.get(PATH).item)
    machine_is_off(skew)
    result = cdclake(command, "shop.store", "--yes")
    assert result.exit_code == 4, result.output
    assert "jr_at_work" in result.stderr
    assert (store.log.head(), dict(state.get(PATH).item)) == before
    assert_warned(result, skew)


@pytest.mark.parametrize("skew", BEHIND_AND_AHEAD)
def test_a_lease_that_is_over_by_the_time_of_aws_is_taken_over(cdclake, store, state, machine_is_off, skew):
    state.acquire_lease(PATH, "jr_dead", now() - timedelta(seconds=301), 300)
    machine_is_off(skew)
    cdclake.ok("rollback", "shop.store", "--yes")
    assert [record.kind.value for record in store.log.records(4, 5)] == ["takeover", "rollback"]
    assert Attribute.LEASE_HOLDER not in state.get(PATH).item


def test_the_lease_of_a_machine_that_is_behind_ends_by_the_time_of_aws(cdclake, store, state, machine_is_off):
    machine_is_off(timedelta(hours=-2))
    ends = []
    acquire = type(state).acquire_lease

    def record(self, *arguments, **named):
        acquired = acquire(self, *arguments, **named)
        ends.append(self.get(PATH).item[Attribute.LEASE_EXPIRES_UTC])
        return acquired

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(state), "acquire_lease", record)
        cdclake.ok("rollback", "shop.store", "--yes")
    (end,) = ends
    left = datetime.fromisoformat(end.replace("Z", "+00:00")) - now()
    assert timedelta(seconds=280) < left <= timedelta(seconds=302)


def test_changes_of_machines_hours_apart_are_dated_by_the_time_of_aws(cdclake, store, machine_is_off):
    for skew, command in (
        (timedelta(hours=-2), "rollback"),
        (timedelta(hours=2), "reapply"),
        (timedelta(), "rollback"),
    ):
        machine_is_off(skew)
        cdclake.ok(command, "shop.store", "--yes")
    records = store.log.records(4, 6)
    times = [datetime.fromisoformat(record.created_utc) for record in records]
    assert times == sorted(times)
    assert all(abs(time - now()) < timedelta(seconds=60) for time in times)
    assert [record.clock_utc for record in records] == ["", "", ""]


def test_plan_and_status_mention_a_broken_lease(cdclake, due, state):
    client = boto3.client("dynamodb")
    client.update_item(
        TableName="DMSCDC_Controller",
        Key={"path": {"S": PATH}},
        UpdateExpression="SET LeaseHolder = :ghost, LeaseExpiresUtc = :end",
        ExpressionAttributeValues={":ghost": {"S": "ghost"}, ":end": {"S": "2099-01-01T00:00:00Z"}},
    )
    for verb in ("plan", "status"):
        assert "the lease of run ghost counts as expired" in cdclake(verb).output
    assert cdclake("status", "shop.store").exit_code == 6
    cdclake.ok("rollback", "shop.store", "--yes")
    assert "2099" in due.log.record(4).reason
