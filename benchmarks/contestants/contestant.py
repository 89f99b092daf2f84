"""The interface of contestants, and the list of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from benchmarks.task import TableFiles, Task


class Contestant(Protocol):
    """A way to keep a table equal to its source."""

    def __init__(self, task: Task) -> None: ...

    def start(self) -> None:
        """Start up: the cost that a user pays once per job, for any number of tables."""

    def build(self) -> None:
        """Create the starting table from the full-load files, with the task's number of data files."""

    def load(self) -> dict[str, Any]:
        """Load the table from the full-load files, as a user would; returns details."""

    def apply(self) -> dict[str, Any]:
        """Apply the change files to the starting table; returns details."""

    def files(self) -> TableFiles:
        """The files of the table."""


class Entry(NamedTuple):
    """A contestant.

    Attributes:
        module: Module in this package, imported only in the contestant's own process.
        table_of: Contestant that builds the starting table.
        copies: Whether it only copies files, so that its table must not change.
    """

    module: str
    table_of: str
    copies: bool = False


ENTRIES = {
    "cdclake": Entry("cdclake_engine", "cdclake"),
    "walkthrough": Entry("walkthrough", "walkthrough"),
    "iceberg-cow": Entry("iceberg", "iceberg-cow"),
    "iceberg-mor": Entry("iceberg", "iceberg-cow"),
    "delta-rs": Entry("delta_rs", "delta-rs"),
    "duckdb": Entry("duckdb_rewrite", "limit"),
    "limit": Entry("limit", "limit", copies=True),
}


def contestant(task: Task) -> Contestant:
    """The task's contestant."""
    module = import_module(f"benchmarks.contestants.{ENTRIES[task.contestant].module}")
    engine: Contestant = module.Engine(task)
    return engine
