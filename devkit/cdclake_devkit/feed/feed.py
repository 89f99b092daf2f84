"""A feed: raw files in delivery order, and the lake table they must produce."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.model.schema import OP_COLUMN
from cdclake.model.table.attributes import Attribute
from cdclake_cli.dms.attributes import attributes_for
from cdclake_cli.dms.files import full_load_bytes
from cdclake_cli.dms.names import full_load_path, table_folder
from cdclake_cli.dms.settings import KILOBYTE, DataFormat, ParallelLoad
from cdclake_devkit.feed.change_files import ChangeFile, ChangeFileGenerator, microseconds
from cdclake_devkit.feed.change_rows import ChangeRowGenerator
from cdclake_devkit.feed.columns import columns_from, schema_versions
from cdclake_devkit.feed.expected import HistoryModel, LakeRowGenerator, expected_table
from cdclake_devkit.feed.faults import InjectedFault
from cdclake_devkit.feed.lake_model import LakeModel
from cdclake_devkit.feed.options import DeleteImage, Fault
from cdclake_devkit.feed.schedule import FeedFile, FileKind, schedule
from cdclake_devkit.feed.texts import TextPools
from cdclake_devkit.feed.values import RowGenerator, RowIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.model.table.state import Item
    from cdclake_devkit.feed.options import FeedOptions

_SAMPLE_ROWS = 1_000
_LOAD_PARTS = 3
"""Number of partitions or segments of a parallel load."""


class Feed:
    """A feed of one table. Expectations reflect the files taken so far."""

    def __init__(self, options: FeedOptions) -> None:
        self.options, settings = options, options.settings
        columns = columns_from(options.columns, options.primary_key)
        self._schemas = schema_versions(columns, options.primary_key, options.schema_changes)
        milliseconds = settings.parquet_timestamp_in_millisecond and settings.data_format is DataFormat.PARQUET
        self._generator = RowGenerator(options.seed, options.primary_key, _texts(options), milliseconds=milliseconds)
        rows = ChangeRowGenerator(options, self._generator)
        self._added = rows.added_columns(columns)
        self._check_names()
        self._row_bytes = self._measured_row_bytes()
        self._intervals = schedule(options, self._rows_per_file(settings.cdc_min_file_size))
        self._changes = ChangeFileGenerator(options, rows, self._schemas, np.random.default_rng([options.seed, 1]))
        self._gaps: list[InjectedFault] = []
        self._max_rows = options.rows + options.changes
        self._lake = LakeModel(self._max_rows, has_operations=settings.op_in_changes, soft_delete=options.soft_delete)
        self._history = HistoryModel() if options.history else None
        self._delivered: set[int] = set()

    def _check_names(self) -> None:
        """Raises `ConfigurationError` for a partition column that does not exist throughout, and duplicate names."""
        options = self.options
        permanent = set.intersection(*({column.name for column in columns} for columns in self._schemas))
        for name in options.partition_key:
            if name not in permanent:
                message = f"'{name}' is not a column that the feed has from beginning to end"
                raise ConfigurationError(message, remedy="Name a column of the feed", column=name)
        added = {name.lower() for name in (OP_COLUMN, options.settings.timestamp_column_name, *self._added)}
        for column in (column for columns in self._schemas for column in columns):
            if column.name.lower() in added:
                message = f"The feed has a column {column.name}, and a setting adds another one with that name"
                raise ConfigurationError(message, remedy="Rename one of them", column=column.name)

    @property
    def injected_faults(self) -> list[InjectedFault]:
        """The faults in the files taken so far."""
        return [*self._gaps, *self._changes.injected_faults]

    @property
    def attributes(self) -> Item:
        """The table attributes with which cdclake reads the feed."""
        options, permanent = self.options, []
        for column in self._schemas[0]:
            versions = [other for columns in self._schemas for other in columns if other.name == column.name]
            if len(versions) == len(self._schemas):
                permanent.append(versions[-1].field)
        item = attributes_for(
            options.settings, pa.schema(permanent), options.primary_key, options.partition_key, self._added
        )
        item[Attribute.FULL_LOAD_QUIET_MINUTES] = "0"
        if options.history:
            item[Attribute.HISTORY] = "true"
        if options.soft_delete:
            item[Attribute.DELETE_MODE] = "soft"
        if options.schema_changes:  # the expected tables have null where a file lacks a column
            item[Attribute.MISSING_COLUMNS] = "null"
        if Fault.BAD_ROWS in options.faults:
            item[Attribute.MAX_QUARANTINED_ROWS] = str(options.bad_rows)
        return item

    def expected_table(self) -> Iterator[pa.Table]:
        """The rows that the lake table must contain now, with `Op`; at least one batch."""
        return expected_table(self._lake, self._lake_row_generator())

    def expected_history(self) -> Iterator[pa.Table]:
        """The versions that the history must contain now; at least one batch.

        `valid_from` is null where it is the time at which the full load was applied.

        Raises:
            ConfigurationError: The feed has no history.
        """
        if self._history is None:
            raise ConfigurationError("The feed has no history", remedy="Generate it with a history")
        return self._history.expected(self._lake_row_generator(), self._max_rows)

    def _lake_row_generator(self) -> LakeRowGenerator:
        options = self.options
        return LakeRowGenerator(
            self._generator,
            self._schemas,
            self._delivered or {0},
            options.primary_key,
            options.partition_key,
            options.settings,
            full_deletes=options.delete_image is DeleteImage.FULL,
        )

    def files(self, rounds: int | None = None) -> Iterator[FeedFile]:
        """All files in delivery order, generated as they are taken.

        Args:
            rounds: Stop after this round; None for all rounds.
        """
        last = self.options.rounds if rounds is None else rounds
        yield from self._full_load()
        current, waiting = 1, list[ChangeFile]()
        for interval in self._intervals:
            if interval.round > last:
                return
            if interval.round != current:
                current, due = interval.round, waiting
                waiting = []
                yield from self._deliver(due, current)
            for file in self._changes.files_for(interval):
                if interval.kind is FileKind.LATE:
                    waiting.append(file)
                elif interval.kind is not FileKind.VANISHED or current < self.options.rounds:
                    yield from self._deliver([file], current)
                    waiting += _follow_ups(file)
        if current < last:
            yield from self._deliver(waiting, current + 1)

    def _deliver(self, files: Iterable[ChangeFile], round_number: int) -> Iterator[FeedFile]:
        for file, delivery in files:
            if delivery is not None:
                self._lake.apply(delivery)
                self._delivered.update(np.unique(delivery.schemas).tolist())
                if self._history and file.kind is not FileKind.AGAIN:
                    self._history.apply(delivery)
            yield file._replace(round=round_number)

    def _full_load(self) -> Iterator[FeedFile]:
        options, settings = self.options, self.options.settings
        folder = table_folder(settings, options.table)
        ends = self._load_ends()
        gap = len(ends) // 2 if Fault.VANISHED_LOAD in options.faults else 0
        parts = 1 if settings.parallel_load is ParallelLoad.NONE else _LOAD_PARTS
        for i, (first, end) in enumerate(zip([0, *ends], ends, strict=False), 1):
            key = folder + full_load_path(settings, 1 + (i - 1) // parts, 1 + (i - 1) % parts)
            if i == gap:
                self._gaps.append(InjectedFault(Fault.VANISHED_LOAD, key, 1, {}))
                continue
            elapsed = timedelta() if settings.use_task_start_time_for_full_load_timestamp else timedelta(seconds=i)
            written_utc = options.start_utc + elapsed
            self._delivered.add(0)
            self._lake.load(first, end, microseconds(written_utc))
            if self._history:
                self._history.load(first, end, microseconds(written_utc))
            content = partial(full_load_bytes, self._loaded(first, end), settings, written_utc, self._added)
            yield FeedFile(1, key, content, end - first, FileKind.FULL_LOAD)

    def _loaded(self, first: int, end: int) -> pa.Table:
        """Rows before the first change."""
        numbers = np.arange(first, end)
        return self._generator.rows(RowIds(numbers, np.zeros_like(numbers)), self._schemas[0])

    def _load_ends(self) -> Sequence[int]:
        """End of each full-load file's row numbers, exclusive. A small MaxFileSize increases the number of files."""
        options = self.options
        needed = -(-options.rows // self._rows_per_file(options.settings.max_file_size))
        files = min(max(options.load_file_count, needed), options.rows)
        return [options.rows * number // files for number in range(1, files + 1)]

    def _rows_per_file(self, kilobytes: int) -> int:
        """Number of rows in a file of this size, at least 1."""
        return max(1, int(kilobytes * KILOBYTE / self._row_bytes))

    def _measured_row_bytes(self) -> float:
        """Size of a row in a file, without the file's fixed overhead."""
        settings, start_utc = self.options.settings, self.options.start_utc
        count = max(1, min(self.options.rows + self.options.changes, _SAMPLE_ROWS))
        empty, full = (
            len(full_load_bytes(self._loaded(0, rows), settings, start_utc, self._added)) for rows in (0, count)
        )
        return max(1, full - empty) / count


def _follow_ups(change: ChangeFile) -> list[ChangeFile]:
    """What happens to a change file in the round after its own."""
    if change.file.kind is FileKind.REPEATED:
        return [change._replace(file=change.file._replace(kind=FileKind.AGAIN))]
    if change.file.kind is FileKind.VANISHED:
        return [ChangeFile(change.file._replace(content=None, rows=0, kind=FileKind.GONE), None)]
    return []


def _texts(options: FeedOptions) -> TextPools:
    """Texts that the CSV settings can represent unambiguously."""
    settings = options.settings
    if not settings.csv_changes:
        return TextPools()
    unsent = [settings.unsent_text] if settings.unsent_text is not None else []
    if settings.rfc4180:
        return TextPools(excluded=unsent)
    parts = {settings.csv_delimiter, settings.csv_row_delimiter, "\n", "\r"}
    return TextPools(excluded_parts=sorted(parts), excluded=[*unsent, settings.csv_null_value])
