from __future__ import annotations

from itertools import accumulate, islice, pairwise

import pytest

from cdclake.control.run.job_polling import check_succeeded, pauses
from cdclake.errors import JobRunError
from cdclake.ports import JobRun, JobState


def test_a_run_is_polled_after_a_fifth_of_the_time_waited_within_bounds():
    slept = list(islice(pauses(lambda: 0.5), 60))
    assert slept[:6] == [1, 1, 1, 1, 1, 1]
    for waited, pause in zip(accumulate(slept), slept[1:], strict=False):
        assert pause == pytest.approx(min(max(waited / 5, 1), 15))
    assert all(pause <= following for pause, following in pairwise(slept))
    assert slept[-1] == 15


def test_the_remedy_for_a_job_without_an_error_message_is_its_log():
    with pytest.raises(JobRunError, match=r"DMSCDC_LoadInitial ended as TIMEOUT .*run jr_1.*log"):
        check_succeeded("DMSCDC_LoadInitial", JobRun("jr_1", JobState.FAILED, "TIMEOUT"))
