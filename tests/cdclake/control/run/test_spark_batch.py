"""The progress of a Spark run of several tables, and its outcome for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from cdclake.control.jobs.entry import StoppedError
from cdclake.control.run import spark_batch
from cdclake.control.run.spark_batch import BatchProgress, batch_key, progress_key, read_progress, run_batch
from cdclake.control.run.spark_runs import Death, batch_outcome
from cdclake.errors import BadRowError, ConfigurationError, JobRunError
from cdclake.model.names import JOB_LOAD_INITIAL, Argument
from cdclake.ports import JobRun, JobState
from cdclake_devkit.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = batch_key("lake/", "run-1-1")
PATHS = ("raw/shop/a/", "raw/shop/b/", "raw/shop/c/")


@pytest.fixture
def lake() -> MemoryStore:
    store = MemoryStore()
    spark_batch.write_batch(store, KEY, [{Argument.BUCKET: "raw", Argument.PREFIX: f"shop/{name}/"} for name in "abc"])
    return store


def fails_for_b(error: Exception):
    def load(arguments: Mapping[str, str]) -> dict[str, object]:
        if arguments[Argument.PREFIX] == "shop/b/":
            raise error
        return {"change": 1}

    return load


def test_an_expected_error_is_reported_and_the_next_table_begins(lake: MemoryStore):
    summary = run_batch(lake, KEY, fails_for_b(BadRowError("Op is X")), lambda: False)
    progress = read_progress(lake, KEY)
    assert progress
    assert progress.done == {PATHS[0]: "", PATHS[1]: "BadRowError: Op is X", PATHS[2]: ""}
    assert isinstance(progress.error_of(PATHS[1]), BadRowError)
    assert progress.error_of(PATHS[2]) is None
    assert str(summary["error"]).startswith("InputError: 1 of 3 tables failed: raw/shop/b/")


def test_an_error_that_is_none_of_cdclakes_is_a_defect():
    progress = BatchProgress({"raw/shop/b/": "ValueError: Op is X"})
    outcome = batch_outcome(JOB_LOAD_INITIAL, ends(JobState.FAILED), ("raw/shop/b/",), progress)
    assert isinstance(outcome.failed["raw/shop/b/"], JobRunError)
    assert outcome.defects == ("raw/shop/b/",)


def test_a_defect_is_reported_and_the_next_table_begins_if_the_job_can_continue(lake: MemoryStore):
    run_batch(lake, KEY, fails_for_b(ZeroDivisionError("zero")), lambda: True)
    progress = read_progress(lake, KEY)
    assert progress
    assert list(progress.done) == list(PATHS)
    assert progress.done[PATHS[0]] == progress.done[PATHS[2]] == ""
    assert progress.done[PATHS[1]].startswith("ZeroDivisionError: an unexpected error in test_spark_batch.py")


@pytest.mark.parametrize("error", [MemoryError("the JVM is gone"), StoppedError("stopped")])
def test_the_progress_of_a_dead_run_names_its_current_table(lake: MemoryStore, error: Exception):
    with pytest.raises(type(error)):
        run_batch(lake, KEY, fails_for_b(error), lambda: False)
    assert read_progress(lake, KEY) == BatchProgress({PATHS[0]: ""}, at=PATHS[1])


def test_a_missing_batch_is_an_error_and_a_deleted_one_leaves_nothing(lake: MemoryStore):
    def never(_arguments: Mapping[str, str]) -> NoReturn:
        raise AssertionError

    with pytest.raises(ConfigurationError, match="no such batch"):
        run_batch(lake, batch_key("", "other"), never, lambda: True)
    run_batch(lake, KEY, lambda _: {}, lambda: True)
    spark_batch.delete_batch(lake, KEY)
    assert list(lake.list("")) == []
    assert read_progress(lake, KEY) is None


def ends(state: JobState, detail: str = "") -> JobRun:
    return JobRun("jr_1", state, detail or state.value, "why")


@pytest.mark.parametrize(
    ("state", "progress", "succeeded", "failed", "not_reached"),
    [
        (JobState.SUCCEEDED, BatchProgress(dict.fromkeys(PATHS, "")), "abc", "", ""),
        (JobState.FAILED, BatchProgress({PATHS[0]: "", PATHS[1]: "Bad", PATHS[2]: ""}), "ac", "b", ""),
        (JobState.FAILED, BatchProgress({PATHS[0]: ""}, at=PATHS[1]), "a", "", "c"),
        (JobState.FAILED, BatchProgress({}, at=PATHS[0]), "", "", "bc"),
        (JobState.FAILED, None, "", "abc", ""),
        (JobState.STOPPED, BatchProgress({PATHS[0]: ""}, at=PATHS[1]), "a", "bc", ""),
        (JobState.GIVEN_UP, BatchProgress({PATHS[0]: ""}, at=PATHS[1]), "a", "", "bc"),
        (JobState.GIVEN_UP, None, "", "", "abc"),
        (JobState.SUCCEEDED, BatchProgress({PATHS[0]: ""}), "a", "bc", ""),
        (JobState.SUCCEEDED, None, "", "abc", ""),
    ],
)
def test_the_end_of_a_run_has_an_outcome_for_each_table(
    state: JobState, progress: BatchProgress | None, succeeded: str, failed: str, not_reached: str
):
    outcome = batch_outcome(JOB_LOAD_INITIAL, ends(state), PATHS, progress)
    named = ["".join(path[-2] for path in paths) for paths in (outcome.succeeded, outcome.failed, outcome.not_reached)]
    assert named == [succeeded, failed, not_reached]


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (JobState.SUCCEEDED, "succeeded"),
        (JobState.FAILED, "death"),
        (JobState.STOPPED, "failed"),
        (JobState.GIVEN_UP, "not_reached"),
    ],
)
def test_the_outcome_of_a_run_with_one_table_is_the_outcome_of_that_table(state: JobState, what: str):
    outcome = batch_outcome(JOB_LOAD_INITIAL, ends(state), PATHS[:1], None)
    for name in ("succeeded", "failed", "not_reached"):
        assert tuple(getattr(outcome, name)) == (PATHS[:1] if name == what else ())
    assert outcome.death == (Death(PATHS[0], began=False) if what == "death" else None)


@pytest.mark.parametrize(
    ("state", "progress", "death"),
    [
        (JobState.FAILED, BatchProgress({PATHS[0]: ""}, at=PATHS[1]), Death(PATHS[1], began=True)),
        (JobState.FAILED, BatchProgress({}, at=PATHS[0], file="a.csv"), Death(PATHS[0], began=True, file="a.csv")),
        (JobState.GIVEN_UP, BatchProgress({}, at=PATHS[1]), Death(PATHS[1], began=True)),
        (JobState.STOPPED, BatchProgress({}, at=PATHS[1]), None),
        (JobState.FAILED, BatchProgress(dict.fromkeys(PATHS, "Bad")), None),
        (JobState.FAILED, None, None),
    ],
)
def test_the_end_of_a_run_says_where_it_died(state: JobState, progress: BatchProgress | None, death: Death | None):
    assert batch_outcome(JOB_LOAD_INITIAL, ends(state), PATHS, progress).death == death


def test_a_run_of_one_table_that_took_too_long_did_not_die_of_it():
    run = ends(JobState.FAILED, "TIMEOUT")
    outcome = batch_outcome(JOB_LOAD_INITIAL, run, PATHS[:1], BatchProgress({}, at=PATHS[0]))
    assert (tuple(outcome.failed), outcome.death) == (PATHS[:1], None)


def test_the_progress_of_a_run_that_names_its_files_has_the_current_one(lake: MemoryStore):
    note = spark_batch.file_note(lake, progress_key(KEY), {Argument.BUCKET: "raw", Argument.PREFIX: "shop/a/"})
    for file in ("", "LOAD00000001.csv", ""):
        note(file)
        assert read_progress(lake, KEY) == BatchProgress({}, at=PATHS[0], file=file)
