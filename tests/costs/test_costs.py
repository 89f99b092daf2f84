"""The cost estimate: its arithmetic, its copy in docs/deploy.md, and that the recording fits today's code."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from costs.__main__ import text
from costs.meter import FREE, GET, PUT, billed_as
from costs.model import Costs, Recorded, Usage
from costs.prices import Prices
from costs.recording import Recording

from costs import model, simulate
from tests import ROOT

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

RECORDED, PRICES = Recorded.read(), Prices()
WORK = Usage(tables=100, changed_per_hour=50)


def costs(usage: Usage = WORK, recorded: Recorded = RECORDED, *, by_file: bool = False) -> Costs:
    return Costs(usage, recorded, PRICES, by_file=by_file)


def test_the_document_contains_the_figures() -> None:
    assert text(RECORDED, PRICES) in (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.aws
@pytest.mark.slow
def test_the_recording_is_that_of_this_code() -> None:
    """An hour costs about a quarter of the recorded ones."""
    now = simulate.simulate(model.BURSTS_PER_HOUR, by_file=True, hours=1)
    assert (now.changes, now.runs) == (model.BURSTS_PER_HOUR, model.BURSTS_PER_HOUR)
    for name in ("s3_puts", "s3_gets", "state_writes", "catalog_requests", "log_bytes"):
        assert getattr(now, name) == pytest.approx(getattr(RECORDED.by_file, name) / 4, rel=0.25), name


def test_an_hourly_schedule_shares_one_run_and_files_start_one_run_each() -> None:
    # the minimum billed time of 1/16 DPU for Controller and ProcessTable; 30 + 50 * 5.3 s of two DPU, or the minimum
    assert costs().glue == pytest.approx(730 * 0.44 * (60 / 16 + 295 * 2 + 60 / 16) / 3600)
    assert costs(by_file=True).glue == pytest.approx(730 * 0.44 * (60 / 16 + 300 * (60 * 2 + 60 / 16)) / 3600)
    assert costs().requests < costs(by_file=True).requests


def test_requests_are_priced_by_class() -> None:
    nothing = Recording(**{field.name: 0 for field in fields(Recording)})
    one = replace(nothing, table_files=1, s3_puts=1_000_000, state_writes=1_000_000, item_bytes=1500)
    recorded = Recorded(nothing, one, nothing)
    dollars = costs(Usage(1, 1), recorded).requests - costs(Usage(1, 1), Recorded(nothing, nothing, nothing)).requests
    assert dollars == pytest.approx(730 / 4 * (5 + 2 * 0.625))


def test_replaced_files_are_stored_for_the_retention_time() -> None:
    """Ten files in four hours of a table of 2 GB in 16 files, and the table and its raw files."""
    one = replace(RECORDED.hourly, rewritten_files=10, table_files=16)
    stored = costs(Usage(1, 1), RECORDED._replace(hourly=one)).storage
    assert stored == pytest.approx(0.023 * (2 + 1 + 10 * 6 * 2 / 16 * 33))


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
        ("GET", "/bucket", "list-type=2&prefix=a", PUT),
        ("GET", "/bucket", "versions&prefix=a", PUT),
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
    assert billed_as(request("s3", REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=query)) == billed


def test_other_requests_are_counted_by_operation() -> None:
    assert billed_as(request("dynamodb", HTTP_X_AMZ_TARGET="DynamoDB_20120810.GetItem")) == "dynamodb GetItem"


def request(service: str, **environ: str) -> WSGIEnvironment:
    scope = f"AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host"
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_AUTHORIZATION": scope, **environ}
