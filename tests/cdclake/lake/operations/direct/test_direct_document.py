"""The Python snippets about changes in docs/direct-changes.md and docs/time-travel.md work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from cdclake.lake_table import LakeTable
from cdclake_devkit.memory import MemoryState
from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

pytestmark = pytest.mark.spark

DOCS = ROOT / "docs"


def snippets(document: str, words: str) -> list[str]:
    """Python blocks of a document that contain these words."""
    text = (DOCS / document).read_text(encoding="utf-8")
    return [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if words in block]


@pytest.mark.long
def test_the_documented_session_works(tmp_path: Path, spark: SparkContext) -> None:
    session, states, lake = SparkSession(spark).newSession(), MemoryState(), tmp_path.as_uri()
    mine = LakeTable("shop.customer", lake=lake, states=states, spark=session, user="ann")
    mine.register(["id"])
    states.set_attributes("cdclake-raw/shop/customer/", {"History": "true"})
    mine.insert([{"id": 1, "name": "Zoe", "city": "Ulm"}])
    names: dict[str, Any] = {"LAKE": lake, "STATES": states, "SPARK": session}
    for code in snippets("direct-changes.md", ""):
        exec(re.sub(r'LakeTable\("([^"]+)"', r'LakeTable("\1", lake=LAKE, states=STATES, spark=SPARK', code), names)
    assert (names["done"].change, names["done"].inserted) == (2, 2)
    assert [tuple(row)[:3] for row in mine.as_of().collect()] == [(1, "Zoe", "Ulm")]
    changes = [(row.change, row.kind, row.reason) for row in mine.changes().orderBy("change").collect()]
    assert changes == [
        (1, "direct", ""),
        (2, "direct", "orders by phone"),
        (3, "direct", ""),
        (4, "direct", ""),
        (5, "direct", "test orders"),
        (6, "rollback", "wrong customer"),
        (7, "reapply", ""),
    ]
    assert [tuple(row)[:3] for row in names["notes"].as_of().collect()] == [(1, "2024-03-05", "call back")]

    feed: dict[str, Any] = {"spark": session}
    (code,) = snippets("time-travel.md", "read_changes")
    exec(code.replace("s3://cdclake-lake", lake).replace("shop.orders", "shop.customer"), feed)
    kinds = sorted((row.change, row.change_type, row.id) for row in feed["news"].collect())
    assert kinds == [(4, "delete", 502), (5, "delete", 501), (6, "insert", 501), (7, "delete", 501)]
    assert feed["last"] == 7
