"""Makes ministack execute Glue job runs, and send the event of their end.

Without Docker, ministack 1.5.33 reports success for every Spark run, and runs Python shell jobs without their
arguments, library and role. This patch replaces only the execution of scripts; ministack still manages runs, their
states and permissions. Stopping a run does not end its process.

Ministack's Glue sends no events, so the patch hands the event of an ended run to ministack's EventBridge.
https://docs.aws.amazon.com/glue/latest/dg/automating-awsglue-with-cloudwatch-events.html

For each job run, a command is executed with `CDCLAKE_JOB_PATH` as its PYTHONPATH: the one for the job's version of Glue
in `CDCLAKE_JOB_COMMANDS` (JSON: lists of program and arguments by version), or the one of "". It reads a JSON object:
the job as in Glue's API, the run's id and arguments, credentials of the job's role, the endpoint. It writes
`{"state", "error"}`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from functools import partial
from typing import Any

from ministack.core.responses import get_account_id
from ministack.services import eventbridge, glue, sts


def run_jobs(endpoint: str) -> None:
    """Install the patch.

    Args:
        endpoint: URL of this server.
    """
    glue._resolve_script = _script_location
    glue._is_spark_job = lambda _job: False  # all jobs take the code path of Python shell jobs, which is replaced
    glue._execute_subprocess = partial(_run_job, endpoint)


def _script_location(script_location: str) -> str:
    """The unchanged location: the command fetches the script. Ministack would report success for a missing script."""
    return script_location


def _run_job(endpoint: str, run: dict[str, Any], job: dict[str, Any], arguments: dict[str, str], _script: str) -> None:
    """Execute the command instead of the script, and record the result."""
    request = {
        "endpoint": endpoint,
        "job": job,
        "run_id": run["Id"],
        "arguments": arguments,
        "credentials": _credentials(job["Role"], run),
    }
    commands = json.loads(os.environ["CDCLAKE_JOB_COMMANDS"])
    done = subprocess.run(
        commands.get(job.get("GlueVersion"), commands[""]),
        env={**os.environ, "PYTHONPATH": os.environ["CDCLAKE_JOB_PATH"]},
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        result = json.loads(done.stdout)
    except ValueError:
        result = {"state": "FAILED", "error": f"The job runner ended with exit code {done.returncode}"}
    run["ErrorMessage"], run["JobRunState"] = result["error"], result["state"]
    _send_end(run)


def _send_end(run: dict[str, Any]) -> None:
    """Send the event of a run's end, as Glue does."""
    detail = {
        "jobName": run["JobName"],
        "severity": "INFO" if run["JobRunState"] == "SUCCEEDED" else "ERROR",
        "state": run["JobRunState"],
        "jobRunId": run["Id"],
        "message": run["ErrorMessage"],
    }
    entry = {"Source": "aws.glue", "DetailType": "Glue Job State Change", "Detail": json.dumps(detail)}
    eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)


def _credentials(role: str, run: dict[str, Any]) -> dict[str, str]:
    """A session of the job's role; ministack checks every request against the role's policies."""
    name = role.rpartition("/")[2]
    key = f"ASIA{secrets.token_hex(8).upper()}"
    secret, token = secrets.token_hex(20), secrets.token_hex(32)
    session = {
        "Arn": f"arn:aws:sts::{get_account_id()}:assumed-role/{name}/{run['JobName']}",
        "UserId": f"{name}:{run['JobName']}",
        "SecretAccessKey": secret,
        "SessionToken": token,
    }
    sts.register_session(key, session)
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}
