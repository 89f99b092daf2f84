"""In generated feeds of every kind the doctor finds exactly the faults that manifest and settings imply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cdclake_cli.main import assembled
from cdclake_devkit.feed.options import Fault
from tests.cdclake_cli.doctor.feed import GOOD
from tests.cdclake_devkit.feed.combinations import COMBINATIONS, SMALL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TABLE = "shop.orders"
GOOD_FEED = tuple(part for name, value in GOOD.items() for part in ("--set", f"{name}={value}"))
FAULTS = {
    Fault.BAD_ROWS: {"bad-rows"},
    Fault.TRUNCATED: {"unreadable-file"},
    Fault.VANISHED: {"missing-changes"},
    Fault.VANISHED_LOAD: {"load-gap"},
}

REDUNDANT = frozenset(
    [
        "parquet",
        "parquet_gzip",
        "bucket_folder",
        "parquet_ms",
        "parquet_drawn",
        "op_in_load",
        "task_start",
        "csv",
        "csv_header",
        "csv_drawn",
        "no_deletes",
        "dates",
        "dates_months",
        "dates_zone",
        "transactions",
        "late",
        "schema_changes",
        "partitions_csv",
        "two_keys",
        "bad_rows",
        "bad_rows_csv",
        "tiny_transactions",
    ]
)
"""Feeds that exercise nothing in the doctor beyond what others do."""


def diagnose_feed(folder: Path, *arguments: str, **settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Generate a feed, and check it with further settings; returns the doctor's JSON and the feed's manifest."""
    raw, expected = folder / "raw", folder / "expected"
    made = CliRunner().invoke(assembled(), ("local", "feed", str(raw), "--expected", str(expected), *arguments))
    assert made.exit_code == 0, made.output
    prefix = ("--raw-prefix", "dms") if "BucketFolder=dms" in arguments else ()
    more = (*prefix, *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")))
    item = str(expected / "table.json")
    found = CliRunner().invoke(
        assembled(), ("doctor", TABLE, "--folder", str(raw), "--from", item, "-o", "json", *more)
    )
    answer = json.loads(found.stdout)
    assert found.exit_code == (6 if any(finding["severity"] == "error" for finding in answer["findings"]) else 0)
    return answer, json.loads((expected / "feed.json").read_text(encoding="utf-8"))


def expected_codes(arguments: tuple[str, ...]) -> set[str]:
    """Codes of the findings that a feed's arguments imply."""
    text = " ".join(arguments)
    updates = "CdcInsertsOnly" not in text
    has_op = "CdcInserts" not in text or "IncludeOpForFullLoad" in text
    codes = set() if "AR_H_CHANGE_SEQ" in text else {"no-order"}
    if not has_op:
        codes.add("no-op")
    elif updates and "BeforeImages" not in text:
        codes.add("key-change-lost" if "--move 0.2" in text else "no-before-image")
    elif updates and "--move" in text:
        codes.add("no-unique-checks")
    if "--resumed" in text:
        codes.add("delivered-twice-no-order" if "no-order" in codes else "delivered-twice")
    for argument, code in (
        ("--schema-changes", "columns-change"),
        ("--delete-image key", "key-only-deletes"),
        ("--fault bad-rows", "bad-rows"),
        ("--rows 0", "no-full-load"),
    ):
        if argument in text:
            codes.add(code)
    if "AddColumnName=y" in text and "--schema-changes" in text:
        codes.add("untyped")  # Schema has the columns at the end, and not one that the source dropped
    return codes


@pytest.mark.sampled(test=8)
@pytest.mark.parametrize("name", [name for name in COMBINATIONS if name not in REDUNDANT])
def test_findings_match_the_settings_of_the_feed(tmp_path: Path, name: str) -> None:
    rounds = () if "--rounds" in COMBINATIONS[name] else ("--rounds", "2")
    answer, _ = diagnose_feed(tmp_path, *SMALL, *COMBINATIONS[name], *rounds)
    assert {finding["code"] for finding in answer["findings"]} == expected_codes(COMBINATIONS[name])


def test_a_feed_with_recommended_settings_has_no_findings(tmp_path: Path) -> None:
    rows = ("--rows", "500", "--load-files", "3", "--move", "0.1", "--insert", "0.2")
    answer, manifest = diagnose_feed(tmp_path, *GOOD_FEED, *rows, UniqueChecks="immediate")
    assert answer["findings"] == []
    assert answer["rows"] == sum(file["rows"] for file in manifest["files"])


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("more", [(), ("--set", "DataFormat=csv", "--set", "CompressionType=gzip")], ids=["", "csv"])
def test_each_injected_fault_is_found_where_the_manifest_lists_it(
    tmp_path: Path, fault: Fault, more: tuple[str, ...]
) -> None:
    size = ("--rows", "500", "--load-files", "3", "--rounds", "2")
    answer, manifest = diagnose_feed(tmp_path, *GOOD_FEED, *more, *size, "--fault", fault.value)
    injected, found = manifest["faults"], answer["findings"]
    assert {finding["code"] for finding in found} == FAULTS[fault]
    assert [finding["fault"] for finding in injected] == [fault.value]
    if fault is not Fault.VANISHED:
        assert all(finding["file"] and finding["file"] in injected[0]["key"] for finding in found)
    rows = injected[0]["rows"]
    assert sum(int(finding["seen"].partition(" ")[0]) for finding in found if finding["code"] == "bad-rows") == len(
        rows
    )
    assert {finding["row"] for finding in found} <= {None, *(row["row"] for row in rows)}
