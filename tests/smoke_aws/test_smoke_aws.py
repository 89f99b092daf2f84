"""The parts of `make smoke-aws` that need no account: what it measures, and that it removes what it created."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import boto3
import pytest
from smoke_aws.__main__ import Smoke, context_of
from smoke_aws.account import AwsAccount
from smoke_aws.measure import BYTES_PER_EVENT, Measured, measure, table
from smoke_aws.removal import empty_bucket, stop_runs

from cdclake.errors import ConfigurationError, JobRunError
from smoke_aws import __main__ as smoke_aws
from tests.moto_buckets import Version, write_bucket

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.aws

RUN_ID = "jr_0123"
STARTED = datetime(2026, 3, 5, 10, tzinfo=timezone.utc)
RUN = {
    "JobName": "smoke-DMSCDC_LoadInitial",
    "Id": RUN_ID,
    "StartedOn": STARTED,
    "CompletedOn": STARTED + timedelta(seconds=100),
    "ExecutionTime": 64,
    "DPUSeconds": 128.0,
}
LINE = json.dumps({"message": "ended", "parallelism": 8})
PLACE = "123456789012-eu-central-1"


def write_log(group: str, stream: str, *lines: str) -> None:
    logs = boto3.client("logs")
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    now_ms = int(datetime.now(timezone.utc).timestamp() * 1000)
    events = [{"timestamp": now_ms, "message": line} for line in lines]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def test_a_run_is_measured_by_its_times_and_its_logs(aws: None) -> None:
    write_log("/aws-glue/jobs/error", f"{RUN_ID}-driver", "größe", f"26/03/05 10:00:00 INFO {LINE}")
    write_log("/aws-glue/jobs/logs-v2", RUN_ID, "abc")
    write_log("/aws-glue/jobs/output", "jr_9999", "of another run")
    bytes_ = len("größe".encode()) + len(f"26/03/05 10:00:00 INFO {LINE}") + 3 + 3 * BYTES_PER_EVENT
    measured = measure(RUN, boto3.client("logs"))
    assert measured == Measured("smoke-DMSCDC_LoadInitial", RUN_ID, 36.0, 64, 128.0, 8, bytes_)
    assert f"| smoke-DMSCDC_LoadInitial | 36 | 64 | 128 | 8 | {bytes_} |" in table([measured])


def test_a_python_shell_run_has_no_tasks(aws: None) -> None:
    write_log("/aws-glue/python-jobs/output", RUN_ID, '{"message": "planned"}')
    run = {name: value for name, value in RUN.items() if name != "DPUSeconds"}
    measured = measure(run, boto3.client("logs"))
    assert (measured.parallelism, measured.dpu_seconds) == (None, None)
    assert table([measured]).splitlines()[-1].count("|  |") == 1


@pytest.fixture
def bucket(aws: None) -> str:
    """A bucket with versions and delete markers, more than one page of them."""
    s3 = boto3.client("s3")
    name = f"smoke-cdclake-lake-{PLACE}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    written, deleted = (Version(content, {}, STARTED.replace(tzinfo=None)) for content in (b"x", None))
    versions = {f"{number}": [written] * (2 if number < 5 else 1) for number in range(1000)}
    versions["0"].append(deleted)
    write_bucket(name, versions)
    return name


@pytest.mark.long
@pytest.mark.slow
def test_a_bucket_is_emptied_of_all_versions(bucket: str) -> None:
    s3 = boto3.client("s3")
    assert empty_bucket(s3, bucket) == 1006
    s3.delete_bucket(Bucket=bucket)
    assert empty_bucket(s3, bucket) == 0


class Commands:
    """Records what the `cdk` command is asked for. The first call fails if it is this command."""

    def __init__(self, fails: str = "") -> None:
        self.words: list[list[str]] = []
        self._fails = fails

    def __call__(self, words: Sequence[str]) -> None:
        self.words.append(list(words))
        if len(self.words) == 1 and words[0] == self._fails:
            raise ConfigurationError("cdk failed")


def new_smoke(folder: Path, commands: Commands) -> tuple[Smoke, AwsAccount]:
    account = AwsAccount(folder)
    return Smoke(account, context_of(["cdclake:worker_type=G.2X"]), commands), account


def test_what_was_deployed_is_removed_although_a_step_failed(aws: None, tmp_path: Path) -> None:
    commands = Commands(fails="deploy")
    smoke, account = new_smoke(tmp_path, commands)
    assert smoke_aws._test(smoke, account, keep=False, only_remove=False) == 1
    deploy, destroy = commands.words
    assert (deploy[0], destroy[0]) == ("deploy", "destroy")
    assert "cdclake:name_prefix=smoke-" in deploy
    assert "cdclake:delete_data_with_stacks=true" in destroy
    assert "cdclake:worker_type=G.2X" in deploy


def test_a_deployment_can_be_kept_and_removed_later(aws: None, tmp_path: Path, capsys: Any) -> None:
    commands = Commands()
    smoke, account = new_smoke(tmp_path, commands)

    def fails(_report: object) -> list[Measured]:
        raise JobRunError("a step failed")

    smoke.run = fails  # type: ignore[method-assign, assignment]
    assert smoke_aws._test(smoke, account, keep=True, only_remove=False) == 1
    assert commands.words == []
    assert smoke_aws._test(smoke, account, keep=False, only_remove=True) == 0
    assert [words[0] for words in commands.words] == ["destroy"]
    assert "removed" in capsys.readouterr().out


def test_without_agreement_nothing_is_deployed(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_aws, "_run_cdk", lambda *_: pytest.fail("cdk was called"))
    monkeypatch.setattr(smoke_aws, "_agreed", lambda _: False)
    assert smoke_aws.main([]) == 1


@pytest.mark.parametrize("setting", ["name_prefix=", "delete_data_with_stacks=false", "existing_raw_bucket=acme-raw"])
def test_only_a_deployment_of_its_own_is_removed(aws: None, tmp_path: Path, setting: str) -> None:
    commands = Commands()
    with pytest.raises(ConfigurationError, match="smoke test"):
        Smoke(AwsAccount(tmp_path), context_of([f"cdclake:{setting}"]), commands)
    assert commands.words == []


def test_settings_in_cdk_json_count_too(aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"cdclake:existing_lake_bucket": "acme-lake", "cdclake:raw_prefix": "erp"}
    monkeypatch.setattr(smoke_aws, "context_of_cdk_json", lambda: settings)
    with pytest.raises(ConfigurationError, match="existing_lake_bucket"):
        new_smoke(tmp_path, Commands())
    del settings["cdclake:existing_lake_bucket"]
    smoke, _ = new_smoke(tmp_path, Commands())
    assert smoke._settings.raw_prefix == "dms/"


def test_settings_in_a_file_count_too(aws: None, tmp_path: Path) -> None:
    file = tmp_path / "acme.yml"
    file.write_text("existing_lake_bucket: acme-lake\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="existing_lake_bucket"):
        Smoke(AwsAccount(tmp_path), context_of([f"cdclake:settings={file}"]), Commands())


def test_active_runs_are_stopped_before_anything_is_removed() -> None:
    runs = {"smoke-a": ["RUNNING", "SUCCEEDED"], "smoke-b": ["STARTING"]}
    glue = Mock()
    glue.exceptions.EntityNotFoundException = KeyError

    def paginate(JobName: str) -> list[dict[str, Any]]:
        found = [{"Id": f"{JobName}-{number}", "JobRunState": state} for number, state in enumerate(runs[JobName])]
        return [{"JobRuns": found}]

    def stop(JobName: str, JobRunIds: list[str]) -> None:
        for run_id in JobRunIds:
            runs[JobName][int(run_id[-1])] = "STOPPED"
            if JobName == "smoke-b" and len(runs["smoke-a"]) == 2:  # its event starts another run
                runs["smoke-a"].append("STARTING")

    glue.get_paginator.return_value.paginate = paginate
    glue.batch_stop_job_run = stop
    assert stop_runs(glue, ["smoke-a", "smoke-b", "absent"], 0) == [*(f"smoke-a-{n}" for n in range(3)), "smoke-b-0"]
    assert runs == {"smoke-a": ["STOPPED", "SUCCEEDED", "STOPPED"], "smoke-b": ["STOPPED"]}


def test_a_bucket_that_fills_again_is_emptied_again(aws: None, tmp_path: Path) -> None:
    commands = Commands(fails="destroy")
    smoke, _ = new_smoke(tmp_path, commands)
    smoke.remove(lambda *_: None)
    assert [words[0] for words in commands.words] == ["destroy", "destroy"]


def test_a_wrong_setting_is_refused(capsys: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no setting that"):
        context_of(["worker_type"])
