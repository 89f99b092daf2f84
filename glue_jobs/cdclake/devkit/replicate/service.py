"""A local stand-in for a DMS task: full load, then ongoing replication, of one database into the raw bucket."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from cdclake.devkit.dms.names import ChangeFileTimes, table_folder
from cdclake.devkit.dms.settings import KILOBYTE
from cdclake.devkit.replicate.binlog import Ignored, follow
from cdclake.devkit.replicate.changes import Transaction
from cdclake.devkit.replicate.connection import check_source, connect, reserve, server_name
from cdclake.devkit.replicate.cut import Batch, cut
from cdclake.devkit.replicate.position import Progress, ProgressFile
from cdclake.devkit.replicate.raw_files import change_file, check_columns, check_settings, full_load_files
from cdclake.devkit.replicate.snapshot import end_of_binlog, snapshot
from cdclake.errors import ConfigurationError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.devkit.dms.settings import DmsSettings
    from cdclake.devkit.replicate.connection import Account
    from cdclake.devkit.replicate.position import BinlogPosition
    from cdclake.devkit.replicate.snapshot import Snapshot
    from cdclake.devkit.replicate.source_tables import SourceTable
    from cdclake.model.table import TableName
    from cdclake.ports import Clock, ObjectStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """What is replicated, and how.

    Attributes:
        schema: Name of the database.
        only: Names of its tables to replicate; empty for all.
        settings: When files are written, and what they look like. `bucket_folder` is the raw prefix.
        name: Each name has its own progress; that of the database if empty.
    """

    schema: str
    only: tuple[str, ...]
    settings: DmsSettings
    name: str = ""


class Replication:
    """The stand-in at work.

    Args:
        task: What to do.
        account: The source.
        raw: The raw bucket.
        clock: Names the files.
    """

    def __init__(self, task: Task, account: Account, raw: ObjectStore, clock: Clock) -> None:
        check_settings(task.settings)
        self._task = task
        self._account = account
        self._raw = raw
        self._clock = clock
        folder = task.settings.bucket_folder.strip("/")
        self._progress = ProgressFile(raw, f"{folder}/" if folder else "", task.name or task.schema)

    def run(self, should_stop: Callable[[], bool], *, anew: bool = False, until_now: bool = False) -> Progress:
        """Go on from where the last run came to; make the full load if there was none.

        Args:
            should_stop: Asked at least every second, in a full load between some rows. ChangeRows that were read are
                written before the end; a full load that is stopped is begun anew by the next run.
            anew: Forget the last run, remove what is in the tables' raw folders, and load them anew.
            until_now: Stop at what is the end of the binlog now.

        Returns:
            How far it came.

        Raises:
            ConfigurationError: The source or its settings are not as they must be.
            IntegrityError: The binlog does not say what happened since the last run, or is another server's.
            RetryableError: The source went away, and the next run goes on; or another process is at it.
        """
        with closing(connect(self._account)) as connection:
            check_source(connection)
            reserve(connection, self._progress.key)
            end = end_of_binlog(connection) if until_now else None
            return self._run(server_name(connection), should_stop, end, anew=anew)

    def _run(self, server: str, should_stop: Callable[[], bool], end: BinlogPosition | None, *, anew: bool) -> Progress:
        progress = None if anew else self._progress.read()
        if progress is not None and progress.server != server:
            message = f"The saved position is of another server, {progress.server}"
            raise IntegrityError(message, remedy="Name another replication, or load anew", file=self._progress.key)
        if progress is None or progress.binlog is None:
            progress = self._full_load(server, should_stop, clear=anew or progress is not None)
        if progress.binlog is None:
            logger.warning("Stopped in the full load, which the next run begins anew")
            return progress
        if end is not None and not progress.binlog.is_before(end):
            return progress
        return self._follow(progress, progress.binlog, should_stop, end)

    def _full_load(self, server: str, should_stop: Callable[[], bool], *, clear: bool) -> Progress:
        """Write the `LOAD` files of all tables, as they are at one moment.

        Args:
            server: The source's name for the progress.
            should_stop: Asked between pieces of a table.
            clear: Whether what is in the tables' folders may go.

        Returns:
            How far it came; without a place in the binlog if it was stopped.
        """
        task = self._task
        with snapshot(self._account, task.schema, task.only) as source:
            for table in source.tables:
                check_columns(table.name, table.columns, table.key, task.settings)
            old = [key for table in source.tables for key in self._keys_of(table.name)]
            if old and not clear:
                message = f"The raw folders of {task.schema} hold files that this replication did not write"
                raise ConfigurationError(message, remedy="Name another place, or load anew", file=old[0])
            # From here on, what is in the folders is known to be ours.
            begun = Progress(None, server=server)
            self._progress.write(begun)
            self._raw.delete(old)
            if not all(self._load(source, table, should_stop) for table in source.tables):
                return begun
            progress = Progress(source.position, server=server)
            self._progress.write(progress)
        return progress

    def _load(self, source: Snapshot, table: SourceTable, should_stop: Callable[[], bool]) -> bool:
        """Write the `LOAD` files of a table; False if it was stopped before the end."""
        with closing(source.rows(table)) as rows:
            pieces = takewhile(lambda _: not should_stop(), rows)
            for file in full_load_files(table, pieces, self._task.settings, self._clock):
                if should_stop():
                    return False
                self._raw.put(file.key, file.data)
                logger.info("Full load of %s: %s", table.name, file.key)
        return not should_stop()

    def _keys_of(self, table: TableName) -> list[str]:
        return [found.key for found in self._raw.list(table_folder(self._task.settings, table))]

    def _follow(
        self, progress: Progress, start: BinlogPosition, should_stop: Callable[[], bool], end: BinlogPosition | None
    ) -> Progress:
        """Write change files from the place that the progress tells, until told to stop or at the end."""
        settings = self._task.settings
        times = ChangeFileTimes(self._clock, after=progress.last_file_utc)
        batch = Batch(settings, progress)
        with closing(follow(self._account, self._task.schema, self._task.only, start)) as found_in_binlog:
            for found in found_in_binlog:
                if isinstance(found, Transaction):
                    batch.add(found, self._clock())
                else:
                    batch.pass_over(found.end)
                if isinstance(found, Ignored):
                    logger.warning("The source did '%s ...', which no change file tells of: load anew", found.statement)
                is_last = should_stop() or (end is not None and not found.end.is_before(end))
                if is_last or batch.is_due(self._clock()):
                    batch = Batch(settings, self._write(batch, times))
                if is_last:
                    break
        return batch.progress

    def _write(self, batch: Batch, times: ChangeFileTimes) -> Progress:
        """Put the files of a batch, and then remember that they are there."""
        settings, progress = self._task.settings, batch.progress
        for table, rows in cut(batch.rows, settings.cdc_min_file_size * KILOBYTE):
            written_utc = times.next()
            file = change_file(rows, settings, written_utc)
            self._raw.put(file.key, file.data)
            progress = replace(progress, last_file_utc=written_utc)
            logger.info("%d changes of %s: %s", len(rows), table, file.key)
        self._progress.write(progress)
        return progress
