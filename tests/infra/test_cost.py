"""The cost estimate, and its copy in docs/deploy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake_infra import cost
from cdclake_infra.cost import Usage, glue, monitoring, requests, sample_per_day, table
from tests import ROOT

if TYPE_CHECKING:
    from tests.infra.stacks import Stacks

pytestmark = pytest.mark.deployment

DOCUMENT = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
WORK = Usage(tables=100, changed_per_hour=50, bursts_per_hour=6, lake_gb=100)


def test_the_document_contains_the_figures_of_the_script():
    assert table() in DOCUMENT
    assert f"${sample_per_day():.2f} per day" in DOCUMENT


def test_an_hourly_schedule_shares_one_run_and_files_start_one_run_each():
    # the minimum billed time for the Controller; 30 + 50 * 4 s of two DPU; ten more seconds of 1/16 DPU
    by_hour = 730 * 0.44 * (60 / 16 + 230 * 2 + 240 / 16) / 3600
    assert glue(WORK, by_file=False) == pytest.approx(by_hour)
    by_file = 730 * 0.44 * (60 / 16 + 300 * (60 * 2 + 70 / 16)) / 3600
    assert glue(WORK, by_file=True) == pytest.approx(by_file)
    assert requests(WORK, by_file=False) < requests(WORK, by_file=True)


def test_metrics_beyond_the_first_ten_thousand_cost_less():
    few = monitoring(Usage(1000, 1000, 1, 1), table_metrics=True)
    many = monitoring(Usage(2000, 2000, 1, 1), table_metrics=True)
    assert few == pytest.approx((11 + 9000) * 0.30 + 0.70 + 3)
    assert many == pytest.approx(10_000 * 0.30 + 8011 * 0.10 + 0.70 + 3)


def test_the_estimate_counts_the_deployed_alarms_and_dashboards(default: Stacks):
    assert len(default.all("AWS::CloudWatch::Alarm")) == cost.ALARMS
    assert len(default.all("AWS::CloudWatch::Dashboard")) == 1
