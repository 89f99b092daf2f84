"""The contract of job runners, run on all adapters."""

from __future__ import annotations

import pytest

from cdclake.adapters.glue import GlueJobs
from cdclake.errors import JobRunError
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.ports import JobRun, JobRunner, JobState
from cdclake_devkit.memory import MemoryJobs

STARTED = (JobState.ACTIVE, JobState.ACTIVE, JobState.SUCCEEDED)


@pytest.fixture(params=["memory", pytest.param("glue", marks=pytest.mark.aws)])
def jobs(request: pytest.FixtureRequest) -> JobRunner:
    """Each kind of job runner, with one job whose runs take a while and succeed."""
    if request.param == "memory":
        return MemoryJobs(lambda job, arguments: STARTED)
    return GlueJobs(request.getfixturevalue("glue"))


def test_a_run_can_be_followed_to_its_end(jobs: JobRunner) -> None:
    arguments = {"bucket": "raw", "primaryKey": "null"}
    run_id = jobs.start(JOB_LOAD_INITIAL, arguments)
    seen = jobs.get(JOB_LOAD_INITIAL, run_id)
    assert seen.state is JobState.ACTIVE
    for _ in range(10):
        if seen.state is not JobState.ACTIVE:
            break
        seen = jobs.get(JOB_LOAD_INITIAL, run_id)
    assert seen == JobRun(run_id, JobState.SUCCEEDED, "SUCCEEDED", arguments=arguments)
    assert jobs.get(JOB_LOAD_INITIAL, run_id) == seen


def test_every_run_has_a_unique_id(jobs: JobRunner) -> None:
    assert len({jobs.start(JOB_LOAD_INITIAL, {}) for _ in range(3)}) == 3


def test_an_unknown_run_is_an_error_that_names_it(jobs: JobRunner) -> None:
    with pytest.raises(JobRunError, match="jr_unknown"):
        jobs.get(JOB_LOAD_INITIAL, "jr_unknown")
