"""The cost estimate: its arithmetic, its copy in docs/deploy.md, and that the recording fits today's code."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from costs.__main__ import block
from costs.function import work_of
from costs.meter import FREE, GET, PUT, SHARED, Request, billed_as, in_sequence
from costs.model import FRESHNESSES, USAGES, Costs, Freshness, Usage
from costs.prices import Prices
from costs.recorded import Recorded
from costs.recording import MEMORY_MB, FunctionWork, Recording
from costs.tables import texts

from cdclake_cli.printing import cost
from costs import simulate
from tests import ROOT

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

RECORDED, PRICES = Recorded.read(), Prices()
WORK = Usage(tables=100, changing=50)
HOURLY, FIVE_MINUTES, BY_FILE, ON_LAMBDA = FRESHNESSES
COUNTS = ("s3_puts", "s3_gets", "state_writes", "catalog_requests", "metric_requests", "log_bytes")
NOTHING = Recording(**{field.name: 0 for field in fields(Recording) if field.name != "hours"}, hours=4)


def costs(usage: Usage = WORK, freshness: Freshness = HOURLY, recorded: Recorded = RECORDED) -> Costs:
    return Costs(usage, freshness, recorded, PRICES)


def test_the_document_contains_the_figures() -> None:
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    for name, text in texts(RECORDED, PRICES).items():
        assert block(name, text) in document, name


@pytest.mark.parametrize("freshness", FRESHNESSES)
@pytest.mark.parametrize("usage", USAGES)
def test_all_that_the_tables_need_is_recorded(usage: Usage, freshness: Freshness) -> None:
    assert costs(usage, freshness).total > 0


@pytest.mark.long
@pytest.mark.aws
@pytest.mark.slow
@pytest.mark.parametrize("freshness", [FIVE_MINUTES, BY_FILE])
def test_the_recording_is_that_of_this_code(freshness: Freshness) -> None:
    """An hour costs about a quarter of the recorded ones."""
    now = simulate.simulate(6, looks=freshness.looks, by_file=freshness.by_file, hours=1)
    assert (now.changes, now.runs) == (6, 6)
    recorded = RECORDED.hours_of(freshness.key, 6)
    for name in COUNTS:
        assert getattr(now, name) == pytest.approx(getattr(recorded, name) / 4, rel=0.25), name


@pytest.mark.long
@pytest.mark.aws
@pytest.mark.slow
def test_the_recorded_work_of_the_function_is_that_of_this_code() -> None:
    """With smaller files, which take less time: of requests that are sent at once, others may be answered first."""
    now, works = simulate.simulate_function(6, hours=1, size=simulate.Size(16, 1 << 20, 512))
    work, recorded, hours = FunctionWork.median(works), RECORDED.function, RECORDED.hours_of("on_lambda", 6)
    assert (now.changes, now.runs, len(works)) == (6, 6, 6)
    for name in COUNTS:
        assert getattr(now, name) == pytest.approx(getattr(hours, name) / hours.hours, rel=0.35), name
    assert work.in_sequence == pytest.approx(recorded.in_sequence, abs=4)
    assert work.until_visible == pytest.approx(recorded.until_visible, abs=4)


def test_a_schedule_shares_runs_and_files_start_one_run_each() -> None:
    # the minimum billed time of 1/16 DPU for Controller and ProcessTable; 30 + 50 * 5.3 s of two DPU, or the minimum
    assert costs().glue == pytest.approx(730 * 0.44 * (60 / 16 + 295 * 2 + 60 / 16) / 3600)
    assert costs(freshness=BY_FILE).glue == pytest.approx(730 * 0.44 * (60 / 16 + 300 * (60 * 2 + 60 / 16)) / 3600)


def test_a_schedule_of_five_minutes_packs_the_tables_that_changed_since() -> None:
    """Six files an hour: half of the 50 tables have one each time."""
    seconds = 60 / 16 + (30 + 25 * 5.3) * 2 + 60 / 16
    assert costs(freshness=FIVE_MINUTES).glue == pytest.approx(730 * 0.44 * 12 * seconds / 3600)
    assert costs().glue < costs(freshness=FIVE_MINUTES).glue < costs(freshness=BY_FILE).glue
    assert costs().requests < costs(freshness=FIVE_MINUTES).requests


def test_a_table_with_a_file_a_minute_is_due_each_time() -> None:
    seconds = 60 / 16 + (30 + 10 * 5.3) * 2 + 60 / 16
    assert costs(Usage(10, 10, 60), FIVE_MINUTES).glue == pytest.approx(730 * 0.44 * 12 * seconds / 3600)


def test_what_is_visible_waits_for_the_schedule_and_for_the_runs() -> None:
    one = Usage(1, 1)
    runs = 10 + 0.4 + 30 + 5.3
    assert costs(one, BY_FILE).seconds_to_visible == pytest.approx((20 + 0.5 + runs, 120 + 0.5 + runs))
    controller = 10 + 0.1
    assert costs(one).seconds_to_visible == pytest.approx((30 + controller + runs, 3600 + 180 + controller + runs))
    assert costs(one, FIVE_MINUTES).seconds_to_visible[1] == pytest.approx(300 + 180 + controller + runs)


def test_the_last_table_of_a_run_waits_for_the_others() -> None:
    least, most = costs(Usage(50, 50)).seconds_to_visible
    assert most - least == pytest.approx(3600 + 3 * 50 + 49 * 5.3)


def test_a_change_on_lambda_takes_its_requests_its_computing_and_its_transfers() -> None:
    """A table with six files an hour writes 144 times a day."""
    work = FunctionWork(in_sequence=30, until_visible=20, cpu_seconds=1.0, written_mb=10)
    (stored,) = (one for one in RECORDED.stored if (one.bursts, one.old_rows, one.changes) == (6, "anywhere", 6))
    recorded = RECORDED._replace(function=work, function_start_seconds=2.0, stored=[stored._replace(written_gb=1.44)])
    one = costs(Usage(1, 1), ON_LAMBDA, recorded)
    assert one.change_seconds() == pytest.approx(30 * 0.03 + 1.0 + 2 * 10 / 60)
    assert one.change_seconds(visible=True) == pytest.approx(20 * 0.03 + 1.0 + 2 * 10 / 60)
    assert one.seconds_to_visible == pytest.approx((0.5 + 0.5 + 0.6 + 1 + 1 / 3, 5 + 0.5 + 0.6 + 1 + 1 / 3 + 2))
    each = 2 * 0.0000002 + 0.25 * 0.5 * 0.0000166667 + 1769 / 1024 * (one.change_seconds() + 0.2) * 0.0000133334
    assert one.functions == pytest.approx(730 * 6 * each)


def test_on_lambda_only_the_controller_runs_on_glue() -> None:
    assert costs(freshness=ON_LAMBDA).glue == pytest.approx(730 * 0.44 * 60 / 16 / 3600)
    assert costs(freshness=ON_LAMBDA).total < costs(freshness=BY_FILE).total / 5


def test_by_schedule_no_function_is_called() -> None:
    assert costs().functions == 0 < costs(freshness=BY_FILE).functions < costs(freshness=ON_LAMBDA).functions


def test_the_command_shows_these_prices() -> None:
    shown = (cost.LAMBDA_GB_SECOND_DOLLARS, cost.LAMBDA_REQUEST_DOLLARS, cost.GLUE_DPU_HOUR_DOLLARS)
    assert shown == tuple(PRICES[name] for name in ("lambda_gb_second_arm64", "lambda_invocation", "glue_dpu_hour"))


@pytest.mark.slow
def test_the_deployed_function_has_this_memory() -> None:
    from cdclake_infra.small_changes import MEMORY_MB as DEPLOYED_MB  # takes a second

    assert MEMORY_MB == DEPLOYED_MB


def test_requests_are_priced_by_class() -> None:
    one = replace(NOTHING, s3_puts=1_000_000, state_writes=1_000_000, item_bytes=1500, metric_requests=1000)
    requests = [
        costs(Usage(1, 1), recorded=RECORDED._replace(hours={"hourly": {6: recorded}})).requests
        for recorded in (one, NOTHING)
    ]
    assert requests[0] - requests[1] == pytest.approx(730 / 4 * (5 + 2 * 0.625 + 0.01))


def test_idle_tables_are_looked_at_by_each_controller() -> None:
    idle = replace(NOTHING, s3_puts=1_000_000)
    requests = [
        costs(Usage(1, 0), freshness, RECORDED._replace(idle=idle)).requests for freshness in (FIVE_MINUTES, HOURLY)
    ]
    assert requests[0] / requests[1] == pytest.approx(12, rel=0.01)


def test_by_file_each_burst_takes_the_same_and_the_controller_looks_as_often() -> None:
    one = replace(NOTHING, changes=24, s3_puts=504, item_bytes=1000)
    idle = replace(NOTHING, s3_puts=2, hours=2)
    recorded = RECORDED._replace(hours={"by_file": {6: one}}, idle=idle)
    assert recorded.hours_of("by_file", 60) == replace(one, changes=240, s3_puts=5004)


def test_a_table_of_more_than_a_thousand_files_is_listed_with_further_requests() -> None:
    (stored,) = (one for one in RECORDED.stored if (one.bursts, one.old_rows, one.changes) == (6, "anywhere", 6))
    requests = [
        costs(Usage(1, 1), BY_FILE, RECORDED._replace(stored=[stored._replace(files=files)])).requests
        for files in (1000, 1001, 2001)
    ]
    assert [one - requests[0] for one in requests] == pytest.approx([0, 730 * 6 * 5e-6, 2 * 730 * 6 * 5e-6])


def test_tables_that_change_store_what_is_kept_of_them() -> None:
    stored = RECORDED.stored_of(6, 1)
    assert costs(Usage(3, 1)).storage == pytest.approx(0.023 * (2 * 2 + stored.gb + 3 * 2 * 0.5))


def test_metrics_beyond_the_first_ten_thousand_cost_less() -> None:
    assert costs(Usage(1000, 1000)).monitoring(table_metrics=True) == pytest.approx((11 + 9000) * 0.30 + 0.70 + 3)
    many = costs(Usage(2000, 2000)).monitoring(table_metrics=True)
    assert many == pytest.approx(10_000 * 0.30 + 8011 * 0.10 + 0.70 + 3)


def test_every_price_says_when_it_was_seen() -> None:
    """A price that was seen elsewhere than on AWS's page says where."""
    assert {*PRICES.seen_in(2025), *PRICES.seen_in(2026)} == set(PRICES.names)
    assert [name for name in PRICES.seen_in(2026) if not PRICES.seen_at(name).startswith("https://")] == []


