"""The difference between two changes equals the reference merge, in both directions and across rollbacks."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.diff import plan_diff, read_diff
from cdclake.lake.read.diff_report import report
from cdclake.model.retained import Retained
from cdclake_devkit.oracle import ChangeRow, merge
from tests.cdclake.lake.over_time import TABLE, TableOverTime
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from cdclake.lake.read.diff import DiffPlan
    from cdclake_devkit.oracle import LakeRow

pytestmark = pytest.mark.spark

Row = dict[str, Any]
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("code", pa.string()),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
    ]
)
rows_drawn = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "code": st.sampled_from(["", "a", "a.b"]),
        "day": st.none() | st.dates(date(2024, 1, 1), date(2024, 1, 2)),
        "ratio": st.sampled_from([None, 0.5, float("nan")]),
        "amount": st.sampled_from([None, Decimal("1.50"), Decimal("-2.00")]),
        "at": st.sampled_from([None, datetime(2024, 3, 10, 2, 30, tzinfo=timezone.utc)]),
        "raw": st.sampled_from([None, b"", b"\xff"]),
    }
)
steps_drawn = st.lists(
    st.integers(0, 1) | st.lists(st.tuples(st.sampled_from("IUUD"), rows_drawn), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def comparable(values: Iterable[object]) -> tuple[object, ...]:
    """Values that are equal if and only if two rows are equal. Spark returns times in this machine's zone."""
    return tuple(map(_comparable, values))


def _comparable(value: object) -> object:
    if isinstance(value, float) and isnan(value):
        return "nan"
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc)
    return bytes(value) if isinstance(value, bytearray) else value


def values_of(found: LakeRow) -> tuple[object, ...]:
    return comparable(found.row[name] for name in COLUMNS.names)


def expected(key: Sequence[str], before: list[LakeRow], after: list[LakeRow]) -> Counter[tuple[object, ...]]:
    """The difference, one row at a time."""
    if not key:
        old, new = (Counter(values_of(one) for one in state) for state in (before, after))
        gone = {("delete", *row): count for row, count in (old - new).items()}
        return Counter({**gone, **{("insert", *row): count for row, count in (new - old).items()}})
    was, now = ({tuple(one.row[name] for name in key): values_of(one) for one in state} for state in (before, after))
    found = [("insert", *now[k]) for k in now.keys() - was.keys()]
    found += [("delete", *was[k]) for k in was.keys() - now.keys()]
    for k in was.keys() & now.keys():
        if was[k] != now[k]:
            found += [("update_before", *was[k]), ("update_after", *now[k])]
    return Counter(found)


def difference(session: SparkSession, table: TableOverTime, before: int, after: int) -> Counter[tuple[object, ...]]:
    found = read_diff(session, table.location, TABLE, before, after).collect()
    return Counter(map(comparable, found))


@examples(thorough=300, ci=12, test=5)
@given(
    full_load=st.lists(rows_drawn, min_size=1, max_size=6),
    steps=steps_drawn,
    key=st.sampled_from([("id",), ("id", "code"), ("code",), ()]),
    partition=st.sampled_from(["null", "day", "code"]),
    target=st.sampled_from(["700", "134217728"]),
    data=st.data(),
)
def test_the_diff_of_any_two_changes_equals_the_oracle(
    session: SparkSession,
    full_load: list[Row],
    steps: list[int | list[tuple[str, Row]]],
    key: tuple[str, ...],
    partition: str,
    target: str,
    data: st.DataObject,
) -> None:
    """A step is a change file, or a rollback by one change (0) or to the first (1)."""
    item = {"PrimaryKey": ",".join(key) or "null", "PartitionKey": partition, "TargetFileBytes": target}
    with tempfile.TemporaryDirectory() as folder:
        table = TableOverTime(Path(folder), COLUMNS, item)
        loaded = list({tuple(row[name] for name in key) or i: row for i, row in enumerate(full_load)}.values())
        table.load(loaded)
        written: list[ChangeRow] = []
        states = {1: merge(key, loaded, written)}
        for step in steps:
            shown = table.log.record(table.log.head()).content_change
            if isinstance(step, int):
                to = 1 if step else shown - 1
                if shown > 1:
                    states[table.roll_back(to)] = states[to]
                continue
            number = len(states)
            written += [ChangeRow(f"{number:03}|{i:03}", op, row) for i, (op, row) in enumerate(step)]
            states[table.apply(*step)] = merge(key, loaded, written)  # and what was rolled back comes again
        numbers = sorted(states)
        before, after = data.draw(st.sampled_from(numbers)), data.draw(st.sampled_from(numbers))
        assert difference(session, table, before, after) == expected(key, states[before], states[after])


