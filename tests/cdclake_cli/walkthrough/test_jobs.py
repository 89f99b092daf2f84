"""Runs and triggers of the walkthrough's jobs are found before anything is adopted."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from cdclake_cli.walkthrough.jobs import jobs_at_work


class Glue:
    """Answers as Glue does.

    Args:
        runs: State of the newest run by job; other jobs do not exist.
        triggers: As `get_triggers` returns them.
        error: Code of the error of jobs that do not exist.
    """

    def __init__(
        self, runs: dict[str, str], triggers: list[dict[str, Any]], error: str = "EntityNotFoundException"
    ) -> None:
        self._runs, self._triggers, self._error = runs, triggers, error

    def get_job_runs(self, JobName: str, MaxResults: int) -> dict[str, Any]:
        if JobName not in self._runs:
            raise ClientError({"Error": {"Code": self._error}}, "GetJobRuns")
        states = (self._runs[JobName], "SUCCEEDED")
        return {"JobRuns": [{"Id": f"jr_{number}", "JobRunState": state} for number, state in enumerate(states)]}

    def get_paginator(self, name: str) -> Any:
        assert name == "get_triggers"
        return self

    def paginate(self) -> list[dict[str, Any]]:
        return [{"Triggers": [one]} for one in self._triggers]


def found(*arguments: Any) -> Any:
    glue: Any = Glue(*arguments)
    return jobs_at_work(glue)


def test_only_runs_that_have_not_ended_are_at_work() -> None:
    states = {"DMSCDC_Controller": "SUCCEEDED", "DMSCDC_ProcessTable": "RUNNING", "DMSCDC_LoadInitial": "STARTING"}
    assert found(states, []).running == ("DMSCDC_ProcessTable", "DMSCDC_LoadInitial")


def test_only_triggers_that_are_on_and_start_such_a_job_count() -> None:
    triggers = [
        {"Name": name, "State": state, "Actions": [{"JobName": job}]}
        for name, state, job in (
            ("hourly", "ACTIVATED", "DMSCDC_Controller"),
            ("off", "DEACTIVATED", "DMSCDC_Controller"),
            ("other", "ACTIVATED", "reports"),
        )
    ]
    assert found({}, triggers).triggers == ("hourly",)


def test_another_error_is_not_hidden() -> None:
    with pytest.raises(ClientError):
        found({}, [], "AccessDeniedException")
