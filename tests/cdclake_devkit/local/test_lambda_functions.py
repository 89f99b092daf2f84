"""Lambda functions in the embedded AWS, invoked by API and by S3 notifications."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import pytest

from tests.builders import eventually
from tests.cdclake_devkit.local.workbench import BUCKET, WAIT_SECONDS, Workbench, zip_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.aws

SAVE_EVENTS = """
    import boto3, json, os, uuid
    s3 = boto3.client("s3")

    def handler(event, context):
        for record in event["Records"]:
            key = f"{os.environ['AWS_LAMBDA_FUNCTION_NAME']}/{uuid.uuid4()}"
            s3.put_object(Bucket=os.environ["BUCKET"], Key=key, Body=json.dumps(record))
"""
FAIL_AT_FIRST = """
    import boto3, os
    s3 = boto3.client("s3")

    def handler(event, context):
        name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        tries = s3.list_objects_v2(Bucket=os.environ["BUCKET"], Prefix=f"{name}/")["KeyCount"] + 1
        s3.put_object(Bucket=os.environ["BUCKET"], Key=f"{name}/{tries}", Body=context.aws_request_id)
        if tries <= int(os.environ["FAILURES"]):
            os._exit(7) if os.environ["HOW"] == "crash" else 1 / 0
"""


def invoke(bench: Workbench, name: str, event: object, **how: Any) -> dict[str, Any]:
    answer: dict[str, Any] = bench.functions.invoke(FunctionName=name, Payload=json.dumps(event), **how)
    answer["Payload"] = answer["Payload"].read()
    return answer


def result(bench: Workbench, name: str, event: object = None) -> Any:
    answer = invoke(bench, name, event)
    assert "FunctionError" not in answer, answer
    return json.loads(answer["Payload"])


def saved(bench: Workbench, function: str) -> list[dict[str, Any]]:
    return [json.loads(bench.get(key)) for key in bench.keys(f"{function}/")]


def test_a_function_returns_its_result_whatever_it_prints(bench: Workbench) -> None:
    name, arn = bench.function(
        """
        import os, subprocess
        def handler(event, context):
            print('{"result": "false"}', flush=True)
            os.system("echo from a child")
            return [event, os.environ["COLOUR"], context.function_name, context.invoked_function_arn,
                    0 < context.get_remaining_time_in_millis() <= 20000]
        """,
        COLOUR="rëd",
    )
    answer = invoke(bench, name, {"a": "é\n"}, LogType="Tail")
    assert json.loads(answer["Payload"]) == [{"a": "é\n"}, "rëd", name, arn, True]
    log = base64.b64decode(answer["LogResult"]).decode()
    assert log == '{"result": "false"}\nfrom a child\n'
    assert (bench.aws.logs_dir / "lambda" / f"{name}.log").read_text() == log


def test_a_function_that_raises_returns_lambdas_error_object(bench: Workbench) -> None:
    name, _ = bench.function("def handler(event, context): raise KeyError('table')")
    answer = invoke(bench, name, {})
    error = json.loads(answer["Payload"])
    assert answer["FunctionError"] == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("KeyError", "'table'")
    assert "in handler" in error["stackTrace"][-1]


def test_code_that_cannot_be_loaded_is_an_error_of_the_invocation(bench: Workbench) -> None:
    name, _ = bench.function("import no_such_module")
    assert json.loads(invoke(bench, name, {})["Payload"])["errorType"] == "ModuleNotFoundError"


def test_a_process_stays_warm_and_is_replaced_after_a_crash(bench: Workbench) -> None:
    name, _ = bench.function("""
        import os
        def handler(event, context):
            if event == "die":
                os._exit(3)
            return os.getpid()
    """)
    first = result(bench, name)
    assert result(bench, name) == first
    answer = invoke(bench, name, "die")
    assert answer["FunctionError"] == "Unhandled"
    assert "Runtime exited with exit code 3" in json.loads(answer["Payload"])["errorMessage"]
    assert result(bench, name) != first


def test_a_function_is_killed_at_its_timeout(bench: Workbench) -> None:
    name, _ = bench.function(
        """
        import os, time
        def handler(event, context):
            time.sleep(event)
            return os.getpid()
        """,
        timeout_seconds=1,
    )
    first = result(bench, name, 0)
    answer = invoke(bench, name, 1000)
    assert "Task timed out after 1.00 seconds" in json.loads(answer["Payload"])["errorMessage"]
    assert result(bench, name, 0) != first


def test_new_code_and_new_variables_take_effect(bench: Workbench) -> None:
    name, _ = bench.function("def handler(event, context): return 1")
    assert result(bench, name) == 1
    bench.functions.update_function_code(
        FunctionName=name, ZipFile=zip_of("import os\ndef handler(event, context): return os.environ.get('COLOUR')")
    )
    assert result(bench, name) is None
    bench.functions.update_function_configuration(FunctionName=name, Environment={"Variables": {"COLOUR": "red"}})
    assert result(bench, name) == "red"


def test_an_event_invocation_returns_at_once_and_runs_later(bench: Workbench) -> None:
    name, _ = bench.function(SAVE_EVENTS)
    assert invoke(bench, name, {"Records": [1, 2]}, InvocationType="Event")["StatusCode"] == 202
    bench.aws.wait_until_idle(WAIT_SECONDS)
    assert sorted(json.loads(bench.get(key)) for key in bench.keys(f"{name}/")) == [1, 2]


def test_an_unusual_key_reaches_the_function_url_encoded_as_in_s3(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENTS)
    bucket = bench.notified_bucket(arn)
    etag = bench.s3.put_object(Bucket=bucket, Key="a b+c/é=1.csv", Body=b"12345")["ETag"]
    bench.aws.wait_until_idle(WAIT_SECONDS)
    (record,) = saved(bench, name)
    assert record["eventName"] == "ObjectCreated:Put"
    assert record["s3"]["bucket"]["name"] == bucket
    assert record["s3"]["object"]["key"] == "a+b%2Bc/%C3%A9%3D1.csv"
    assert unquote_plus(record["s3"]["object"]["key"]) == "a b+c/é=1.csv"
    assert record["s3"]["object"]["size"] == 5
    assert record["s3"]["object"]["eTag"] == etag.strip('"')
    assert "versionId" not in record["s3"]["object"]


def test_copy_and_multipart_upload_notify_once_each(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENTS)
    bucket = bench.notified_bucket(arn)
    bench.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    bench.put("source", b"x")
    bench.s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": BUCKET, "Key": "source"})
    upload = bench.s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    part = bench.s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"y")
    done = bench.s3.complete_multipart_upload(
        Bucket=bucket,
        Key="parts",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    bench.s3.copy_object(Bucket=bucket, Key="copy of parts", CopySource={"Bucket": bucket, "Key": "parts"})
    bench.aws.wait_until_idle(WAIT_SECONDS)
    records = sorted(saved(bench, name), key=lambda record: str(record["s3"]["object"]["sequencer"]))
    assert [(record["eventName"], record["s3"]["object"]["key"]) for record in records] == [
        ("ObjectCreated:Copy", "copy"),
        ("ObjectCreated:CompleteMultipartUpload", "parts"),
        ("ObjectCreated:Copy", "copy+of+parts"),
    ]
    assert records[1]["s3"]["object"]["versionId"] == done["VersionId"]


def test_only_keys_that_pass_the_filter_notify(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENTS)
    rules = [{"Name": "prefix", "Value": "raw/"}, {"Name": "suffix", "Value": ".csv"}]
    bucket = bench.notified_bucket(arn, Filter={"Key": {"FilterRules": rules}})
    bench.deliver(bucket, "raw/1.csv", "raw/1.txt", "other/1.csv")
    bench.s3.delete_object(Bucket=bucket, Key="raw/1.csv")
    bench.aws.wait_until_idle(WAIT_SECONDS)
    assert [record["s3"]["object"]["key"] for record in saved(bench, name)] == ["raw/1.csv"]


def test_a_put_does_not_wait_for_the_function(bench: Workbench, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    name, arn = bench.function(
        """
        import os, pathlib, time
        def handler(event, context):
            while not pathlib.Path(os.environ["GATE"]).exists():
                time.sleep(0.02)
        """,
        GATE=str(gate),
    )
    bucket = bench.notified_bucket(arn)
    for number in range(3):
        bench.s3.put_object(Bucket=bucket, Key=str(number), Body=b"")  # would hang if it waited
    log = bench.aws.logs_dir / "lambda" / f"{name}.log"
    assert eventually(log.exists)
    gate.touch()
    bench.aws.wait_until_idle(WAIT_SECONDS)


def request_ids(bench: Workbench, function: str) -> list[str]:
    """The ids of the requests of `FAIL_AT_FIRST`, in order."""
    return [bench.get(key).decode() for key in bench.keys(f"{function}/")]


@pytest.mark.parametrize("how", ["raise", "crash"])
def test_an_event_is_retried_twice_as_the_same_request_if_its_function_fails(
    bench: Workbench, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, arn = bench.function(FAIL_AT_FIRST, HOW=how, FAILURES="2")
    bench.deliver(bench.notified_bucket(arn), "k")
    first, second, third = request_ids(bench, name)
    assert first == second == third
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


@pytest.mark.parametrize("how", ["raise", "crash"])
def test_an_event_invocation_is_retried_as_the_request_that_the_caller_knows(bench: Workbench, how: str) -> None:
    name, _ = bench.function(FAIL_AT_FIRST, HOW=how, FAILURES="2")
    answers = [invoke(bench, name, {}, InvocationType="Event")["ResponseMetadata"]["RequestId"]]
    bench.aws.wait_until_idle(WAIT_SECONDS)
    answers.append(invoke(bench, name, {})["ResponseMetadata"]["RequestId"])
    assert request_ids(bench, name) == [answers[0]] * 3 + [answers[1]]
    assert answers[0] != answers[1]


def test_a_function_calls_another_one_if_its_role_grants_it(bench: Workbench) -> None:
    called, _ = bench.function(SAVE_EVENTS)
    name, _ = bench.function(
        """
        import boto3, json
        def handler(event, context):
            return boto3.client("lambda").invoke(
                FunctionName=event, InvocationType="Event", Payload=json.dumps({"Records": [1]})
            )["ResponseMetadata"]["HTTPStatusCode"]
        """
    )
    answer = json.loads(invoke(bench, name, called)["Payload"])
    assert "is not authorized to perform: lambda:InvokeFunction on resource: arn:aws:lambda:" in answer["errorMessage"]
    bench.may("lambda:InvokeFunction")
    assert result(bench, name, called) == 202
    bench.aws.wait_until_idle(WAIT_SECONDS)
    assert len(bench.keys(f"{called}/")) == 1


def test_an_event_that_always_fails_is_dropped_loudly(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    name, arn = bench.function(FAIL_AT_FIRST, HOW="raise", FAILURES="99")
    bucket = bench.notified_bucket(arn)
    bench.deliver(bucket, "the key")
    assert len(bench.keys(f"{name}/")) == 3
    last = caplog.records[-1]
    assert last.levelname == "ERROR"
    assert f"S3 event ObjectCreated:Put of {bucket}/the+key: dropped after 3 attempts" in last.getMessage()
    assert "ZeroDivisionError" in last.getMessage()


def test_a_notification_of_a_deleted_function_is_logged(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    name, arn = bench.function(SAVE_EVENTS)
    bucket = bench.notified_bucket(arn)
    bench.functions.delete_function(FunctionName=name)
    bench.deliver(bucket, "k")
    assert f"the function {arn} does not exist" in caplog.records[-1].getMessage()


def test_a_burst_of_events_is_delivered_completely(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENTS)
    keys = [f"k{number:02}" for number in range(50)]
    bucket = bench.notified_bucket(arn)
    started = time.monotonic()
    bench.deliver(bucket, *keys)
    assert sorted(record["s3"]["object"]["key"] for record in saved(bench, name)) == keys
    assert time.monotonic() - started < WAIT_SECONDS
