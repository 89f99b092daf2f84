"""Random changes, undos, switches, schema changes, clean-ups and erasures: independent readers agree with a model.

The model is a dictionary of the rows for each change. After every step, each snapshot that the metadata offers is read.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdclake.commit.table_files import check_files
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import apply_undo, plan_reapply
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.model.iceberg.table import Readers
from tests.cdclake.lake.iceberg.readers import IcebergReaders, SparkReader, connection
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable
from tests.cdclake.lake.scd2.versions import version_rows
from tests.conftest import COUNTS
from tests.examples import examples

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

Rows = dict[int, dict[str, Any]]
KEYS = st.integers(0, 6)
TEXTS = st.sampled_from([None, "Kiel", "Ulm", "a/b", "é"])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("change"), st.lists(st.tuples(st.sampled_from("IUD"), KEYS, TEXTS, st.integers(0, 99)), min_size=1)
        ),
        st.tuples(st.just("load"), st.lists(st.tuples(KEYS, TEXTS, st.integers(0, 99)), unique_by=lambda one: one[0])),
        st.tuples(
            st.just("repartition"),
            st.tuples(
                st.sampled_from(["null", "city", "n", "newest column"]),
                st.lists(st.tuples(KEYS, TEXTS, st.integers(0, 99)), unique_by=lambda one: one[0]),
            ),
        ),
        st.tuples(st.just("add column"), st.none()),
        st.tuples(st.just("clock is late"), st.integers(1, 30)),
        st.tuples(st.just("widen"), st.none()),
        st.tuples(st.just("roll back"), st.integers(0, 8)),
        st.tuples(st.just("reapply"), st.none()),
        st.tuples(st.just("take over"), st.none()),
        st.tuples(st.just("switch"), st.sampled_from(Readers)),
        st.tuples(st.just("keep history"), st.booleans()),
        st.tuples(st.just("clean up"), st.integers(0, 4)),
        st.tuples(st.just("erase"), KEYS),
    ),
    min_size=2,
    max_size=9,
)

_ROWS = [(1, "Kiel", 1), (2, "Ulm", 60), (3, None, 70)]
_LOAD, _INSERT, _UPDATE = ("load", _ROWS), ("change", [("I", 4, "Ulm", 7)]), ("change", [("U", 2, "Ulm", 8)])
EXAMPLES: list[list[tuple[str, Any]]] = [
    [_LOAD, ("add column", None), _INSERT, _UPDATE, ("erase", 0), ("roll back", 3), _UPDATE],
    [_LOAD, _INSERT, ("widen", None), _UPDATE, ("roll back", 3), ("reapply", None)],
    [_LOAD, ("clock is late", 1), _INSERT, ("clock is late", 5), _UPDATE, ("roll back", 2)],
    [
        _LOAD,
        ("add column", None),
        ("repartition", ("newest column", _ROWS)),
        ("roll back", 2),
        ("reapply", None),
        _UPDATE,
    ],
    [("widen", None), ("widen", None), _INSERT, ("repartition", ("null", []))],
]
"""Histories in which readers found other rows once, or Spark none, or a run failed."""


def _with_examples(test: Any) -> Any:
    for steps in EXAMPLES:
        test = example(steps=steps)(test)
    return test


class Model:
    """A table, and what each of its changes should show."""

    def __init__(self, root: Path, partition_key: str) -> None:
        columns = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int16())])
        item = {"PrimaryKey": "id", "PartitionKey": partition_key, "Readers": "iceberg", "TargetFileBytes": "1"}
        self.table = ErasableTable(root, columns, item)
        self.after: dict[int, Rows | None] = {0: None}
        self.versions: dict[int, list[tuple[Any, ...]]] = {}
        self.later = timedelta()
        self.erasures = 0
        self.table.load([])
        self.after[1] = {}

    @property
    def rows(self) -> Rows:
        return dict(self.after[self.table.log.head()] or {})

    def settle(self, rows: Rows | None, as_of: int | None = None) -> None:
        """Record what the newest change should show.

        Args:
            as_of: Number of the change that it brings back.
        """
        head = self.table.log.head()
        self.after[head] = rows
        if as_of in self.versions:
            self.versions[head] = self.versions[as_of]
        if rows is not None:
            self.table.item["PartitionKey"] = ",".join(self.table.log.snapshot(head).partition_key) or "null"

    def step(self, kind: str, argument: Any) -> None:
        table, log = self.table, self.table.log
        names = table.columns.names
        exists = self.after[log.head()] is not None
        if kind == "change" and exists:
            rows, changes = self.rows, []
            for op, key, city, n in argument:
                one = {**dict.fromkeys(names, city), "id": key, "n": n}
                changes.append((op, one))
                rows.pop(key, None)
                if op != "D":
                    rows[key] = one
            table.apply(*changes)
            self.settle(rows)
        elif kind in ("load", "repartition"):
            if kind == "repartition":
                partition_key, argument = argument
                table.item["PartitionKey"] = names[-1] if partition_key == "newest column" else partition_key
            loaded = [{**dict.fromkeys(names, city), "id": key, "n": n} for key, city, n in argument]
            before = log.head()
            table.reload(loaded)
            self.settle({one["id"]: one for one in loaded} if log.head() > before else self.after[before])
        elif kind == "add column":
            table.columns = table.columns.append(pa.field(f"c{len(names)}", pa.string()))
        elif kind == "widen":
            wider = {pa.int16(): pa.int64(), pa.int64(): pa.decimal128(22, 2)}
            old = table.columns.field("n")
            table.columns = table.columns.set(2, old.with_type(wider.get(old.type, old.type)))
        elif kind == "clock is late":
            table.clock_is_late += timedelta(hours=argument)
        elif kind == "roll back":
            with suppress(ConfigurationError, PastRetentionError):
                to = max(argument, 0)
                table.roll_back(to, for_good=True)
                self.settle(self.after[to], to)
        elif kind == "reapply":
            with suppress(ConfigurationError, PastRetentionError):
                plan = plan_reapply(log)
                table.runs += 1
                apply_undo(log, plan, f"again-{table.runs}", table.runs, table.next_time)
                self.settle(self.after[plan.as_of], plan.as_of)
        elif kind == "take over":
            rows_now = self.after[log.head()]
            table.runs += 1
            take_over(log, f"other-{table.runs}", table.runs, "a test", table.next_time)
            self.settle(rows_now)
        elif kind == "switch":
            table.item["Readers"] = argument.value
        elif kind == "keep history":
            table.item["History"] = str(argument).lower()
        elif kind == "clean up":
            table.clean_up(timedelta(hours=argument), self.later)
            self.later += timedelta(hours=2)
        elif kind == "erase" and exists:
            rows = self.rows
            present = sorted(rows)  # rarely a key without rows
            key = present[argument % len(present)] if present else argument
            erasure = table.erase(str(key)).change
            rows.pop(key, None)
            for state in self.after.values():
                (state or {}).pop(key, None)
            for change, versions in self.versions.items():
                self.versions[change] = [one for one in versions if ("id", key) not in one]
            if erasure == log.head():
                self.settle(rows)
                self.erasures += 1

    def check_in_spark(self, spark: SparkReader) -> int:
        """Let Spark read each snapshot; returns their number."""
        table, log = self.table, self.table.log
        if log.snapshot(log.head()).iceberg is None:
            return 0
        readers = IcebergReaders(table.lake, table.layout)
        snapshots = readers.table.metadata.snapshots
        for one in snapshots:
            expected = self.after[one.snapshot_id]
            assert expected is not None
            assert _plain(spark.rows(readers.folder, "true", one.snapshot_id)) == _plain(expected.values())
            kiel = [row for row in expected.values() if row["city"] == "Kiel" and row["n"] >= 50]
            found = spark.rows(readers.folder, "city = 'Kiel' AND n >= 50", one.snapshot_id)
            assert _plain(found) == _plain(kiel)
            for name in _added_columns(readers, one):
                without = spark.rows(readers.folder, f"{name} IS NULL", one.snapshot_id)
                assert len(without) == sum(row.get(name) is None for row in expected.values())
        return len(snapshots)

    def check(self) -> int:
        """Let both engines read each snapshot of table and history; returns the number of these."""
        table, log = self.table, self.table.log
        snapshot = log.snapshot(log.head())
        check_files(log, snapshot)
        versions = self.check_history()
        readers = IcebergReaders(table.lake, table.layout)
        in_folder = snapshot.iceberg is None or snapshot.iceberg.in_folder
        listed = [str(path) for path in table.folder.rglob("*.parquet")]
        assert (in_folder and len(listed) == len(snapshot.files)) or not listed
        if listed:
            ids = connection().execute("SELECT id FROM read_parquet($1, hive_partitioning = true)", [listed]).fetchall()
            assert sorted(key for (key,) in ids) == sorted(self.rows)
        if snapshot.iceberg is None:
            assert readers.finds_none
            return versions
        assert readers.version == log.head()
        assert not snapshot.iceberg.in_folder or len(readers.table.metadata.snapshots) == 1
        _check_offered(readers, {change: _plain((rows or {}).values()) for change, rows in self.after.items()})
        for one in readers.table.metadata.snapshots:
            expected = self.after[one.snapshot_id]
            assert expected is not None
            assert _plain(readers.rows(change=one.snapshot_id)) == _plain(expected.values())
            kiel = [row for row in expected.values() if row["city"] == "Kiel"]
            found = readers.rows("city = 'Kiel'", ("id",), change=one.snapshot_id)
            assert sorted(row["id"] for row in found) == sorted(row["id"] for row in kiel)
            nowhere = readers.rows("city IS NULL", ("id",), change=one.snapshot_id)
            assert len(nowhere) == sum(row["city"] is None for row in expected.values())
            assert len(readers.rows("n >= 50", ("id",), change=one.snapshot_id)) == sum(
                row["n"] >= 50 for row in expected.values()
            )
        return versions + len(readers.table.metadata.snapshots)

    def check_history(self) -> int:
        """Its newest versions are the rows of the table, and earlier changes show what they did when they were new."""
        table, snapshot = self.table, self.table.log.snapshot(self.table.log.head())
        if not (snapshot.history and snapshot.history.iceberg):
            assert IcebergReaders(table.lake, table.layout.history).finds_none
            return 0
        if snapshot.history.is_kept:
            newest = [row for row in version_rows(table) if row["validity_flag"] and row["operation"] != "delete"]
            names = table.columns.names
            assert _plain({name: row.get(name) for name in names} for row in newest) == _plain(self.rows.values())
        readers = IcebergReaders(table.lake, table.layout.history)
        assert readers.version == snapshot.change
        for one in readers.table.metadata.snapshots:
            found = _plain(readers.rows(change=one.snapshot_id))
            assert self.versions.setdefault(one.snapshot_id, found) == found
            kiel = readers.rows("city = 'Kiel' AND month <> '13'", ("id",), change=one.snapshot_id)
            assert len(kiel) == sum(("city", "Kiel") in row for row in found)
        _check_offered(readers, self.versions)
        return len(readers.table.metadata.snapshots)


def _check_offered(readers: IcebergReaders, rows: dict[int, list[tuple[Any, ...]]]) -> None:
    """The newest changes are offered, each at its time. Rows from before a column was added are null in it.

    Args:
        rows: Of each change, as `_plain` returns them.
    """
    table = readers.table
    snapshots = table.metadata.snapshots
    first = snapshots[0]
    assert [one.snapshot_id for one in snapshots] == [*range(first.snapshot_id, readers.version + 1)]
    assert readers.at(first.timestamp_ms - 1) is None
    ends = [*(one.timestamp_ms for one in snapshots[1:]), snapshots[-1].timestamp_ms + 3_600_000]
    for one, end in zip(snapshots, ends, strict=True):
        for time_ms in (one.timestamp_ms, end - 1):
            assert _plain(readers.at(time_ms)) == rows[one.snapshot_id]
        for name in _added_columns(readers, one):
            # pyiceberg refuses a filter on a column that only undone changes have
            read = readers.rows if name in table.schema().column_names else readers.duckdb
            without = read(f"{name} IS NULL", ("id",), one.snapshot_id)
            assert len(without) == sum(name not in dict(row) for row in rows[one.snapshot_id])


def _added_columns(readers: IcebergReaders, snapshot: Snapshot) -> list[str]:
    names = readers.table.schemas()[snapshot.schema_id or 0].column_names
    return [name for name in names if re.fullmatch(r"c\d+", name)]


def _plain(rows: Any) -> list[tuple[Any, ...]]:
    """Rows without null, and without what the engine adds."""
    own = ("Op", "_cdc_position")
    return sorted(
        tuple(sorted((name, value) for name, value in row.items() if value is not None and name not in own))
        for row in rows
    )


@pytest.mark.sampled(test=1)
@pytest.mark.slow
@pytest.mark.parametrize("partition_key", ["null", "city", "n"])
def test_each_snapshot_shows_its_change(partition_key: str, request: pytest.FixtureRequest) -> None:
    counts = {"histories": 0, "changes": 0, "erasures": 0, "snapshots read by DuckDB and pyiceberg": 0}

    @_with_examples
    @examples(thorough=500, ci=2, test=1)
    @given(steps=STEPS)
    def check(steps: list[tuple[str, Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model = Model(Path(folder), partition_key)
            for kind, argument in steps:
                model.step(kind, argument)
                counts["snapshots read by DuckDB and pyiceberg"] += model.check()
            counts["histories"] += 1
            counts["changes"] += model.table.log.head()
            counts["erasures"] += model.erasures

    try:
        check()
    finally:
        request.node.user_properties.append((COUNTS, counts))


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("partition_key", ["null", "city", "n"])
def test_spark_agrees(partition_key: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    counts = {"histories": 0, "erasures": 0, "snapshots that Spark read": 0}
    spark = SparkReader(tmp_path)

    @_with_examples
    @examples(thorough=50, ci=50, test=50)
    @given(steps=STEPS)
    def check(steps: list[tuple[str, Any]]) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            model = Model(Path(folder), partition_key)
            for kind, argument in steps:
                model.step(kind, argument)
            counts["erasures"] += model.erasures
            counts["snapshots that Spark read"] += model.check_in_spark(spark)
            counts["histories"] += 1

    try:
        check()
    finally:
        spark.close()
        request.node.user_properties.append((COUNTS, counts))
    assert counts["snapshots that Spark read"] > counts["histories"] // 2
