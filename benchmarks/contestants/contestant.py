"""What every contestant can do, and which there are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from benchmarks.task import TableFiles, Task


class Contestant(Protocol):
    """One way to keep a table equal to its source, made for one task."""

    def __init__(self, task: Task) -> None: ...

    def start(self) -> None:
        """Get ready: what a user pays once for each job, however many tables it works on."""

    def build(self) -> None:
        """Make the starting table from the full-load files, with as many data files as the task says."""

    def load(self) -> dict[str, Any]:
        """Load the table from the full-load files, as a user would; tells details for a person."""

    def apply(self) -> dict[str, Any]:
        """Apply the change files to the starting table; tells details for a person."""

    def files(self) -> TableFiles:
        """The table as it is now."""


class Entry(NamedTuple):
    """A contestant.

    Attributes:
        module: Module of this package, imported in the contestant's own process alone.
        begins_from: Contestant whose starting table it begins from.
        copies: Whether it only copies files, so that its table must come out as it was.
    """

    module: str
    begins_from: str
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
    """The one that the task is for."""
    module = import_module(f"benchmarks.contestants.{ENTRIES[task.contestant].module}")
    made: Contestant = module.Engine(task)
    return made