@pytest.mark.parametrize(
    ("method", "path", "query", "billed"),
    [
        ("GET", "/bucket", "list-type=2&prefix=shop/orders/a", PUT),
        ("GET", "/bucket", "list-type=2&prefix=_cdclake%2Fshop%2Forders%2F", PUT),
        ("GET", "/bucket", "list-type=2&prefix=shop/", SHARED),
        ("GET", "/bucket", "list-type=2", SHARED),
        ("GET", "/bucket", "versions&prefix=shop/orders/", PUT),
        ("GET", "/bucket", "versioning", GET),
        ("GET", "/bucket/key", "", GET),
        ("GET", "/bucket/key", "prefix=a", GET),
        ("HEAD", "/bucket/key", "", GET),
        ("PUT", "/bucket/key", "", PUT),
        ("POST", "/bucket/key", "uploads", PUT),
        ("POST", "/bucket", "delete", FREE),
        ("DELETE", "/bucket/key", "", FREE),
    ],
)
def test_requests_to_s3_are_billed_by_class(method: str, path: str, query: str, billed: str) -> None:
    environ = request("s3", REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=query)
    assert billed_as(environ, "shop/orders/") == billed


def test_other_requests_are_counted_by_operation() -> None:
    assert billed_as(request("dynamodb", HTTP_X_AMZ_TARGET="DynamoDB_20120810.GetItem"), "") == "dynamodb GetItem"


def made(begin: float, end: float, key: str = "", sent_bytes: int = 0) -> Request:
    return Request(PUT, "PutObject", key, sent_bytes, begin, end, cpu_seconds=0.25)


def test_requests_at_once_are_one_in_sequence() -> None:
    assert in_sequence([]) == 0
    assert in_sequence([made(0, 1), made(0, 3), made(1, 2), made(2, 4), made(4, 5)]) == 4


def test_rows_are_visible_before_the_change_is_marked_as_published() -> None:
    requests = [made(0, 1, "data", 3_000_000), made(1, 2, "lake/_cdclake/a/b/published/000000000002"), made(2, 3)]
    assert work_of(requests, cpu_seconds=2.0) == FunctionWork(3, 1, cpu_seconds=1.25, written_mb=3.0)


def request(service: str, **environ: str) -> WSGIEnvironment:
    scope = f"AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host"
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_AUTHORIZATION": scope, **environ}
