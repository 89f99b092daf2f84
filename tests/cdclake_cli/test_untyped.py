"""`cdclake plan` and `cdclake status` say which tables have columns without types, and how many."""

from __future__ import annotations

import gzip

import boto3
import pytest

LINES = b"Op,id,qty,AR_H_CHANGE_SEQ\n" + b"I,1,2,\n" * 20_000


@pytest.mark.parametrize(
    ("verb", "name"),
    [("plan", "LOAD00000001.csv"), ("status", "LOAD00000001.csv.gz"), ("plan", "20240305-101500000.csv")],
)
def test_untyped_columns_are_counted(cdclake, state, verb, name):
    content = gzip.compress(LINES) if name.endswith(".gz") else LINES
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key=f"shop/store/{name}", Body=content)
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/product/LOAD00000001.parquet", Body=b"x")
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/product/LOAD00000002.csv", Body=b"")
    text = " ".join(cdclake(verb).output.split())
    assert "shop.store: untyped: 2 columns are text, because the files are CSV and Schema declares no type" in text
    assert "cdclake doctor shop.store proposes types" in text
    assert "shop.product: untyped" not in text
    cdclake.ok("tables", "set", "shop.store", "--schema", "qty int", "--unchecked")
    assert "shop.store: untyped: 1 column is text" in " ".join(cdclake(verb).output.split())
    cdclake.ok("tables", "set", "shop.store", "--schema", "qty int, id string", "--unchecked")
    assert "untyped" not in cdclake(verb).output


def test_the_number_is_in_the_records_of_the_plan(cdclake, state):
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/store/LOAD00000001.csv", Body=LINES)
    counts = {record["table"]: record["untyped"] for record in cdclake.records("plan")}
    assert counts == {"shop.product": 0, "shop.store": 2}
