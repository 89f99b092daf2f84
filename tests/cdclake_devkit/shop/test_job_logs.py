"""Failed job runs are found, with their logs."""

import pytest

from cdclake.model.names import JOB_CONTROLLER, JOB_PROCESS_TABLE
from cdclake_devkit.local import EmbeddedAws, LocalDeployment, deploy
from cdclake_devkit.shop.job_logs import failed_runs


@pytest.mark.aws
def test_failed_runs_have_the_last_lines_of_their_logs(tmp_path):
    with EmbeddedAws(0, tmp_path) as aws:
        deploy(aws, LocalDeployment())
        assert failed_runs(aws) == []
        glue = aws.client("glue")
        controller = glue.start_job_run(JobName=JOB_CONTROLLER, Arguments={"--bucket": "no-such-bucket"})["JobRunId"]
        process = glue.start_job_run(JobName=JOB_PROCESS_TABLE, Arguments={"--item": "{"})["JobRunId"]
        aws.wait_until_idle(60)
        first, second = failed_runs(aws, lines=1)
    assert (first.job, first.run_id) == (JOB_PROCESS_TABLE, process)
    assert (second.job, second.run_id) == (JOB_CONTROLLER, controller)
    assert second.log.read_text().splitlines()[-1:] == list(second.last_lines)
    assert "no-such-bucket" in second.last_lines[0]
    assert "no-such-bucket" in second.error
