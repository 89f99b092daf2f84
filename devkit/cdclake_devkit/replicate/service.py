"""The stand-in for a DMS task: full load, then ongoing replication, of one database to the raw bucket."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError, IntegrityError
from cdclake_cli.dms.names import ChangeFileTimes, table_folder
from cdclake_cli.dms.settings import KILOBYTE
from cdclake_devkit.replicate.batch import Batch, split_by_file
from cdclake_devkit.replicate.progress import ProgressFile, ReplicationProgress
from cdclake_devkit.replicate.raw_files import (
    change_file,
    check_columns,
    check_settings,
    full_load_files,
    transaction_file,
    untold_keys,
)
from cdclake_devkit.replicate.transactions import Idle, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cdclake.model.table.name import TableName
    from cdclake.ports import Clock, ObjectStore
    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.sources.positions import Position
    from cdclake_cli.sources.source import SourceSnapshot
    from cdclake_cli.sources.tables import SourceTable
    from cdclake_devkit.replicate.source import LoggedSource, SourceSession
    from cdclake_devkit.replicate.transactions import ChangeRow

    ShouldStop = Callable[[], bool]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplicationTask:
    """What to replicate, and how.

    Attributes:
        only: Names of tables to replicate; empty for all.
        settings: Settings of the DMS task. `bucket_folder` is the raw prefix.
        name: Name of the replication, which has its own progress; empty for the name of the database.
    """

    only: tuple[str, ...]
    settings: DmsSettings
    name: str = ""


class Replication:
    """Replicates a database.

    Args:
        task: What to replicate, and how.
        clock: Returns the times of files.
    """

    def __init__(self, task: ReplicationTask, source: LoggedSource, raw: ObjectStore, clock: Clock) -> None:
        check_settings(task.settings)
        self._task = task
        self._source = source
        self._raw = raw
        self._clock = clock
        folder = task.settings.bucket_folder.strip("/")
        self._without_old_keys: set[TableName] = set()
        self._progress = ProgressFile(raw, f"{folder}/" if folder else "", task.name or source.database)

    def run(self, should_stop: ShouldStop, *, reload: bool = False, until_now: bool = False) -> ReplicationProgress:
        """Continue from the end of the last run, or begin with the full load.

        Args:
            should_stop: Called at least every second, and between batches of a full load. Changes that were read are
                written before the run ends. The next run restarts a full load that was stopped.
            reload: Discard the saved progress, delete the tables' raw files, and repeat the full load.
            until_now: Stop at the current end of the source's log.

        Returns:
            The progress at the end.

        Raises:
            ConfigurationError: The source or its settings are unsuitable.
            IntegrityError: The source's log lacks changes since the last run, or belongs to another server.
            RetryableError: The connection was lost, or another process runs this replication.
        """
        with self._source.session(self._progress.key) as session:
            end = session.end() if until_now else None
            return self._run(session, should_stop, end, reload=reload)

    def _run(
        self, session: SourceSession, should_stop: ShouldStop, end: Position | None, *, reload: bool
    ) -> ReplicationProgress:
        saved = self._read_progress(reload=reload)
        progress = None if reload else saved
        if progress is not None and progress.server != session.server:
            message = f"The saved position belongs to another server, {progress.server}"
            remedy = "Use another --name, or repeat the full load with --anew"
            raise IntegrityError(message, remedy=remedy, file=self._progress.key)
        if progress is None or progress.position is None:
            if saved is not None and saved.server == session.server:
                session.drop_slot(saved.slot)
            progress = self._full_load(session, should_stop, clear=saved is not None or reload)
        if progress.position is None:
            logger.warning("Stopped during the full load; the next run restarts it")
            return progress
        if end is not None and not progress.position.is_before(end):
            return progress
        return self._follow(session, progress, progress.position, should_stop, end)

    def _read_progress(self, *, reload: bool) -> ReplicationProgress | None:
        """The saved progress; None if there is none, or if it cannot be read but is discarded anyway."""
        try:
            return self._progress.read()
        except IntegrityError:
            if reload:
                return None
            raise

    def _full_load(self, session: SourceSession, should_stop: ShouldStop, *, clear: bool) -> ReplicationProgress:
        """Write the `LOAD` files of all tables, from one snapshot.

        Args:
            should_stop: Called between batches of rows.
            clear: Whether to delete files in the tables' folders.

        Returns:
            The progress at the end; without a position if it was stopped.
        """
        progress = ReplicationProgress(None, server=session.server, slot=session.new_slot())
        try:
            with session.begin(self._task.only, progress.slot) as source:
                old = self._old_files(source.tables, clear=clear)
                # Saved first, so that the next run knows that the files in the folders are its own.
                self._progress.write(progress)
                self._raw.delete(old)
                if all(self._load(source, table, should_stop) for table in source.tables):
                    progress = replace(progress, position=source.position)
                    self._progress.write(progress)
        finally:
            if progress.position is None:
                session.drop_slot(progress.slot)
        return progress

    def _old_files(self, tables: Sequence[SourceTable], *, clear: bool) -> list[str]:
        """Keys of the files in the folders of tables that can be loaded.

        Raises:
            ConfigurationError: A table's columns are unsuitable, or there are files without `clear`.
        """
        for table in tables:
            check_columns(table.name, table.columns, table.key, self._task.settings)
        old = [key for table in tables for key in self._keys_of(table.name)]
        if old and not clear:
            message = f"The raw folders of {self._source.database} contain files that this replication did not write"
            raise ConfigurationError(message, remedy="Use another destination, or delete them with --anew", file=old[0])
        return old

    def _load(self, source: SourceSnapshot, table: SourceTable, should_stop: ShouldStop) -> bool:
        """Write the `LOAD` files of a table; returns False if it was stopped before the end."""
        with closing(source.rows(table)) as rows:
            batches = takewhile(lambda _: not should_stop(), rows)
            for file in full_load_files(table, batches, self._task.settings, self._clock):
                if should_stop():
                    return False
                self._raw.put(file.key, file.data)
                logger.info("Full load of %s: %s", table.name, file.key)
        return not should_stop()

    def _keys_of(self, table: TableName) -> list[str]:
        return [stored.key for stored in self._raw.list(table_folder(self._task.settings, table))]

    def _follow(
        self,
        session: SourceSession,
        progress: ReplicationProgress,
        start: Position,
        should_stop: ShouldStop,
        end: Position | None,
    ) -> ReplicationProgress:
        """Write change files from the saved position on, until `should_stop` or `end`."""
        settings = self._task.settings
        times = ChangeFileTimes(self._clock, after=progress.last_file_utc)
        batch = Batch(settings, progress)
        with closing(session.follow(self._task.only, start, progress.slot)) as items:
            for item in items:
                if isinstance(item, Transaction):
                    batch.add(item, self._clock())
                    for statement in item.ignored:
                        logger.warning("Change files cannot express '%s ...': load again with --anew", statement)
                else:
                    batch.skip_to(item.end, self._clock())
                is_lost = isinstance(item, Idle) and item.is_lost
                is_last = should_stop() or (end is not None and not item.end.is_before(end))
                if is_last or is_lost or batch.is_due(self._clock()):
                    batch = Batch(settings, self._write(batch, times))
                    if not is_lost:
                        session.confirm(item.end)
                if is_last:
                    break
        return batch.progress

    def _write(self, batch: Batch, times: ChangeFileTimes) -> ReplicationProgress:
        """Write the files of a batch, then save the progress."""
        settings, progress = self._task.settings, batch.progress
        self._warn_of_untold_keys(row.row for row in batch.rows)
        if settings.preserve_transactions:
            files = [(transaction_file, batch.rows)] if batch.rows else []
        else:
            by_table = split_by_file(batch.rows, settings.cdc_min_file_size * KILOBYTE)
            files = [(change_file, rows) for _, rows in by_table]
        for file_of, rows in files:
            written_utc = times.next()
            file = file_of(rows, settings, written_utc)
            self._raw.put(file.key, file.data)
            progress = replace(progress, last_file_utc=written_utc)
            logger.info("%d changes: %s", len(rows), file.key)
        self._progress.write(progress)
        return progress

    def _warn_of_untold_keys(self, rows: Iterable[ChangeRow]) -> None:
        """Log each table, once, whose updates do not tell the key before them."""
        for row in rows:
            if row.table not in self._without_old_keys and (reason := untold_keys(row, self._task.settings)):
                self._without_old_keys.add(row.table)
                effect = "Where one changes the key, the old row stays in the lake"
                logger.warning("Updates of %s do not tell the key before: %s. %s", row.table, reason, effect)
