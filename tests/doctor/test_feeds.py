"""On feeds of every kind the doctor finds what is wrong with them, as manifest and settings say, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cdclake.cli.main import app
from cdclake.devkit.feed.options import Fault
from tests.devkit.feed.combinations import COMBINATIONS, SMALL
from tests.doctor.feed import GOOD

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

ALIKE = frozenset(
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
"""Feeds in which the doctor meets nothing that it does not meet in others."""


def fed(folder: Path, *arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the doctor says of a feed, and the feed's manifest."""
    raw, expected = folder / "raw", folder / "expected"
    made = CliRunner().invoke(app, ("local", "feed", str(raw), "--expected", str(expected), *arguments))
    assert made.exit_code == 0, made.output
    prefix = ("--raw-prefix", "dms") if "BucketFolder=dms" in arguments else ()
    item = str(expected / "table.json")
    found = CliRunner().invoke(app, ("doctor", TABLE, "--folder", str(raw), "--from", item, "-o", "json", *prefix))
    answer = json.loads(found.stdout)
    assert found.exit_code == (6 if any(one["severity"] == "error" for one in answer["findings"]) else 0)
    return answer, json.loads((expected / "feed.json").read_text(encoding="utf-8"))


def unsafe(arguments: tuple[str, ...]) -> set[str]:
    """What is to be found of a feed, by how it was asked for."""
    text = " ".join(arguments)
    updates = "CdcInsertsOnly" not in text
    told = "CdcInserts" not in text or "IncludeOpForFullLoad" in text
    found = set() if "AR_H_CHANGE_SEQ" in text else {"no-order"}
    if not told:
        found.add("no-op")
    elif updates and "BeforeImages" not in text:
        found.add("key-change-lost" if "--move 0.2" in text else "no-before-image")
    if "--resumed" in text:
        found.add("delivered-twice-no-order" if "no-order" in found else "delivered-twice")
    for asked, code in (
        ("--schema-changes", "columns-change"),
        ("--delete-image key", "key-only-deletes"),
        ("--fault bad-rows", "bad-rows"),
        ("--rows 0", "no-full-load"),
    ):
        if asked in text:
            found.add(code)
    return found


@pytest.mark.parametrize("name", [name for name in COMBINATIONS if name not in ALIKE])
def test_a_feed_is_as_unsafe_as_its_settings_are(tmp_path: Path, name: str) -> None:
    rounds = () if "--rounds" in COMBINATIONS[name] else ("--rounds", "2")
    answer, _ = fed(tmp_path, *SMALL, *COMBINATIONS[name], *rounds)
    assert {one["code"] for one in answer["findings"]} == unsafe(COMBINATIONS[name])


def test_a_feed_with_good_settings_is_well(tmp_path: Path) -> None:
    answer, manifest = fed(
        tmp_path, *GOOD_FEED, "--rows", "500", "--load-files", "3", "--move", "0.1", "--insert", "0.2"
    )
    assert answer["findings"] == []
    assert answer["rows"] == sum(file["rows"] for file in manifest["files"])


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("more", [(), ("--set", "DataFormat=csv", "--set", "CompressionType=gzip")], ids=["", "csv"])
def test_each_planted_fault_is_found_where_the_manifest_says(
    tmp_path: Path, fault: Fault, more: tuple[str, ...]
) -> None:
    size = ("--rows", "500", "--load-files", "3", "--rounds", "2")
    answer, manifest = fed(tmp_path, *GOOD_FEED, *more, *size, "--fault", fault.value)
    planted, found = manifest["faults"], answer["findings"]
    assert {one["code"] for one in found} == FAULTS[fault]
    assert [one["fault"] for one in planted] == [fault.value]
    if fault is not Fault.VANISHED:
        assert all(one["file"] and one["file"] in planted[0]["key"] for one in found)
    rows = planted[0]["rows"]
    assert sum(int(one["seen"].partition(" ")[0]) for one in found if one["code"] == "bad-rows") == len(rows)
    assert {one["row"] for one in found} <= {None, *(row["row"] for row in rows)}
