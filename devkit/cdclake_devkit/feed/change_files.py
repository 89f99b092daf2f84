"""Generates the change files of a feed, interval by interval, with the rows that each delivers to the lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Callable, NamedTuple

import numpy as np
import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import file_order, read_time
from cdclake.model.table.name import TableName
from cdclake_cli.dms.files import ChangeRows, TableChangeRows, change_bytes, sent_rows, transaction_bytes
from cdclake_cli.dms.names import change_path, table_folder, transactions_key
from cdclake_devkit.feed.change_rows import ChangeRowGenerator, Commits, commits, sequence_time_us
from cdclake_devkit.feed.faults import InjectedFault, truncated, with_bad_rows
from cdclake_devkit.feed.lake_model import DeliveredRows
from cdclake_devkit.feed.options import Fault
from cdclake_devkit.feed.schedule import FeedFile, FileKind
from cdclake_devkit.feed.source import NO_ROW, OPERATIONS, DrawnRows, FeedSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake_devkit.feed.columns import Columns
    from cdclake_devkit.feed.options import FeedOptions
    from cdclake_devkit.feed.schedule import Interval

    I64 = NDArray[np.int64]

_WRITE_DELAY = timedelta(milliseconds=137)
"""Time from the last commit in a change file to the file's write time."""
_RESUME_DELAY = timedelta(milliseconds=863)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ChangeFile(NamedTuple):
    """A change file, and the rows that it delivers to the lake; None if the lake cannot read it."""

    file: FeedFile
    delivery: DeliveredRows | None


@dataclass(frozen=True)
class _Batch:
    """Change rows of an interval, with their order."""

    drawn: DrawnRows
    committed: Commits
    order: I64
    written_utc: datetime


