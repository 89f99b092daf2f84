"""The history equals the reference history for any rows, any order of arrival and any split into runs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.iceberg.table import Readers
from cdclake_devkit.oracle import history, merge
from tests.cdclake.lake.feeding import Feeding
from tests.cdclake.lake.merge.test_against_oracle import COLUMNS, SECOND_HALF, feeds, small_changes, with_ordering
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table, file_time, table_rows, versions
from tests.cdclake.lake.table import by_key, without_ordering
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.lake.spark.backend import Backend
    from cdclake_devkit.oracle import Row, Version

TIME_COLUMNS = st.sampled_from([None, "at"])
READERS = st.lists(st.sampled_from(Readers), min_size=2, max_size=2)


def _item(feed: dict[str, Any], time_column: str | None, feeds: int) -> dict[str, str]:
    item = {
        "PrimaryKey": ",".join(feed["key"]),
        "PartitionKey": ",".join(feed["partition"]) or "null",
        "TargetFileBytes": feed["target"],
        "DeleteMode": feed["delete_mode"],
        "History": "true",
        "MissingColumns": "null",
        "Schema": "code string",
        "LateWindowHours": feed["window_hours"] if feeds == 1 else "72",
    }
    return {
        **item,
        **({"OrderColumn": feed["order"]} if feed["order"] else {}),
        **({"HistoryTimeColumn": time_column} if time_column else {}),
    }


def in_file(version: Version) -> str:
    """The position of a version without its ordering value."""
    return "|".join(version.position.rsplit("|", 2)[1:])


def check_versions(feeding: Feeding, time_column: str | None = None) -> None:
    table, key = feeding.table, feeding.key

    def time_of(row: Row, position: str) -> datetime | None:
        return (row.get(time_column) if time_column else None) or file_time(position)

    expected = history(key, feeding.fed, COLUMNS.names, time_of)
    found = versions(table, key, tuple(feeding.loads))
    assert [(one.row, one.operation) for one in found] == [(one.row, one.operation) for one in expected]
    assert [replace(one, position=in_file(one)) for one in found] == [
        replace(one, position=in_file(one)) for one in expected
    ]


def check(
    fed: Sequence[dict[str, Any]], time_column: str | None, spark: Backend, readers: Sequence[Readers] = ()
) -> None:
    first = fed[0]
    with tempfile.TemporaryDirectory() as folder:
        feeding = Feeding(folder, _item(first, time_column, len(fed)), first["key"], spark)
        feeding.table.limits = small_changes(first["small"])
        for feed, opened in zip(fed, (*readers, *(Readers.FOLDER for _ in fed)), strict=False):
            feeding.table.item["Readers"] = opened.value
            feeding.feed(feed)
        check_versions(feeding, time_column)
        table, key = feeding.table, feeding.key
        soft = first["delete_mode"] == "soft"
        table_expected = merge(key, *feeding.table_expected(), soft_delete=soft)
        assert without_ordering(by_key(table_rows(table), key)) == without_ordering(table_expected)
        check_newest_are_the_table(table, key)


@SECOND_HALF
@examples(thorough=1_500, ci=20, test=5)
@given(fed=st.lists(feeds(max_files=3), min_size=1, max_size=2), time_column=TIME_COLUMNS, readers=READERS)
def test_any_feed_equals_the_history_of_the_oracle(
    fed: list[dict[str, Any]], time_column: str | None, readers: list[Readers]
) -> None:
    check(fed, time_column, InProcessBackend(), readers)


@SECOND_HALF
@examples(thorough=500, ci=15, test=3)
@given(
    feed=feeds(max_files=4),
    reload=feeds(max_files=2),
    kept=st.lists(st.tuples(st.booleans(), st.sampled_from(Readers)), min_size=8, max_size=8),
)
def test_a_history_turned_on_and_off_ends_with_the_rows_of_the_table(
    feed: dict[str, Any], reload: dict[str, Any], kept: list[tuple[bool, Readers]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        feeding = Feeding(folder, _item(feed, None, 2), feed["key"], InProcessBackend())
        feeding.table.limits = small_changes(feed["small"])
        last = [(True, kept[-1][1])] * 100
        table, turns = feeding.table, iter([*kept, *last])
        run = table.run

        def toggled() -> Any:
            is_kept, readers = next(turns)
            table.item |= {"History": str(is_kept).lower(), "Readers": readers.value}
            return run()

        table.run = toggled  # type: ignore[method-assign]
        feeding.feed(feed)
        feeding.feed(reload)
        turns = iter(last)
        table.apply_file(
            "20240309-101500000.parquet",
            [(op, with_ordering(feed_row(key), feed["order"])) for op, key in (("U", 9), ("D", 5))],
        )
        check_newest_are_the_table(table, feeding.key)


def feed_row(number: int) -> dict[str, Any]:
    return {**dict.fromkeys(COLUMNS.names), "id": number, "code": "a", "ratio": 1.5}
