"""Names and units of the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


def namespace(name_prefix: str) -> str:
    """Namespace of the metrics of a deployment, given the prefix of its names."""
    return f"{name_prefix}cdclake"


class Unit(Enum):
    """Units, as CloudWatch writes them."""

    COUNT = "Count"
    SECONDS = "Seconds"


class Measure(Enum):
    """The metrics. The value is the name and the unit."""

    LAG_SECONDS = ("LagSeconds", Unit.SECONDS)
    """How long the oldest due raw file has been waiting when a run lists the raw files."""
    LAG_FILES = ("LagFiles", Unit.COUNT)
    """Number of due raw files when a run lists the raw files."""
    ROWS = ("Rows", Unit.COUNT)
    """Rows of raw files that a change read, by operation."""
    FILES_REWRITTEN = ("FilesRewritten", Unit.COUNT)
    """Data files that a change retired, whether or not others replaced them."""
    QUARANTINED_ROWS = ("QuarantinedRows", Unit.COUNT)
    """Rows that a change quarantined."""
    COLUMN_CHANGES = ("ColumnChanges", Unit.COUNT)
    """Columns that changed at the source, as the raw files of a change show it."""
    DELAY_SECONDS = ("DelaySeconds", Unit.SECONDS)
    """How long the oldest change file that was new to a table waited until its rows were visible."""
    FAILURES = ("Failures", Unit.COUNT)
    """1 for failed work on a table, or a raw file that waits longer than `MaxDelayMinutes`; 0 for successful work."""
    DURATION_SECONDS = ("DurationSeconds", Unit.SECONDS)
    """Duration of the work on a table, from the listing of its raw files to the end."""
    TABLES = ("Tables", Unit.COUNT)
    """Active tables that a Controller run planned."""
    FROZEN_TABLES = ("FrozenTables", Unit.COUNT)
    """Number of those that are frozen: change files vanished before they were applied."""
    NOT_STARTED = ("NotStarted", Unit.COUNT)
    """Tables for which Glue had no room to start a run; the next Controller run starts it."""
    DIFFERING_ROWS = ("DifferingRows", Unit.COUNT)
    """Rows of a table that `cdclake verify` found to differ from its source."""
    DIFFERING_TABLES = ("DifferingTables", Unit.COUNT)
    """1 for a table that `cdclake verify` found to differ; 0 for one that is equal."""

    @property
    def title(self) -> str:
        """Name of the metric."""
        return self.value[0]

    @property
    def unit(self) -> Unit:
        """Its unit."""
        return self.value[1]


class Dimension:
    """Dimensions of metrics."""

    TABLE = "Table"
    """`schema.table`."""
    OP = "Op"
    """Operation of a raw row: `I`, `U` or `D`."""


@dataclass(frozen=True)
class Metric:
    """One measurement.

    Attributes:
        measure: The metric.
        value: Its value.
        table: `schema.table`; empty if the value belongs to no table, or counts only in the total.
        op: Operation; empty if the value belongs to none.
    """

    measure: Measure
    value: float
    table: str = ""
    op: str = ""

    def dimensions(self, *, with_table: bool) -> dict[str, str]:
        """Its dimensions, with or without the table."""
        values = {Dimension.TABLE: self.table if with_table else "", Dimension.OP: self.op}
        return {name: value for name, value in values.items() if value}