class ChangeFileGenerator:
    """Generates change files.

    Args:
        schemas: The source's columns before and after each schema change.

    Attributes:
        injected_faults: The faults in the files generated so far.
    """

    def __init__(
        self, options: FeedOptions, rows: ChangeRowGenerator, schemas: Sequence[Columns], rng: np.random.Generator
    ) -> None:
        self._options, self._settings = options, options.settings
        self._rows, self._schemas, self._rng = rows, schemas, rng
        self._source = FeedSource(options, rng)
        self._next_row, self._last_name = 0, ""
        self._names: set[str] = set()
        self.injected_faults: list[InjectedFault] = []

    def files_for(self, interval: Interval) -> Iterator[ChangeFile]:
        """The change file of an interval, and the file that repeats its rows if its kind is `RESUMED`.

        Like DMS, yields no file if there are no rows to send.

        Raises:
            ConfigurationError: File names would not give the order, or a file of a special kind would have no rows.
        """
        batch = self._batch(interval)
        file = self._file(batch, interval)
        if file is None and interval.kind is not FileKind.CHANGE:
            message = f"The change file for '{interval.kind.value}' would have no rows"
            raise ConfigurationError(message, remedy="Ask for more changes, or for fewer change files")
        if file is None:
            return
        yield file
        if interval.kind is FileKind.RESUMED:
            resent = self._file(self._resent(batch), interval)
            assert resent is not None
            yield resent

    def _batch(self, interval: Interval) -> _Batch:
        drawn = self._source.change(interval.rows)
        span = (microseconds(interval.begins_utc), microseconds(interval.ends_utc))
        committed = commits(self._number(interval.rows), *span, self._options.transaction_rows, self._rng)
        return _Batch(drawn, committed, 2 * committed.sequences, interval.ends_utc + _WRITE_DELAY)

    def _resent(self, batch: _Batch) -> _Batch:
        """The same rows in a file with a later name, as DMS sends them if it resumes without knowing what arrived."""
        # The rows keep their change sequences. So with sequences only the file's name differs, and no version follows.
        by_name = self._options.in_order_by_name
        order = 2 * self._number(len(batch.order)) if by_name else batch.order + 1
        return _Batch(batch.drawn, batch.committed, order, batch.written_utc + _RESUME_DELAY)

    def _number(self, count: int) -> I64:
        """Numbers for the feed's next rows."""
        self._next_row += count
        return np.arange(self._next_row - count, self._next_row)

    def _file(self, batch: _Batch, interval: Interval) -> ChangeFile | None:
        options, kind = self._options, interval.kind
        columns = self._schemas[interval.schema]
        changes = sent_rows(self._rows.changes(batch.drawn, batch.committed, columns), self._settings)
        if not len(changes.operations):
            return None
        bad: dict[int, str] = {}
        if kind is FileKind.BAD_ROWS:
            has_operations, key = self._settings.op_in_changes, options.primary_key[-1]
            changes, bad = with_bad_rows(changes, options.bad_rows, key, self._rng, has_operations=has_operations)
        key, content, row_numbers = self._encoded(changes, batch.written_utc)
        if kind is FileKind.TRUNCATED:
            content = partial(_truncated, content)
        if kind.value in {fault.value for fault in Fault}:
            rows = {int(row_numbers[row]): wrong for row, wrong in bad.items()}
            self.injected_faults.append(InjectedFault(Fault(kind.value), key, interval.round, rows))
        file = FeedFile(interval.round, key, content, len(row_numbers), kind)
        return ChangeFile(file, None if kind is FileKind.TRUNCATED else self._delivery(batch, interval.schema))

    def _delivery(self, batch: _Batch, schema: int) -> DeliveredRows:
        """The rows that the file generated last delivers to the lake."""
        drawn, committed = batch.drawn, batch.committed
        if self._options.in_order_by_name:
            times = np.full(len(batch.order), _name_time_us(self._last_name))
        else:
            times = sequence_time_us(committed.stamps_us)
        old = drawn.old_numbers if self._options.before_key else np.full_like(drawn.old_numbers, NO_ROW)
        schemas = np.full(len(batch.order), schema)
        rows = DeliveredRows(
            batch.order, drawn.numbers, drawn.versions, drawn.operations, old, committed.stamps_us, times, schemas
        )
        return rows.take(np.isin(drawn.operations, [OPERATIONS.index(name) for name in self._settings.operations]))

    def _encoded(self, changes: ChangeRows, written_utc: datetime) -> tuple[str, Callable[[], bytes], I64]:
        """Key and content of a change file, and the index of each row in it."""
        table, settings = self._options.table, self._settings
        count = len(changes.operations)
        if settings.preserve_transactions:
            key = transactions_key(settings, written_utc)
            relative = key.rpartition("/")[2]
            other = _other_table(table, changes)
            order = self._rng.permutation(np.repeat([0, 1], [count, len(other.changes.operations)]))
            content = partial(transaction_bytes, [TableChangeRows(table, changes), other], order, settings)
            row_numbers = np.flatnonzero(order == 0)
        else:
            relative = change_path(settings, written_utc)
            key, content = table_folder(settings, table) + relative, partial(change_bytes, changes, settings)
            row_numbers = np.arange(count)
        self._check_name(relative)
        return key, content, row_numbers

    def _check_name(self, relative: str) -> None:
        name = file_order(relative)
        if relative in self._names:
            message = f"Two change files would have the name {relative}"
            remedy = "Change the start time, ask for fewer files, or set a longer CdcMaxBatchInterval"
            raise ConfigurationError(message, remedy=remedy)
        self._names.add(relative)
        if self._options.in_order_by_name and name <= self._last_name:
            message = f"The name of the change file {relative} would sort before the name of an earlier file"
            remedy = "Change the start time, or add AR_H_CHANGE_SEQ to HeaderColumns"
            raise ConfigurationError(message, remedy=remedy)
        self._last_name = name


def microseconds(when: datetime) -> int:
    """Microseconds since 1970."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def _truncated(content: Callable[[], bytes]) -> bytes:
    return truncated(content())


def _name_time_us(order: str) -> int:
    """The time in the name of a change file."""
    when = read_time(order)
    assert when is not None
    return microseconds(when.replace(tzinfo=timezone.utc))


def _other_table(name: TableName, changes: ChangeRows) -> TableChangeRows:
    """Change rows of another table in the same transactions."""
    times = changes.committed_utc[::2]
    count = len(times)
    rows = pa.table({"entry": np.arange(count), "what": pa.repeat("a row of another table, with a comma", count)})
    audit = TableName(name.schema, f"{name.table}_audit")
    return TableChangeRows(audit, ChangeRows(pa.repeat("I", count), times, rows))
