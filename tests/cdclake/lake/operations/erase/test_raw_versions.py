"""An erasure with `--raw` removes rows from earlier versions of raw files, and names what it could not search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.lake.operations.erase.erase import Erasure, erase, preview
from cdclake.lake.operations.erase.raw_files import RawLocation
from cdclake.model.table.settings import TableSettings
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    SECRET_NAME,
    ErasableTable,
    row,
    secret,
)
from tests.cdclake.lake.over_time import versioned_bucket
from tests.cdclake.lake.table import NAME, RAW_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.aws

KEY = str(SECRET_ID)
LINE = f"I,{KEY},Ulm,{SECRET_NAME},1.50\n".encode()
OTHER = b"I,5,Ulm,five,1.50\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ErasableTable]:
    table = ErasableTable(tmp_path, COLUMNS)
    table.item |= {"Schema": "id bigint, city string, name string, amount decimal(10,2)", "MaxQuarantinedRows": "5"}
    table.load([row(1), secret()])
    table.apply_file("20240305-100500000.csv", LINE + OTHER)
    with versioned_bucket(monkeypatch, "raw"):
        for path in (table.raw / RAW_PREFIX).iterdir():
            put(path.name, path.read_bytes())
        yield table


def put(name: str, content: bytes) -> None:
    aws_clients.client("s3").put_object(Bucket="raw", Key=RAW_PREFIX + name, Body=content)


def delete(name: str) -> None:
    aws_clients.client("s3").delete_object(Bucket="raw", Key=RAW_PREFIX + name)


def erasure(table: ErasableTable, *, raw: bool = True) -> Erasure:
    found = table.erasure(KEY)
    location = RawLocation(
        open_store("raw"), lake_filesystem("raw"), RAW_PREFIX, NAME, TableSettings.from_item(table.item)
    )
    return replace(found, raw=location if raw else None)


def contents() -> dict[str, list[bytes]]:
    """All versions in the raw bucket by name."""
    client, found = aws_clients.client("s3"), dict[str, list[bytes]]()
    for page in client.get_paginator("list_object_versions").paginate(Bucket="raw"):
        for version in page.get("Versions", []):
            body = client.get_object(Bucket="raw", Key=version["Key"], VersionId=version["VersionId"])["Body"].read()
            found.setdefault(version["Key"].removeprefix(RAW_PREFIX), []).append(body)
    return found


def names_with_secret() -> list[str]:
    forms = (SECRET_NAME.encode(), KEY.encode(), SECRET_ID.to_bytes(8, "little"))
    return sorted(
        name for name, versions in contents().items() if any(one in data for data in versions for one in forms)
    )


def test_earlier_versions_of_raw_files_lose_the_rows_and_others_stay(table: ErasableTable) -> None:
    put("20240305-100100000.csv", LINE)  # overwritten by a version without the row, as by another program
    put("20240305-100100000.csv", OTHER)
    put("20240305-100200000.csv", LINE + OTHER)
    delete("20240305-100200000.csv")
    put("20240305-100300000.csv", OTHER + OTHER)
    put("20240305-100300000.csv", OTHER)
    put("LOAD00000002.csv", b"I,7,Ulm,seven,1.50\n")
    delete("LOAD00000002.csv")
    table.apply_file("20240305-100100000.csv", OTHER)
    table.apply_file("20240305-100300000.csv", OTHER)
    counts = preview(erasure(table)).touched
    assert (counts.raw_versions, counts.raw_version_rows) == (2, 2)
    done = erase(erasure(table), table.runs)
    assert done.touched == counts
    assert names_with_secret() == []
    left = contents()
    assert left["20240305-100300000.csv"] == [OTHER, OTHER + OTHER]
    assert left["LOAD00000002.csv"] == [b"I,7,Ulm,seven,1.50\n"]
    assert erase(erasure(table), table.runs).change is None


def test_what_cannot_be_searched_is_named(table: ErasableTable) -> None:
    put("LOAD1.csv", LINE)
    put("20240305-100500000.csv.bak", LINE)
    put("old.csv.bak", LINE)
    delete("old.csv.bak")
    put("_SUCCESS", b"")
    put("20240305-100600000.parquet", b"PAR1 and no more")
    delete("20240305-100600000.parquet")
    sentences = preview(erasure(table)).out_of_reach
    text = "\n".join(sentences)
    for name in (
        "LOAD1.csv",
        "20240305-100500000.csv.bak",
        "old.csv.bak (version ",
        "20240305-100600000.parquet (version ",
    ):
        assert name in text
    assert "_SUCCESS" not in text
    done = erase(erasure(table), table.runs)
    assert sum(map(len, done.not_searched.values())) == 4
    assert names_with_secret() == ["20240305-100500000.csv.bak", "LOAD1.csv", "old.csv.bak"]


def test_without_raw_the_report_says_that_earlier_versions_stay(table: ErasableTable) -> None:
    sentences = preview(erasure(table, raw=False)).out_of_reach
    assert any("raw bucket, with earlier versions of its files" in sentence for sentence in sentences)
