"""What is specific to the adapters in memory."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from cdclake.errors import JobRunError
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState
from cdclake_devkit.memory import JobStart, ManualClock, MemoryJobs, MemoryState, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_objects_have_the_time_of_the_clock(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    store.put("a", b"")
    clock.advance(1.5)
    store.put("b", b"")
    start = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
    assert [found.modified_utc for found in store.list("")] == [start, start.replace(second=1, microsecond=500_000)]


def test_changing_a_state_that_was_read_does_not_change_the_store() -> None:
    table = TableState.new("raw", "dms/shop/", "product/")
    state = MemoryState([table])
    found = state.get(table.path)
    assert found is not None
    assert isinstance(found.item, dict)
    found.item["ActiveFlag"] = "true"
    assert list(state.all()) == [table]


def test_jobs_succeed_by_default() -> None:
    jobs = MemoryJobs()
    run_id = jobs.start("job", {"a": "1"})
    assert jobs.get("job", run_id) == JobRun(run_id, JobState.SUCCEEDED, "SUCCEEDED", arguments={"a": "1"})
    assert jobs.started == [JobStart("job", {"a": "1"}, run_id)]


def test_a_script_decides_by_job_and_arguments() -> None:
    def script(job: str, arguments: Mapping[str, str]) -> JobRun:
        state = JobState.FAILED if arguments["table"] == "bad" else JobState.SUCCEEDED
        return JobRun("", state, "TIMEOUT", f"{job} gave up")

    jobs = MemoryJobs(script)
    bad, good = jobs.start("job", {"table": "bad"}), jobs.start("job", {"table": "good"})
    assert jobs.get("job", bad) == JobRun(bad, JobState.FAILED, "TIMEOUT", "job gave up", {"table": "bad"})
    assert jobs.get("job", good).state is JobState.SUCCEEDED


def test_a_script_can_refuse_a_start() -> None:
    def script(job: str, arguments: Mapping[str, str]) -> JobRun:
        raise JobRunError("no room")

    jobs = MemoryJobs(script)
    with pytest.raises(JobRunError, match="no room"):
        jobs.start("job", {})
    assert jobs.started == []
