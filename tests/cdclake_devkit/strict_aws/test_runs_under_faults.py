"""cdclake's runs survive faults of AWS: each ends with the table that it would have without faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake_devkit.strict_aws.calls import gated_app
from cdclake_devkit.strict_aws.service_faults import ServiceFaults
from tests.cdclake_devkit.strict_aws.conftest import retry_at_once
from tests.crash import checks
from tests.crash.environments import aws_environment
from tests.crash.sandbox import Sandbox
from tests.crash.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from wsgiref.types import WSGIApplication

RATE = 0.08
RUNS = ["LoadInitial", "LoadIncremental", "ProcessTable-takeover", "rollback", "rollback-to", "reapply"]


@pytest.mark.sampled(test=2, ci=4)
@pytest.mark.aws
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_survives_faults(
    name: str,
    seed: int,
    tmp_path: Path,
    record_faults: Callable[[ServiceFaults], None],
    monkeypatch: pytest.MonkeyPatch,
):
    retry_at_once(monkeypatch)
    faults, scenario = ServiceFaults(RATE, seed), SCENARIOS[name]

    def faulty(app: WSGIApplication) -> WSGIApplication:
        return gated_app(app, faults)

    with aws_environment(versioned=True, middleware=faulty) as environment:
        sandbox = Sandbox(environment, tmp_path)
        expected = scenario.prepare(sandbox)
        faults.is_on = True
        scenario.run(sandbox.runner())
        faults.is_on = False
        assert faults.injected
        record_faults(faults)
        sandbox.expire_lease()
        scenario.next_run(sandbox.runner(), sandbox)
        checks.check_table(sandbox.view(), expected)
