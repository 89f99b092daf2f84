"""What is measured: tables, what changes in them, and who takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.change import drawn_change

if TYPE_CHECKING:
    from benchmarks.change import Change

DEFAULT_ROWS = 8_000_000
DATA_FILES = 32
NEWEST = 8
"""The newest eighth of the rows."""
GROWTH = (1, 2, 4, 8)

OURS = "cdclake"
CONTESTANTS = (OURS, "walkthrough", "iceberg-cow", "iceberg-mor", "delta-rs", "duckdb", "limit")


@dataclass(frozen=True)
class Table:
    """A table to begin from.

    Attributes:
        rows: Rows numbered from 0.
        files: Data files of equal numbers of rows, in the order of the rows' numbers. Of a partitioned table each
            partition has its share of them.
        uuid_keys: Whether keys are UUIDs; else the numbers.
        partitioned: Whether it is partitioned by region.
    """

    rows: int
    files: int
    uuid_keys: bool = False
    partitioned: bool = False


@dataclass(frozen=True)
class Workload:
    """One thing to do to one table.

    Attributes:
        name: What the results call it.
        table: Where it begins.
        change: What changes; None: the table is loaded from its full-load files, from nothing.
        contestants: Who can take part.
    """

    name: str
    table: Table
    change: Change | None
    contestants: tuple[str, ...] = CONTESTANTS


def workloads(table_rows: int) -> list[Workload]:
    """The workloads on tables of so many rows.

    Counts are shares of the table, so that a small run is a small picture of the full one: of 8 million rows, 10,000
    each are updated, deleted and inserted.
    """
    changed = table_rows // 800
    newest = table_rows - table_rows // NEWEST
    orders = Table(table_rows, DATA_FILES)
    by_uuid = Table(table_rows, DATA_FILES, uuid_keys=True)
    by_region = Table(table_rows, DATA_FILES, partitioned=True)
    # Merge-on-read loads as copy-on-write does. DuckDB, by hand, has no rows that change their partition.
    loading = tuple(name for name in CONTESTANTS if name != "iceberg-mor")
    moving = tuple(name for name in loading if name != "duckdb")
    return [
        Workload("spread", orders, drawn_change(0, table_rows, changed, 1)),
        Workload("newest", orders, drawn_change(newest, table_rows, changed, 2)),
        # Its keys do not tell that it changes the newest rows, of a few files: that is what is hard about UUIDs.
        Workload("uuid", by_uuid, drawn_change(newest, table_rows, changed, 3)),
        Workload("partition-moves", by_region, drawn_change(0, table_rows, changed, 4), moving),
        Workload("large", orders, drawn_change(0, table_rows, table_rows // 15, 5)),
        Workload("initial", orders, None, loading),
        Workload("many-files", orders, drawn_change(newest, table_rows, changed, 6, files=200), loading),
    ]


def growth_of_table(table_rows: int) -> dict[int, Workload]:
    """By factor: a change that stays the same, in the newest files of tables up to `table_rows` rows."""
    smallest = table_rows // GROWTH[-1]
    found = {}
    for factor in GROWTH:
        table = Table(smallest * factor, DATA_FILES // GROWTH[-1] * factor)
        change = drawn_change(table.rows - smallest, table.rows, table_rows // 800, 7)
        found[factor] = Workload(f"table-x{factor}", table, change, (OURS,))
    return found


def growth_of_change(table_rows: int) -> dict[int, Workload]:
    """By factor: changes of the newest eighth of one table that grow."""
    table = Table(table_rows, DATA_FILES)
    newest = table_rows - table_rows // NEWEST
    return {
        factor: Workload(
            f"change-x{factor}", table, drawn_change(newest, table_rows, table_rows // 800 * factor, 8), (OURS,)
        )
        for factor in GROWTH
    }
