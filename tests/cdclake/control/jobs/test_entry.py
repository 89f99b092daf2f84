from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdclake.control.jobs.entry import JobExit, StoppedError, job_run_id, run_job, stop_on_signals
from cdclake.errors import BadRowError, DiskFullError, SchemaMismatchError


def test_a_successful_run_prints_only_its_summary_and_returns(capsys: pytest.CaptureFixture[str]):
    run_job(lambda: {"rows": 3})
    assert capsys.readouterr() == ('{"rows": 3}\n', "")


def test_an_expected_error_is_one_last_line_without_a_traceback():
    script = (
        "from cdclake.control.jobs.entry import run_job\n"
        "from cdclake.errors import BadRowError\n"
        "def main():\n    raise BadRowError('Op is X,\\n no operation', remedy='Look at it', file='a.csv', row=7)\n"
        "run_job(main)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == BadRowError.exit_code
    assert ended.stdout == ""
    assert ended.stderr == "BadRowError: Op is X, no operation (file a.csv, row 7). Look at it\n"


def test_the_text_of_the_exit_is_the_reason():
    def main() -> dict[str, object]:
        raise SchemaMismatchError("Column a is gone", remedy="Reload")

    with pytest.raises(JobExit, match=r"SchemaMismatchError: Column a is gone\. Reload") as caught:
        run_job(main)
    assert caught.value.code == SchemaMismatchError.exit_code


def test_a_summary_with_an_error_is_printed_and_fails(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(JobExit) as caught:
        run_job(lambda: {"tables": 2, "error": "RetryableError: 1 of 2 tables failed"})
    assert caught.value.code == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["tables"] == 2
    assert err == "RetryableError: 1 of 2 tables failed\n"


def test_a_full_disk_is_an_error_with_a_remedy(capsys: pytest.CaptureFixture[str]):
    def main() -> dict[str, object]:
        with Path("/dev/full").open("wb") as file:
            file.write(b"x")
        return {}

    with pytest.raises(JobExit) as caught:
        run_job(main)
    assert caught.value.code == DiskFullError.exit_code
    line = capsys.readouterr().err
    assert line.startswith("DiskFullError: A disk is full: No space left on device (folder ")
    assert line.count("\n") == 1


def test_a_defect_ends_the_job_with_its_traceback_but_not_with_its_text(capsys: pytest.CaptureFixture[str]):
    def main() -> dict[str, object]:
        return {"x": int(f"value {5**30}")}

    with pytest.raises(JobExit, match=r"ValueError: an unexpected error in test_entry\.py, line \d+") as caught:
        run_job(main)
    assert caught.value.code == 1
    err = capsys.readouterr().err
    assert "in main" in err
    assert str(5**30) not in err


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_stop_becomes_an_error_the_run_can_handle(number: signal.Signals):
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        stop_on_signals()
        with pytest.raises(StoppedError, match=number.name):
            os.kill(os.getpid(), number)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_the_run_id_is_glues_or_a_new_one():
    assert job_run_id(["x", "--JOB_RUN_ID", "jr_1"]) == "jr_1"
    assert job_run_id([]) != job_run_id([])