def location_and_plan(table: TableOverTime, before: int, after: int) -> tuple[TableLocation, DiffPlan]:
    location = TableLocation.at(table.location, TABLE)
    return location, plan_diff(table_as_of(table.log, before), table_as_of(table.log, after))


SMALL = pa.schema([("id", pa.int32()), ("n", pa.int32())])


def small(tmp_path: Path) -> TableOverTime:
    table = TableOverTime(tmp_path, SMALL, {"PrimaryKey": "id", "TargetFileBytes": "1"})
    table.load([{"id": i, "n": i} for i in range(1, 5)])
    return table


def test_a_diff_reads_only_files_that_are_not_common(tmp_path: Path) -> None:
    table = small(tmp_path)
    table.apply(("U", {"id": 2, "n": 22}))
    table.apply(("I", {"id": 9, "n": 9}))
    _, plan = location_and_plan(table, 1, 3)
    assert 0 < len(plan.before.files) < len(table.log.snapshot(1).files) + 1
    common = {f.path for f in table.log.snapshot(1).files} & {f.path for f in table.log.snapshot(3).files}
    assert {kept.file.path for side in (plan.before, plan.after) for kept in side.files}.isdisjoint(common)
    _, nothing = location_and_plan(table, 3, 3)
    assert (nothing.before.files, nothing.after.files) == ((), ())


def test_wider_and_new_columns_count_only_if_values_differ(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path)
    wider = pa.schema([("id", pa.int32()), ("n", pa.int64()), ("note", pa.string())])
    table.apply(("U", {"id": 1, "n": 1, "note": "x"}), ("I", {"id": 5, "n": 1 << 40, "note": None}), schema=wider)
    for before, after, kinds in ((1, 2, ("update_before", "update_after")), (2, 1, ("update_after", "update_before"))):
        found = read_diff(session, table.location, TABLE, before, after)
        assert found.dtypes == [("change_type", "string"), ("id", "int"), ("n", "bigint"), ("note", "string")]
        assert sorted(tuple(row) for row in found.collect()) == sorted(
            [
                (kinds[0], 1, 1, None),
                (kinds[1], 1, 1, "x"),
                ("insert" if before < after else "delete", 5, 1 << 40, None),
            ]
        )


def test_a_diff_of_a_table_that_does_not_exist_is_refused(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path)
    assert table.roll_back(0) == 2
    with pytest.raises(ConfigurationError, match="does not exist after change 2\\."):
        read_diff(session, table.location, TABLE, 2, 2)


def test_incompatible_column_types_are_refused(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path)
    table.columns = pa.schema([("id", pa.int32()), ("n", pa.string())])
    table.reload([{"id": 1, "n": "one"}])
    with pytest.raises(ConfigurationError, match="n is int after change 1 and string after change 2"):
        read_diff(session, table.location, TABLE, 1, 2)


def test_changes_past_retention_are_refused_on_either_side(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path)
    table.apply(("D", {"id": 1, "n": 1}))
    table.log.mark_retained(Retained(1))
    for changes in ((1, 2), (2, 1)):
        with pytest.raises(PastRetentionError):
            read_diff(session, table.location, TABLE, *changes)


def test_a_report_has_all_counts_and_the_first_rows_as_json_types(tmp_path: Path, session: SparkSession) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    moment = datetime(2024, 3, 10, 2, 30, 0, 5, tzinfo=timezone.utc)
    row = {"id": 1, "code": "a", "day": date(2024, 1, 2), "ratio": float("nan"), "amount": Decimal("1.50")}
    row |= {"at": moment, "raw": b"\x00\xff"}
    table.load([row, {**row, "id": 3}, {**row, "id": 4}])
    table.apply(("I", {**row, "id": 2}), ("U", {**row, "ratio": 0.1}), ("D", {**row, "id": 3}), ("D", {**row, "id": 4}))
    location, plan = location_and_plan(table, 1, 2)
    found = report(session, location, plan, 4)
    assert found.counts == {"inserted": 1, "updated": 1, "deleted": 2}
    assert found.columns == ("change_type", *COLUMNS.names)
    rest = ("1.50", "2024-03-10T02:30:00.000005Z", "00FF")
    assert found.rows == (
        ("update_before", 1, "a", "2024-01-02", "nan", *rest),
        ("update_after", 1, "a", "2024-01-02", 0.1, *rest),
        ("insert", 2, "a", "2024-01-02", "nan", *rest),
        ("delete", 3, "a", "2024-01-02", "nan", *rest),
    )
    counted = report(session, location, plan, 0)
    assert (counted.counts, counted.rows) == (found.counts, ())
