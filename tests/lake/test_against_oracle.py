"""The lake equals the reference merge, whatever the rows, however they are cut into files and runs."""

from __future__ import annotations

import tempfile
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdclake.oracle import merge
from tests.lake.table import Table, by_key

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("code", pa.string()),
        ("day", pa.date32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("flag", pa.bool_()),
    ]
)
KEYS = (("id",), ("code",), ("id", "code"))
PARTITIONS = ((), ("day",), ("day", "city"))

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
cities = st.none() | st.sampled_from(["Ulm", "a/b", "x=y", "02134", "né ü", "%41", "."])
days = st.none() | st.dates(date(2024, 1, 1), date(2024, 1, 4))
amounts = st.none() | st.decimals(Decimal(-99), Decimal(99), places=2)
moments = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001 - hypothesis wants bounds without zone


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "id": draw(st.integers(-3, 12)),
        "code": draw(st.sampled_from(["", "a", "b", "B", "a:b", "é"])),
        "day": draw(days),
        "city": draw(cities),
        "amount": draw(amounts),
        "at": draw(moments),
        "flag": draw(st.none() | st.booleans()),
    }


def distinct(found: list[dict[str, Any]], key: tuple[str, ...]) -> list[dict[str, Any]]:
    return list({tuple(row[name] for name in key): row for row in found}.values())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    key=st.sampled_from(KEYS),
    partition=st.sampled_from(PARTITIONS),
    loads=st.lists(st.lists(rows(), max_size=12), max_size=3),
    files=st.lists(st.lists(st.tuples(st.sampled_from("IUD"), rows()), max_size=10), max_size=5),
    cuts=st.lists(st.booleans(), min_size=5, max_size=5),
    target_bytes=st.sampled_from(["700", "20000", "134217728"]),
)
def test_any_files_cut_into_any_runs_give_the_table_of_the_oracle(
    key: tuple[str, ...],
    partition: tuple[str, ...],
    loads: list[list[dict[str, Any]]],
    files: list[list[tuple[str, dict[str, Any]]]],
    cuts: list[bool],
    target_bytes: str,
) -> None:
    item = {
        "PrimaryKey": ",".join(key),
        "PartitionKey": ",".join(partition) or "null",
        "TargetFileBytes": target_bytes,
    }
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), COLUMNS, item)
        full_load = distinct([row for load in loads for row in load], key)
        if full_load:
            middle = len(full_load) // 2
            table.write_load(full_load[:middle], 1)
            table.write_load(full_load[middle:], 2)
            table.load_initial()
        for i, (changes, run_now) in enumerate(zip(files, cuts, strict=False)):
            table.write_changes(f"20240305-1015{i:02d}000.parquet", changes)
            if run_now:
                table.load_incremental()
        table.load_incremental()
        table.load_incremental()

        expected = merge(key, full_load, table.changes)
        assert by_key(table.rows(), key) == expected
        head = table.log.head()
        snapshot = table.log.snapshot(head)
        assert snapshot.rows == len(expected)
        assert sorted(file.path for file in snapshot.files) == table.files()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    key=st.sampled_from(KEYS),
    partition=st.sampled_from(PARTITIONS),
    full_load=st.lists(rows(), max_size=8),
    files=st.lists(st.lists(st.tuples(st.sampled_from("IUD"), rows()), max_size=6), min_size=1, max_size=6),
    data=st.data(),
)
def test_files_in_any_order_of_arrival_and_delivered_again_give_the_table_of_the_oracle(
    key: tuple[str, ...],
    partition: tuple[str, ...],
    full_load: list[dict[str, Any]],
    files: list[list[tuple[str, dict[str, Any]]]],
    data: st.DataObject,
) -> None:
    item = {"PrimaryKey": ",".join(key), "PartitionKey": ",".join(partition) or "null", "TargetFileBytes": "700"}
    arrivals = data.draw(st.permutations(range(len(files))), "order of arrival")
    again = data.draw(st.lists(st.sampled_from(range(len(files)))), "delivered again")
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), COLUMNS, item)
        rows_loaded = distinct(full_load, key)
        if rows_loaded:
            table.write_load(rows_loaded)
            table.load_initial()
        for i in [*arrivals, *again]:
            table.write_changes(f"20240305-1{i}1500000.parquet", files[i])
            if data.draw(st.booleans(), "run"):
                table.load_incremental()
        table.load_incremental()
        assert by_key(table.rows(), key) == merge(key, rows_loaded, table.changes)
