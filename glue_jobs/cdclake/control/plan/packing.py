"""Puts tables with little work together, to be brought up to date by one run. Pure.

A Spark run costs its start-up, and a minute at least, whatever it does; a table with little work needs a few seconds of
it. So many such tables go into one run, and a table with much work goes alone, where it has the workers for itself and
holds nobody up. The order of the tables is kept, so that the same plan makes the same packs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError
from cdclake.model.names import Argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_PATH_BYTES = 64 * 1024
"""A third of what Glue takes as arguments, and half of what Linux takes as one word of a command line (128 KiB)."""
FULL_SIZE_TABLES_PER_PACK = 10
"""So many tables may be in a pack if each has as much work as a table in a pack may have."""


class PackLimits(NamedTuple):
    """What goes into one run.

    Attributes:
        tables: Most tables in a run; 1 turns packing off. At the few seconds that a table with little work takes, the
            last of 50 waits about as long as a Spark run needs to start a second time, or a few minutes.
        table_files: A table with more raw files due goes alone. Each is opened and listed by itself.
        table_bytes: A table with more bytes due goes alone. 16 MiB of Parquet are some hundred thousand rows, which may
            touch so many of a large table's files that other tables should not wait for it.
    """

    tables: int = 50
    table_files: int = 200
    table_bytes: int = 16 * 1024 * 1024

    @classmethod
    def defaults(cls) -> dict[str, str]:
        """The Controller's arguments that `from_arguments` reads, with their defaults."""
        limits = cls()
        return {
            Argument.PACK_TABLES: str(limits.tables),
            Argument.PACK_TABLE_FILES: str(limits.table_files),
            Argument.PACK_TABLE_BYTES: str(limits.table_bytes),
        }

    @classmethod
    def from_arguments(cls, given: Mapping[str, str]) -> PackLimits:
        """Read the Controller's arguments.

        Raises:
            ConfigurationError: One is no whole number, or 0; names it.
        """
        names = (Argument.PACK_TABLES, Argument.PACK_TABLE_FILES, Argument.PACK_TABLE_BYTES)
        for name in names:
            if not given[name].isdigit() or int(given[name]) == 0:
                message = f"The argument --{name} is '{given[name]}'"
                raise ConfigurationError(message, remedy="Pass a whole number, 1 or more")
        return cls(*(int(given[name]) for name in names))


class Work(NamedTuple):
    """What is due for a table.

    Attributes:
        path: Key of the table's item.
        files: Number of raw files to read.
        bytes: Their size.
        left: Number of raw files that wait for later rounds.
    """

    path: str
    files: int
    bytes: int
    left: int = 0


def packs(work: Iterable[Work], limits: PackLimits) -> list[list[str]]:
    """Divide tables into runs.

    Args:
        work: The tables, in the order in which they are to be worked on.
        limits: What goes into one run.

    Returns:
        Paths of the tables of each run. Tables that go alone stand where they stood among the first tables of packs.
    """
    made: list[list[str]] = []
    pack = _Pack()
    for table in work:
        if _is_large(table, limits):
            made.append([table.path])
            continue
        if not pack.takes(table, limits):
            pack = _Pack()
        if not pack.paths:
            made.append(pack.paths)
        pack.add(table)
    return made


def _is_large(table: Work, limits: PackLimits) -> bool:
    # A table with a backlog takes round after round, and would keep its pack's run from ending.
    return limits.tables == 1 or table.files > limits.table_files or table.bytes > limits.table_bytes or table.left > 0


class _Pack:
    """Tables of one run, as they come."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._files = self._bytes = self._path_bytes = 0

    def takes(self, table: Work, limits: PackLimits) -> bool:
        return (
            len(self.paths) < limits.tables
            and self._files + table.files <= limits.table_files * FULL_SIZE_TABLES_PER_PACK
            and self._bytes + table.bytes <= limits.table_bytes * FULL_SIZE_TABLES_PER_PACK
            and self._path_bytes + _path_bytes(table) <= MAX_PATH_BYTES
        )

    def add(self, table: Work) -> None:
        self.paths.append(table.path)
        self._files += table.files
        self._bytes += table.bytes
        self._path_bytes += _path_bytes(table)


def _path_bytes(table: Work) -> int:
    return len(table.path.encode()) + len('"", ')
