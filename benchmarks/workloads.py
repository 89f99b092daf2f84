"""The workloads: tables, their changes, and the contestants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.change import random_change

if TYPE_CHECKING:
    from benchmarks.change import Change

DEFAULT_ROWS = 8_000_000
DATA_FILES = 32
NEWEST_DIVISOR = 8
"""The newest rows are the last eighth."""
GROWTH = (1, 2, 4, 8)

OURS = "cdclake"
CONTESTANTS = (OURS, "walkthrough", "iceberg-cow", "iceberg-mor", "delta-rs", "duckdb", "limit")


@dataclass(frozen=True)
class Table:
    """A starting table.

    Attributes:
        rows: Number of rows; they are numbered from 0.
        files: Number of data files, with equal numbers of rows in row order. In a partitioned table they are divided
            among the partitions.
        uuid_keys: Whether keys are UUIDs; otherwise they are the row numbers.
        partitioned: Whether it is partitioned by region.
    """

    rows: int
    files: int
    uuid_keys: bool = False
    partitioned: bool = False


@dataclass(frozen=True)
class Workload:
    """A change to a table, or its initial load.

    Attributes:
        name: Name in the results.
        table: The starting table.
        change: The change; None: an initial load from the full-load files.
        contestants: Contestants that support the workload.
    """

    name: str
    table: Table
    change: Change | None
    contestants: tuple[str, ...] = CONTESTANTS


def workloads(table_rows: int) -> list[Workload]:
    """The workloads on tables of a size.

    Changes are proportional to the table: of 8 million rows, 10,000 each are updated, deleted and inserted.
    """
    changed = table_rows // 800
    newest = table_rows - table_rows // NEWEST_DIVISOR
    orders = Table(table_rows, DATA_FILES)
    by_uuid = Table(table_rows, DATA_FILES, uuid_keys=True)
    by_region = Table(table_rows, DATA_FILES, partitioned=True)
    # Merge-on-read loads like copy-on-write. The DuckDB script does not support moves between partitions.
    loading = tuple(name for name in CONTESTANTS if name != "iceberg-mor")
    moving = tuple(name for name in loading if name != "duckdb")
    return [
        Workload("spread", orders, random_change(0, table_rows, changed, 1)),
        Workload("newest", orders, random_change(newest, table_rows, changed, 2)),
        # The changed rows are in few files, but random keys do not show in which.
        Workload("uuid", by_uuid, random_change(newest, table_rows, changed, 3)),
        Workload("partition-moves", by_region, random_change(0, table_rows, changed, 4), moving),
        Workload("large", orders, random_change(0, table_rows, table_rows // 15, 5)),
        Workload("initial", orders, None, loading),
        Workload("many-files", orders, random_change(newest, table_rows, changed, 6, files=200), loading),
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
