"""Counts in findings agree with their nouns and verbs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cdclake_cli.doctor.feed import GOOD, RawFolder, row
from tests.cdclake_cli.doctor.test_types import CHANGE, LOAD, finding, put

if TYPE_CHECKING:
    from pathlib import Path

ONE = re.compile(r"(?<![\d,.])1 (?:LOAD |change |other |bad |distinct )?[a-z]+s\b(?! (?:interleave|change))")
ONE_OF = re.compile(r"(?<![\d,.])1 (?:of [\d,]+ )?(?:LOAD |change )?[a-z]+ (?:have|do|fit|repeat|are)\b")
MANY = re.compile(r"(?:\d\d|[2-9]) (?:LOAD |change )?(?:file|row|value|column|finding) ")


def check(text: str) -> None:
    assert not ONE.search(text), text
    assert not ONE_OF.search(text), text
    assert not MANY.search(text), text


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("value", ["7", "1e999", "x", "5.3.24", "1,5", "NA", ""])
def test_counts_of_untyped_columns(tmp_path: Path, rows: int, value: str) -> None:
    put(tmp_path, LOAD, ("id", "v", "w"), *((i, value, "7") for i in range(rows)))
    put(tmp_path, CHANGE, ("Op", "id", "v", "w"), ("U", 1, "7", "8"))
    found = finding(tmp_path)
    for text in (found.seen, found.fix, *found.details):
        check(text)


@pytest.mark.parametrize("files", [1, 2])
def test_counts_of_files_and_rows(tmp_path: Path, files: int) -> None:
    raw = RawFolder(tmp_path, {"DataFormat": "parquet", "CdcInsertsAndUpdates": "false"})
    raw.load([row(1), *[row(1)] * files])
    for _ in range(files):
        raw.change(("U", row(3)), ("X", row(1)))
    for item in ({}, {"PrimaryKey": "id"}, {"PrimaryKey": "no,id"}, {"PrimaryKey": "id", "OrderColumn": "seq"}):
        report = raw.diagnose(item)
        assert report.findings
        for one in report.findings:
            check(one.seen)
            check(one.fix)


def test_a_count_of_one_reads_well(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "v", "w"), (1, "x", 5))
    assert "id bigint: the value fits" in finding(tmp_path).details
    raw = RawFolder(tmp_path / "other", dict(GOOD))
    raw.load([row(1), row(1)])
    assert raw.findings()["key-not-unique"] == "1 LOAD row repeats the key of an earlier row"
