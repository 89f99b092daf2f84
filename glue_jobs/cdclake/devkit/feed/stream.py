"""A feed: raw files in the order in which they come, and what a lake must hold after those that came."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.devkit.dms.attributes import attributes_for
from cdclake.devkit.dms.files import full_load_bytes
from cdclake.devkit.dms.names import full_load_path, table_folder
from cdclake.devkit.dms.settings import KILOBYTE, DataFormat, ParallelLoad
from cdclake.devkit.feed.change_files import ChangeFile, ChangeFiles, microseconds
from cdclake.devkit.feed.change_rows import ChangeRows
from cdclake.devkit.feed.columns import columns_from, schema_versions
from cdclake.devkit.feed.expected import HistoryLog, RowsOfLake, expected_table
from cdclake.devkit.feed.faults import Planted
from cdclake.devkit.feed.lake import Lake
from cdclake.devkit.feed.options import DeleteImage, Fault
from cdclake.devkit.feed.schedule import FeedFile, Kind, schedule
from cdclake.devkit.feed.texts import Texts
from cdclake.devkit.feed.values import RowIds, RowMaker
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.devkit.feed.options import FeedOptions
    from cdclake.model.table import Item

_SAMPLE_ROWS = 1_000


class Feed:
    """A feed of one table. What is expected is as of the files taken so far.

    Args:
        options: What is asked for.
    """

    def __init__(self, options: FeedOptions) -> None:
        self.options, settings = options, options.settings
        columns = columns_from(options.columns, options.primary_key)
        self._schemas = schema_versions(columns, options.primary_key, options.schema_changes)
        milliseconds = settings.parquet_timestamp_in_millisecond and settings.data_format is DataFormat.PARQUET
        self._maker = RowMaker(options.seed, options.primary_key, _texts(options), milliseconds=milliseconds)
        rows = ChangeRows(options, self._maker)
        self._added = rows.added_columns(columns)
        self._check_names()
        self._row_bytes = self._bytes_of_a_row()
        self._intervals = schedule(options, self._rows_of(settings.cdc_min_file_size))
        self._changes = ChangeFiles(options, rows, self._schemas, np.random.default_rng([options.seed, 1]))
        self._gaps: list[Planted] = []
        self._most = options.rows + options.changes
        self._lake = Lake(self._most, operations_told=settings.op_in_changes, soft_delete=options.soft_delete)
        self._log = HistoryLog() if options.history else None
        self._came: set[int] = set()

    def _check_names(self) -> None:
        """Raises `ConfigurationError` for a partition column that is none, and for two columns of one name."""
        options = self.options
        everywhere = set.intersection(*({one.name for one in columns} for columns in self._schemas))
        for name in options.partition_key:
            if name not in everywhere:
                message = f"'{name}' is not a column that the feed has from its beginning to its end"
                raise ConfigurationError(message, remedy="Name a column of the feed", column=name)
        added = {name.lower() for name in (OP_COLUMN, options.settings.timestamp_column_name, *self._added)}
        for column in (column for columns in self._schemas for column in columns):
            if column.name.lower() in added:
                message = f"The feed has a column {column.name}, and a setting adds one of that name"
                raise ConfigurationError(message, remedy="Give one of them another name", column=column.name)

    @property
    def planted(self) -> list[Planted]:
        """The faults in the files taken so far."""
        return [*self._gaps, *self._changes.planted]

    @property
    def attributes(self) -> Item:
        """What to set about the table so that cdclake reads the feed."""
        options, everywhere = self.options, []
        for column in self._schemas[0]:
            kept = [one for columns in self._schemas for one in columns if one.name == column.name]
            if len(kept) == len(self._schemas):
                everywhere.append(kept[-1].field)
        item = attributes_for(
            options.settings, pa.schema(everywhere), options.primary_key, options.partition_key, self._added
        )
        item[Attribute.FULL_LOAD_QUIET_MINUTES] = "0"
        if options.history:
            item[Attribute.HISTORY] = "true"
        if options.soft_delete:
            item[Attribute.DELETE_MODE] = "soft"
        if Fault.BAD_ROWS in options.faults:
            item[Attribute.MAX_QUARANTINED_ROWS] = str(options.bad_rows)
        return item

    def expected_table(self) -> Iterator[pa.Table]:
        """The rows that the lake table must hold now, with `Op`; one table at least."""
        return expected_table(self._lake, self._rows_of_lake())

    def expected_history(self) -> Iterator[pa.Table]:
        """The versions that the history must hold now; one table at least.

        `valid_from` is null where it is the time at which the full load came.

        Raises:
            ConfigurationError: No history was asked for.
        """
        if self._log is None:
            raise ConfigurationError("The feed has no history", remedy="Ask for one when it is made")
        return self._log.expected(self._rows_of_lake(), self._most)

    def _rows_of_lake(self) -> RowsOfLake:
        options = self.options
        return RowsOfLake(
            self._maker,
            self._schemas,
            self._came or {0},
            options.primary_key,
            options.partition_key,
            options.settings,
            delete_tells_all=options.delete_image is DeleteImage.FULL,
        )

    def files(self, rounds: int | None = None) -> Iterator[FeedFile]:
        """All files in the order in which they come, made as they are taken.

        Args:
            rounds: End after so many; None: with the last.
        """
        last = self.options.rounds if rounds is None else rounds
        yield from self._full_load()
        now, waiting = 1, list[ChangeFile]()
        for interval in self._intervals:
            if interval.round > last:
                return
            if interval.round != now:
                now, come = interval.round, waiting
                waiting = []
                yield from self._come(come, now)
            for made in self._changes.of_interval(interval):
                if interval.kind is Kind.LATE:
                    waiting.append(made)
                elif interval.kind is not Kind.VANISHED or now < self.options.rounds:
                    yield from self._come([made], now)
                    waiting += _what_follows(made)
        if now < last:
            yield from self._come(waiting, now + 1)

    def _come(self, files: Iterable[ChangeFile], now: int) -> Iterator[FeedFile]:
        for file, delivery in files:
            if delivery is not None:
                self._lake.apply(delivery)
                self._came.update(np.unique(delivery.schemas).tolist())
                if self._log and file.kind is not Kind.AGAIN:
                    self._log.apply(delivery)
            yield file._replace(round=now)

    def _full_load(self) -> Iterator[FeedFile]:
        options, settings = self.options, self.options.settings
        folder = table_folder(settings, options.table)
        ends = self._load_ends()
        gap = len(ends) // 2 if Fault.VANISHED_LOAD in options.faults else 0
        parts = 1 if settings.parallel_load is ParallelLoad.NONE else options.load_parts
        for i, (first, end) in enumerate(zip([0, *ends], ends, strict=False), 1):
            key = folder + full_load_path(settings, 1 + (i - 1) // parts, 1 + (i - 1) % parts)
            if i == gap:
                self._gaps.append(Planted(Fault.VANISHED_LOAD, key, 1, {}))
                continue
            moved_on = timedelta() if settings.use_task_start_time_for_full_load_timestamp else timedelta(seconds=i)
            written_utc = options.start_utc + moved_on
            self._came.add(0)
            self._lake.load(first, end, microseconds(written_utc))
            if self._log:
                self._log.load(first, end, microseconds(written_utc))
            content = partial(full_load_bytes, self._loaded(first, end), settings, written_utc, self._added)
            yield FeedFile(1, key, content, end - first, Kind.FULL_LOAD)

    def _loaded(self, first: int, end: int) -> pa.Table:
        """Rows as they are before the first change."""
        numbers = np.arange(first, end)
        return self._maker.rows(RowIds(numbers, np.zeros_like(numbers)), self._schemas[0])

    def _load_ends(self) -> Sequence[int]:
        """Numbers after the last row of each full-load file: as many as asked for, or more if MaxFileSize is small."""
        options = self.options
        needed = -(-options.rows // self._rows_of(options.settings.max_file_size))
        files = min(max(options.load_file_count, needed), options.rows)
        return [options.rows * number // files for number in range(1, files + 1)]

    def _rows_of(self, kilobytes: int) -> int:
        """How many rows a file of some size has, one at least."""
        return max(1, int(kilobytes * KILOBYTE / self._row_bytes))

    def _bytes_of_a_row(self) -> float:
        """Size of a row in a file, without what a file has once."""
        settings, start_utc = self.options.settings, self.options.start_utc
        count = max(1, min(self.options.rows + self.options.changes, _SAMPLE_ROWS))
        empty, full = (
            len(full_load_bytes(self._loaded(0, rows), settings, start_utc, self._added)) for rows in (0, count)
        )
        return max(1, full - empty) / count


def _what_follows(made: ChangeFile) -> list[ChangeFile]:
    """What comes of a change file in the round after its own."""
    if made.file.kind is Kind.REPEATED:
        return [made._replace(file=made.file._replace(kind=Kind.AGAIN))]
    if made.file.kind is Kind.VANISHED:
        return [ChangeFile(made.file._replace(content=None, rows=0, kind=Kind.GONE), None)]
    return []


def _texts(options: FeedOptions) -> Texts:
    """Texts without those that the CSV asked for could not tell from others."""
    settings = options.settings
    if not settings.csv_changes:
        return Texts()
    unsent = [settings.unsent_text] if settings.unsent_text is not None else []
    if settings.rfc4180:
        return Texts(unfit=unsent)
    parts = {settings.csv_delimiter, settings.csv_row_delimiter, "\n", "\r"}
    return Texts(unfit_parts=sorted(parts), unfit=[*unsent, settings.csv_null_value])
