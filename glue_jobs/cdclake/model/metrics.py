"""What cdclake measures of its work, under which names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NAMESPACE = "cdclake"


class Unit(Enum):
    """Units, as CloudWatch writes them."""

    COUNT = "Count"
    SECONDS = "Seconds"


class Measure(Enum):
    """What is measured. The value is the name and the unit."""

    LAG_SECONDS = ("LagSeconds", Unit.SECONDS)
    """How long the oldest raw file that is due has been waiting when a run looks."""
    LAG_FILES = ("LagFiles", Unit.COUNT)
    """How many raw files are due when a run looks."""
    ROWS = ("Rows", Unit.COUNT)
    """Rows of raw files that a change read, by operation."""
    FILES_REWRITTEN = ("FilesRewritten", Unit.COUNT)
    """Data files that a change took out of sight, replaced by others or not."""
    QUARANTINED_ROWS = ("QuarantinedRows", Unit.COUNT)
    """Rows that a change put aside."""
    FAILURES = ("Failures", Unit.COUNT)
    """1 for work on a table that failed, 0 for work that ended well."""
    DURATION_SECONDS = ("DurationSeconds", Unit.SECONDS)
    """How long the work on a table took, from the look at its raw files to its end."""
    TABLES = ("Tables", Unit.COUNT)
    """Active tables that a Controller run looked at."""
    FROZEN_TABLES = ("FrozenTables", Unit.COUNT)
    """How many of those are frozen: change files vanished before they were applied."""
    NOT_STARTED = ("NotStarted", Unit.COUNT)
    """Tables for whose run there was no room; they come next time."""

    @property
    def title(self) -> str:
        """Name of the metric."""
        return self.value[0]

    @property
    def unit(self) -> Unit:
        """Its unit."""
        return self.value[1]


class Dimension:
    """What a metric may be told apart by."""

    TABLE = "Table"
    """`schema.table`."""
    OP = "Op"
    """Operation of a raw row: `I`, `U` or `D`."""


@dataclass(frozen=True)
class Metric:
    """One measurement.

    Attributes:
        measure: Of what.
        value: How much.
        table: `schema.table`; empty if it is of none, or of too little interest to be kept for the table.
        op: Operation; empty if it is of none.
    """

    measure: Measure
    value: float
    table: str = ""
    op: str = ""

    def dimensions(self, *, with_table: bool) -> dict[str, str]:
        """What it is told apart by, with or without the table."""
        named = {Dimension.TABLE: self.table if with_table else "", Dimension.OP: self.op}
        return {name: value for name, value in named.items() if value}
