"""The workloads: tables, their changes, and the contestants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.change import PAST_DIVISOR, change_of_stores, random_change
from benchmarks.rows import ORDERS, REGION, STORE, Source

if TYPE_CHECKING:
    from benchmarks.change import Change

DEFAULT_ROWS = 8_000_000
DATA_FILES = 32
NEWEST_DIVISOR = 8
"""The newest rows are the last eighth."""
CHANGED_STORES_DIVISOR = 40
"""A change of stores changes so many fewer than there are."""
PAST_CHANGES = 2_000
GROWTH = (1, 2, 4, 8)

OURS = "cdclake"
LOCAL = (OURS, "delta-rs", "duckdb", "limit")
"""Ours, and the contestants without Spark."""
MEASURED_ONCE = ("walkthrough", "iceberg-cow", "iceberg-mor")
"""They take minutes a round, and differ from the others by factors that no second round would change."""
CONTESTANTS = (OURS, *MEASURED_ONCE, "delta-rs", "duckdb", "limit")


@dataclass(frozen=True)
class Table:
    """A starting table.

    Attributes:
        rows: Number of rows; they are numbered from 0.
        files: Number of full-load files, and of data files. Both have equal numbers of rows, in the order of the full
            load. In a partitioned table they are divided among the partitions, with at least one for each.
        source: Its columns.
        partition: The partition column; empty: none.
        shuffled: Whether the full load is in no order; otherwise it is in that of the key, or of the row numbers if
            keys are UUIDs.
        row_group_rows: Rows of a row group of the full load's files; 0: pyarrow's default, a million.
        past: Number of small changes that inserted the last eighth of its rows, and updated each two older ones.
        aged: Whether the table has been through these changes; otherwise it is loaded as it is after them.
        history: Whether it has a history.
        on_s3: Whether it is on S3; otherwise it is in a folder.
        readers: Its setting `Readers`.
    """

    rows: int
    files: int
    source: Source = ORDERS
    partition: str = ""
    shuffled: bool = False
    row_group_rows: int = 0
    past: int = 0
    aged: bool = False
    history: bool = False
    on_s3: bool = False
    readers: str = "folder"

    @property
    def loaded_rows(self) -> int:
        """Number of rows in the full load."""
        return self.rows - self.rows // PAST_DIVISOR if self.aged else self.rows

    @property
    def partition_values(self) -> tuple[str, ...]:
        """All values of the partition column."""
        return self.source.partition_values(self.partition) if self.partition else ()

    @property
    def data_files(self) -> int:
        """Number of data files after the full load."""
        return max(self.files * self.loaded_rows // self.rows, len(self.partition_values))


@dataclass(frozen=True)
class Workload:
    """A change to a table, or its initial load.

    Attributes:
        name: Name in the results.
        table: The starting table.
        change: The change; None: an initial load from the full-load files.
        contestants: Contestants that support the workload.
        beside: Name of an earlier workload with which it is compared, so that both are measured in the same rounds.
    """

    name: str
    table: Table
    change: Change | None
    contestants: tuple[str, ...] = CONTESTANTS
    beside: str = ""


def workloads(table_rows: int) -> list[Workload]:
    """The workloads on tables of a size.

    Changes are proportional to the table: of 8 million rows, 10,000 each are updated, deleted and inserted.
    """
    changed = table_rows // 800
    newest = table_rows - table_rows // NEWEST_DIVISOR
    orders = Table(table_rows, DATA_FILES)
    by_uuid = Table(table_rows, DATA_FILES, Source(uuid_keys=True))
    by_region = Table(table_rows, DATA_FILES, partition=REGION)
    by_tenant = Table(table_rows, DATA_FILES, Source(tenants=5))
    # At the default size 4,000 stores, of which 100 change.
    stores = max(table_rows // 2_000, CHANGED_STORES_DIVISOR)
    by_store = Table(table_rows, DATA_FILES, Source(stores=stores), STORE, shuffled=True)
    changed_stores = stores // CHANGED_STORES_DIVISOR
    in_stores = change_of_stores(by_store.source, changed_stores, table_rows, table_rows // 2_400, 9)
    fresh = Table(table_rows, DATA_FILES, past=PAST_CHANGES)
    newest_again = random_change(newest, table_rows, changed, 10, version=2)
    # A quarter of the rows, because each has 30 columns; a file has a million.
    wide = Table(table_rows // 4, 2, Source(extra_columns=18))
    # Merge-on-read loads like copy-on-write. The DuckDB script does not support partitions.
    loading = tuple(name for name in CONTESTANTS if name != "iceberg-mor")
    moving = tuple(name for name in loading if name != "duckdb")
    by_partition = tuple(name for name in LOCAL if name != "duckdb")
    spread = random_change(0, table_rows, changed, 1)
    in_newest = random_change(newest, table_rows, changed, 2)
    return [
        Workload("spread", orders, spread),
        Workload("spread-iceberg", replace(orders, readers="iceberg"), spread, (OURS,), beside="spread"),
        Workload("spread-both", replace(orders, readers="both"), spread, (OURS,), beside="spread"),
        Workload("newest", orders, in_newest),
        # The changed rows are in few files, but random keys do not show in which.
        Workload("uuid", by_uuid, random_change(newest, table_rows, changed, 3)),
        Workload("partition-moves", by_region, random_change(0, table_rows, changed, 4), moving),
        Workload("large", orders, random_change(0, table_rows, table_rows // 15, 5)),
        Workload("initial", orders, None, loading),
        Workload("many-files", orders, random_change(newest, table_rows, changed, 6, files=200), loading),
        Workload("tenant", by_tenant, in_newest, LOCAL, beside="newest"),
        Workload("partitions-load", by_store, None, by_partition),
        Workload("partitions", by_store, in_stores, by_partition),
        Workload("aged", replace(fresh, aged=True), newest_again, (OURS,)),
        Workload("aged-fresh", fresh, newest_again, (OURS,), beside="aged"),
        Workload("history", replace(orders, history=True), spread, (OURS,), beside="spread"),
        Workload("row-groups", replace(wide, row_group_rows=10_000), None, (OURS,)),
        Workload("row-groups-1m", wide, None, (OURS,), beside="row-groups"),
        Workload("s3-newest", replace(orders, on_s3=True), in_newest, (OURS,), beside="newest"),
        Workload("s3-spread", replace(orders, on_s3=True), spread, (OURS,)),
    ]


def growth_of_table(table_rows: int) -> dict[int, Workload]:
    """By factor: a constant change to the newest files of growing tables, up to `table_rows` rows."""
    smallest = table_rows // GROWTH[-1]
    by_factor = {}
    for factor in GROWTH:
        table = Table(smallest * factor, DATA_FILES // GROWTH[-1] * factor)
        change = random_change(table.rows - smallest, table.rows, table_rows // 800, 7)
        by_factor[factor] = Workload(f"table-x{factor}", table, change, (OURS,))
    return by_factor


def growth_of_change(table_rows: int) -> dict[int, Workload]:
    """By factor: growing changes to the newest rows of a table."""
    table = Table(table_rows, DATA_FILES)
    newest = table_rows - table_rows // NEWEST_DIVISOR
    return {
        factor: Workload(
            f"change-x{factor}", table, random_change(newest, table_rows, table_rows // 800 * factor, 8), (OURS,)
        )
        for factor in GROWTH
    }
