"""The lake equals the reference merge for any rows, any split into files and runs, and any order of arrival."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.limits import EngineLimits
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.scd2.versions import printed
from tests.cdclake.lake.table import Table, by_key, ordering_by_value, without_ordering
from tests.cdclake.lake.wide_rows import taken_in_pieces
from tests.dying_store import Death, DiedError
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.spark.spark_backend import SparkBackend
    from cdclake_devkit.oracle import LakeRow

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("code", pa.string()),
        ("day", pa.date32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("flag", pa.bool_()),
        ("n", pa.int16()),
        ("ratio", pa.float32()),
    ]
)
WIDER = (pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0), pa.decimal128(22, 2))
"""Types of column `n`, each wider than the previous."""
LAKE_TYPES = ("smallint", "int", "bigint", "decimal(20,0)", "decimal(22,2)")
TYPES: dict[str, tuple[pa.DataType | None, ...]] = {
    "id": (pa.int64(), pa.int64(), pa.int32(), pa.decimal128(20, 0), pa.decimal128(22, 2)),
    "amount": (pa.decimal128(12, 2), pa.decimal128(12, 2), pa.decimal128(16, 4)),
    "flag": (pa.bool_(), None),
    "n": WIDER,
    "ratio": (pa.float32(), pa.float64()),
}
"""Types that a column has in some change file; None if the file lacks it."""
PLAIN = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.string()), ("c", pa.string())])
KEYS = (("id",), ("code",), ("id", "code"), ("ratio", "id"))
PARTITIONS = ((), ("day",), ("day", "city"), ("amount",), ("ratio", "n"), ("id", "ratio"))
ORDERS = (None, None, "amount", "at", "code", "n", "ratio")
MODES = ("hard", "soft")
TARGETS = ("700", "20000", "134217728")

SMALL, READ_BY_THE_DRIVER = (1 << 20, 1 << 30, 0), (1 << 20, 0, 0)
MEDIUM, LARGE = (0, 0, 1 << 20), (0, 0, 0)
"""Limits, in raw bytes and in bytes in memory, up to which the driver processes a change by itself; and up to how many
raw bytes it sends the rows to the tasks that merge them."""
IN_PLACE, IN_STAGES = 1 << 30, 0
"""Limits, in bytes in memory, up to which a task looks up, resolves and rewrites the rows of a file."""

TINY = {
    "job_bytes": 0,
    "load_task_memory_bytes": 300,
    "key_range_rows": 1,
    "batch_rows": 2,
    "small_file_bytes": 0,
    "together_bytes": 200,
    "read_group_bytes": 200,
    "part_bytes": 100,
    "task_data_bytes": 0,
    "samples_per_file": 1,
    "write_group_bytes": 1,
    "row_group_bytes": 100,
    "row_group_rows": 2,
}
"""Limits with which a feed is handled like a large one."""

FIRST_HALF, SECOND_HALF = pytest.mark.xdist_group("first half"), pytest.mark.xdist_group("second half")
"""Two processes share the thorough run."""
SPARK_PARTS = (pytest.param(1, marks=FIRST_HALF), pytest.param(2, marks=[SECOND_HALF, pytest.mark.thorough]))

Row = dict[str, Any]
Change = tuple[str, Row, "Row | None"]

cities = st.none() | st.sampled_from(["Ulm", "a/b", "x=y", "02134", "né ü", "%41", "."])
days = st.none() | st.dates(date(2024, 1, 1), date(2024, 1, 4))
amounts = st.none() | st.decimals(Decimal(-99), Decimal(99), places=2)
moments = st.none() | st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis wants bounds without zone
    datetime(2030, 1, 1),  # noqa: DTZ001 - likewise
    timezones=st.just(timezone.utc),
)
codes = st.sampled_from(["", "a", "b", "B", "a:b", "é"])
rows = st.fixed_dictionaries(
    {
        "id": st.integers(-3, 12),
        "code": codes,
        "day": days,
        "city": cities,
        "amount": amounts,
        "at": moments,
        "flag": st.none() | st.booleans(),
        "n": st.none() | st.integers(-9, 9),
        "ratio": st.sampled_from([-2.25, -0.0, 0.0, 1.5]),
    }
)
deaths = st.builds(Death, st.integers(1, 14), st.booleans())
changes = st.tuples(st.sampled_from("IUD"), rows, st.none())


@st.composite
def feeds(draw: st.DrawFn, max_files: int = 5) -> dict[str, Any]:
    """A full load, change files, their order of arrival, when runs start, and where they die."""
    order = draw(st.sampled_from(ORDERS))
    files = [
        [(op, with_ordering(row, order), None) for op, row, _ in file]
        for file in draw(st.lists(st.lists(changes, max_size=8), max_size=max_files))
    ]
    numbers = range(len(files))
    repeated = draw(st.lists(st.sampled_from(numbers), max_size=2)) if files else []
    in_order = draw(st.booleans())
    arrivals = [*numbers] if in_order else [*draw(st.permutations(numbers)), *repeated]
    return {
        "key": draw(st.sampled_from(KEYS)),
        "partition": draw(st.sampled_from(PARTITIONS)),
        "order": order,
        "target": draw(st.sampled_from(TARGETS)),
        "delete_mode": draw(st.sampled_from(MODES)),
        "full_load": draw(st.lists(rows, max_size=12)),
        "files": files,
        "types": [{name: draw(st.sampled_from(kinds)) for name, kinds in TYPES.items()} for _ in files],
        "window_hours": "0" if in_order else "72",
        "arrivals": arrivals,
        "runs": draw(st.lists(st.booleans(), min_size=len(arrivals), max_size=len(arrivals))),
        "deaths": draw(st.lists(st.none() | st.none() | deaths, min_size=len(arrivals), max_size=len(arrivals))),
        "load_death": draw(st.none() | st.none() | deaths),
        "small": draw(st.sampled_from([SMALL, READ_BY_THE_DRIVER, MEDIUM, LARGE])),
        "in_place": draw(st.sampled_from([IN_PLACE, IN_STAGES])),
        "tiny": draw(st.sets(st.sampled_from(sorted(TINY)))),
        "pieces": draw(st.booleans()),
    }


def with_ordering(row: Row, order: str | None) -> Row:
    """The row with a value in its ordering column, because change rows without one are bad."""
    known = {"n": 0, "amount": Decimal(0), "at": datetime(2024, 3, 5, tzinfo=timezone.utc)}
    return {**row, order: known[order]} if order and row[order] is None else row


def small_changes(limits: tuple[int, int, int]) -> EngineLimits:
    """What the engine counts as a small or medium change; all changes of a feed are tiny."""
    raw_bytes, memory_bytes, medium_bytes = limits
    return EngineLimits(
        small_change_bytes=raw_bytes, small_change_memory_bytes=memory_bytes, medium_change_bytes=medium_bytes
    )


def check(feed: dict[str, Any], spark: Backend) -> None:
    key: tuple[str, ...] = feed["key"]
    item = {
        "PrimaryKey": ",".join(key) or "null",
        "PartitionKey": ",".join(feed["partition"]) or "null",
        "TargetFileBytes": feed["target"],
        "DeleteMode": feed["delete_mode"],
        "MissingColumns": "null",
        "Schema": "code string",
        "LateWindowHours": feed["window_hours"],
    }
    if feed["order"]:
        item["OrderColumn"] = feed["order"]
    tiny = {name: TINY[name] for name in feed["tiny"]}
    limits = replace(small_changes(feed["small"]), in_place_task_bytes=feed["in_place"], **tiny)
    taking = taken_in_pieces(60) if feed["pieces"] else nullcontext()
    with tempfile.TemporaryDirectory() as folder, taking:
        table = Table(Path(folder), COLUMNS, item, spark, ordering=ordering_by_value, limits=limits)
        loaded = feed["full_load"]
        if key:
            loaded = list({tuple(row[name] for name in key): row for row in loaded}.values())
        if loaded:
            middle = len(loaded) // 2
            table.write_load(loaded[:middle], 1)
            table.write_load(loaded[middle:], 2)
            run_that_may_die(table, table.load_initial, feed["load_death"])
            table.load_initial()
        for i, run_now, death in zip(feed["arrivals"], feed["runs"], feed["deaths"], strict=True):
            table.write_changes(f"20240305-1{i}1500000.parquet", feed["files"][i], feed["types"][i])
            if run_now:
                run_that_may_die(table, table.load_incremental, death)
        table.load_incremental()
        assert table.load_incremental()["change"] is None

        expected = merge(key, loaded, table.changes, soft_delete=feed["delete_mode"] == "soft")
        if key:
            assert without_ordering(by_key(table.rows(), key)) == without_ordering(expected)
        else:
            assert texts(table.rows()) == texts(expected)
        snapshot = table.log.snapshot(table.log.head())
        assert snapshot.rows == len(merge(key, loaded, table.changes))
        assert snapshot.rows + snapshot.deleted_rows == len(expected)
        assert sorted(file.path for file in snapshot.files) == table.files()
        assert [entry.key for entry in table.log.store.list(table.layout.control_prefix + "staging/")] == []
        if loaded or feed["arrivals"]:
            check_type_of_n(table, feed, initial=0 if loaded else None)
        records = [table.log.record(number) for number in range(1, table.log.head() + 1)]
        rows_of = {file.relative: file.rows for record in records for file in record.raw_files}
        assert sum(rows_of.pop(f"LOAD0000000{i}.parquet", None) or 0 for i in (1, 2)) == len(loaded)
        assert rows_of == {f"20240305-1{i}1500000.parquet": len(feed["files"][i]) for i in feed["arrivals"]}
        folders = {path.rpartition("/")[0] for path in table.files()}
        assert len(folders) == len({tuple(one.row[name] for name in feed["partition"]) for one in table.rows()})


def texts(rows: list[LakeRow]) -> list[tuple[str, ...]]:
    """Rows as text, equal for equal numbers and times, in order."""

    def text(value: object) -> str:
        return str(value) if isinstance(value, datetime) else printed(value)

    return sorted(
        (one.op, one.position, *(text(one.row[name]) for name in COLUMNS.names)) for one in without_ordering(rows)
    )


def run_that_may_die(table: Table, run: Callable[[], object], death: Death | None) -> None:
    table.death = death
    with suppress(DiedError):
        run()
    table.death = None


def check_type_of_n(table: Table, feed: dict[str, Any], initial: int | None) -> None:
    """Column `n` has the widest type of all arrived files, in the snapshot and in every data file."""
    arrived = [WIDER.index(feed["types"][i]["n"]) for i in feed["arrivals"]]
    widest = max([*arrived, *([] if initial is None else [initial])])
    snapshot = table.log.snapshot(table.log.head())
    column = snapshot.schema.find("n")
    assert column is not None
    assert column.type == LAKE_TYPES[widest]
    for path in table.files() if "n" not in feed["partition"] else ():
        stored = pq.read_schema(table.folder / path)
        assert stored.field("n").type == WIDER[widest]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("part", SPARK_PARTS)
@examples(thorough=250, ci=6, test=6)
@given(feed=feeds(max_files=3))
def test_any_feed_equals_the_oracle_on_spark(spark_backend: SparkBackend, part: int, feed: dict[str, Any]) -> None:
    check(feed, spark_backend)


@SECOND_HALF
@examples(thorough=1_500, ci=75, test=40)
@given(feed=feeds(), tasks_cost_time=st.booleans())
def test_any_feed_equals_the_oracle(feed: dict[str, Any], *, tasks_cost_time: bool) -> None:
    check(feed, InProcessBackend(tasks_cost_time=tasks_cost_time))


@FIRST_HALF
@examples(thorough=750, ci=40, test=15)
@given(feeds())
def test_any_feed_of_a_table_without_a_key_equals_the_oracle(feed: dict[str, Any]) -> None:
    check({**feed, "key": ()}, InProcessBackend())


@st.composite
def partial_rows(draw: st.DrawFn) -> tuple[str, Row]:
    row: Row = {"id": draw(st.integers(1, 6))}
    op = draw(st.sampled_from("IUUUD"))
    values = {"a": st.none() | st.integers(0, 9), "b": st.none() | st.sampled_from("xyz"), "c": st.sampled_from("pq")}
    for name, value in values.items():
        if op == "I" or draw(st.booleans()):
            row[name] = draw(value)
    return op, row


@FIRST_HALF
@examples(thorough=1_000, ci=60, test=25)
@given(
    full_load=st.integers(0, 6),
    files=st.lists(st.lists(partial_rows(), min_size=1, max_size=8), min_size=1, max_size=4),
    cuts=st.lists(st.booleans(), min_size=4, max_size=4),
    partition=st.sampled_from(["null", "c"]),
    delete_mode=st.sampled_from(MODES),
)
def test_columns_that_changes_do_not_send_equal_the_oracle(
    full_load: int, files: list[list[tuple[str, Row]]], cuts: list[bool], partition: str, delete_mode: str
) -> None:
    schema = "id bigint, a int, b string, c string"
    item = {"PrimaryKey": "id", "PartitionKey": partition, "Schema": schema, "CsvNoSupValue": "?"}
    item["DeleteMode"] = delete_mode
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), PLAIN, item)
        loaded = [{"id": i, "a": i, "b": "loaded", "c": "p"} for i in range(1, full_load + 1)]
        if loaded:
            table.load(loaded)
        for i, (rows_of_file, run_now) in enumerate(zip(files, cuts, strict=False)):
            table.write_partial_changes(f"20240305-1{i}1500000.csv", rows_of_file)
            if run_now:
                table.load_incremental()
        table.load_incremental()
        expected = merge(("id",), loaded, table.changes, PLAIN.names, soft_delete=delete_mode == "soft")
        assert by_key(table.rows(), ("id",)) == expected
