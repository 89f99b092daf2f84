"""Makes ministack's Glue job runs real.

Ministack 1.5.33 keeps Glue jobs and their runs, but without Docker it calls every Spark run a success, and runs a
Python shell job without its arguments, its library and its role. So what would run a script is replaced here, and
nothing else: the runs, their states and who may start them stay ministack's. Stopping a run does not end its process.

The environment says what is run for each job run: `CDCLAKE_JOB_COMMAND`, a JSON list of program and arguments, with
`CDCLAKE_JOB_PATH` as its PYTHONPATH. The command gets one JSON object on its input: the job as Glue's API shows it, the
run's id and arguments, credentials of the job's role, the endpoint. It answers `{"state", "error"}` on its output.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from functools import partial
from typing import Any

from ministack.core.responses import get_account_id
from ministack.services import glue, sts


def run_jobs(endpoint: str) -> None:
    """Run jobs by the command of the environment from now on.

    Args:
        endpoint: URL of this server.
    """
    glue._resolve_script = _where_it_is
    glue._is_spark_job = lambda _job: False  # all jobs take the way of a Python shell job, which is replaced
    glue._execute_subprocess = partial(_run_job, endpoint)


def _where_it_is(script_location: str) -> str:
    """Ministack would call a run whose script it does not find a success; here it is fetched by the run."""
    return script_location


def _run_job(endpoint: str, run: dict[str, Any], job: dict[str, Any], arguments: dict[str, str], _script: str) -> None:
    """Run the command in place of the script, and write down how that ended."""
    request = {
        "endpoint": endpoint,
        "job": job,
        "run_id": run["Id"],
        "arguments": arguments,
        "credentials": _credentials(job["Role"], run),
    }
    done = subprocess.run(
        json.loads(os.environ["CDCLAKE_JOB_COMMAND"]),
        env={**os.environ, "PYTHONPATH": os.environ["CDCLAKE_JOB_PATH"]},
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"state": "FAILED", "error": f"The runner of jobs ended with exit code {done.returncode}"}
    run["ErrorMessage"], run["JobRunState"] = answer["error"], answer["state"]


def _credentials(role: str, run: dict[str, Any]) -> dict[str, str]:
    """A session of the job's role, whose policies ministack holds every request against."""
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
