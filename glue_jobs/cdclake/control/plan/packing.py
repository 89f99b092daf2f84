"""Packs tables with little work into one run. Pure.

A Spark run costs its start-up, and at least a minute, whatever it does. A table with little work needs a few seconds of
it. So one run takes many such tables, and a table with much work gets a run of its own, where it has all workers and
delays no other table. So does a table at which a run died. The order of the tables is kept, so the same plan makes the
same packs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError
from cdclake.model.names import Argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_PATH_BYTES = 64 * 1024
"""A third of what Glue accepts as arguments, and half of what Linux accepts as one argument (128 KiB)."""
FULL_SIZE_TABLES_PER_PACK = 10
"""Limits the total work of a pack: to this many tables with as much work as a packed table may have."""
_ARGUMENTS = (Argument.PACK_TABLES, Argument.PACK_TABLE_FILES, Argument.PACK_TABLE_BYTES)
"""In the order of the fields of `PackLimits`."""


class PackLimits(NamedTuple):
    """Limits of one run.

    Attributes:
        tables: Maximum number of tables in a run; 1 turns packing off. A table with little work takes a few seconds, so
            the last of 50 waits a few minutes, about as long as a second Spark run takes to start.
        table_files: A table with more due raw files gets a run of its own. Each file is opened by itself.
        table_bytes: A table with more due bytes gets a run of its own. 16 MiB of Parquet hold some hundred thousand
            rows, which can touch many files of a large table and so delay other tables.
    """

    tables: int = 50
    table_files: int = 200
    table_bytes: int = 16 * 1024 * 1024

    @classmethod
    def defaults(cls) -> dict[str, str]:
        """The Controller's arguments that `from_arguments` reads, with their defaults."""
        return dict(zip(_ARGUMENTS, map(str, cls())))

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, str]) -> PackLimits:
        """Read the Controller's arguments.

        Raises:
            ConfigurationError: A value is not a whole number, or is 0; names the argument.
        """
        for name in _ARGUMENTS:
            if not arguments[name].isdigit() or int(arguments[name]) == 0:
                message = f"The argument --{name} is '{arguments[name]}'"
                raise ConfigurationError(message, remedy="Pass a whole number, 1 or more")
        return cls(*(int(arguments[name]) for name in _ARGUMENTS))


class DueWork(NamedTuple):
    """The work that is due for a table.

    Attributes:
        path: Key of the table's item.
        files: Number of raw files to read.
        bytes: Their size.
        left: Number of raw files that are left for later rounds.
        alone: Whether a run died at the table, so that the next one could die, too.
    """

    path: str
    files: int
    bytes: int
    left: int = 0
    alone: bool = False


def pack_tables(tables: Iterable[DueWork], limits: PackLimits) -> list[list[str]]:
    """Divide tables into runs.

    Args:
        tables: Their due work, in the order to run them.

    Returns:
        Paths of the tables of each run. Runs are in the order of their first tables.
    """
    packs: list[list[str]] = []
    pack = _Pack()
    for table in tables:
        if table.alone or _is_large(table, limits):
            packs.append([table.path])
            continue
        if not pack.has_room_for(table, limits):
            pack = _Pack()
        if not pack.paths:
            packs.append(pack.paths)
        pack.add(table)
    return packs


def _is_large(table: DueWork, limits: PackLimits) -> bool:
    # A table with a backlog takes round after round, and would prolong the run of its pack.
    return limits.tables == 1 or table.files > limits.table_files or table.bytes > limits.table_bytes or table.left > 0


class _Pack:
    """Tables of one run, while they are collected."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._files = self._bytes = self._path_bytes = 0

    def has_room_for(self, table: DueWork, limits: PackLimits) -> bool:
        return (
            len(self.paths) < limits.tables
            and self._files + table.files <= limits.table_files * FULL_SIZE_TABLES_PER_PACK
            and self._bytes + table.bytes <= limits.table_bytes * FULL_SIZE_TABLES_PER_PACK
            and self._path_bytes + _path_bytes(table) <= MAX_PATH_BYTES
        )

    def add(self, table: DueWork) -> None:
        self.paths.append(table.path)
        self._files += table.files
        self._bytes += table.bytes
        self._path_bytes += _path_bytes(table)


def _path_bytes(table: DueWork) -> int:
    return len(table.path.encode()) + len('"", ')
