"""Makes the change files of a feed, one interval after the other, and tells what each means to the lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Callable, NamedTuple

import numpy as np
import pyarrow as pa

from cdclake.devkit.dms.files import Changes, TableChanges, change_bytes, sent_changes, transaction_bytes
from cdclake.devkit.dms.names import change_path, table_folder, transactions_key
from cdclake.devkit.feed.change_rows import ChangeRows, Commits, commits, sequence_time_us
from cdclake.devkit.feed.faults import Planted, truncated, with_bad_rows
from cdclake.devkit.feed.lake import Delivery
from cdclake.devkit.feed.options import Fault
from cdclake.devkit.feed.schedule import FeedFile, Kind
from cdclake.devkit.feed.source import NO_ROW, OPERATIONS, Drawn, Source
from cdclake.errors import ConfigurationError
from cdclake.model.rawfiles import file_order, read_time
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake.devkit.feed.columns import Column
    from cdclake.devkit.feed.options import FeedOptions
    from cdclake.devkit.feed.schedule import Interval

    I64 = NDArray[np.int64]

_WRITTEN_AFTER = timedelta(milliseconds=137)
"""How long after its last commit a change file is written."""
_RESUMED_AFTER = timedelta(milliseconds=863)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ChangeFile(NamedTuple):
    """A change file, and what it tells the lake; None if that can take nothing of it."""

    file: FeedFile
    delivery: Delivery | None


@dataclass(frozen=True)
class _Batch:
    """Change rows of an interval, with what orders them."""

    drawn: Drawn
    committed: Commits
    order: I64
    written_utc: datetime


class ChangeFiles:
    """Makes change files.

    Args:
        options: Of the feed.
        rows: Makes change rows.
        schemas: The source's columns before and after each schema change.
        dice: What everything is drawn with.

    Attributes:
        planted: The faults made so far.
    """

    def __init__(
        self, options: FeedOptions, rows: ChangeRows, schemas: Sequence[tuple[Column, ...]], dice: np.random.Generator
    ) -> None:
        self._options, self._settings = options, options.settings
        self._rows, self._schemas, self._dice = rows, schemas, dice
        self._source = Source(options, dice)
        self._next_row, self._last_name = 0, ""
        self._names: set[str] = set()
        self.planted: list[Planted] = []

    def of_interval(self, interval: Interval) -> Iterator[ChangeFile]:
        """The change file of an interval, and the one in which its rows come again if they do.

        DMS writes no file if nothing is to be sent.

        Raises:
            ConfigurationError: Names would not tell the order, or there is no row where something was to be special.
        """
        batch = self._batch(interval)
        made = self._file(batch, interval)
        if made is None and interval.kind is not Kind.CHANGE:
            message = f"No row is sent in the change file that should be special: {interval.kind.value}"
            raise ConfigurationError(message, remedy="Ask for more changes, or for fewer change files")
        if made is None:
            return
        yield made
        if interval.kind is Kind.RESUMED:
            again = self._file(self._sent_again(batch), interval)
            assert again is not None
            yield again

    def _batch(self, interval: Interval) -> _Batch:
        drawn = self._source.change(interval.rows)
        span = (microseconds(interval.begins_utc), microseconds(interval.ends_utc))
        committed = commits(self._number(interval.rows), *span, self._options.transaction_rows, self._dice)
        return _Batch(drawn, committed, 2 * committed.sequences, interval.ends_utc + _WRITTEN_AFTER)

    def _sent_again(self, batch: _Batch) -> _Batch:
        """DMS sends what it cannot know to have arrived once more, in a file of a later name."""
        # With sequences, the rows have those they had, and only the file's name tells them apart.
        by_name = self._options.in_order_by_name
        order = 2 * self._number(len(batch.order)) if by_name else batch.order + 1
        return _Batch(batch.drawn, batch.committed, order, batch.written_utc + _RESUMED_AFTER)

    def _number(self, count: int) -> I64:
        """Numbers of the next rows of the feed."""
        self._next_row += count
        return np.arange(self._next_row - count, self._next_row)

    def _file(self, batch: _Batch, interval: Interval) -> ChangeFile | None:
        options, kind = self._options, interval.kind
        columns = self._schemas[interval.schema]
        changes = sent_changes(self._rows.changes(batch.drawn, batch.committed, columns), self._settings)
        if not len(changes.operations):
            return None
        bad: dict[int, str] = {}
        if kind is Kind.BAD_ROWS:
            told, key = self._settings.op_in_changes, options.primary_key[-1]
            changes, bad = with_bad_rows(changes, options.bad_rows, key, self._dice, operations_told=told)
        key, content, places = self._placed(changes, batch.written_utc)
        if kind is Kind.TRUNCATED:
            content = partial(_truncated, content)
        if kind.value in {fault.value for fault in Fault}:
            rows = {int(places[row]): wrong for row, wrong in bad.items()}
            self.planted.append(Planted(Fault(kind.value), key, interval.round, rows))
        file = FeedFile(interval.round, key, content, len(places), kind)
        return ChangeFile(file, None if kind is Kind.TRUNCATED else self._delivery(batch, interval.schema))

    def _delivery(self, batch: _Batch, schema: int) -> Delivery:
        """What the file made last tells the lake."""
        drawn, committed = batch.drawn, batch.committed
        if self._options.in_order_by_name:
            times = np.full(len(batch.order), _name_time_us(self._last_name))
        else:
            times = sequence_time_us(committed.stamps_us)
        old = drawn.old_numbers if self._options.before_key else np.full_like(drawn.old_numbers, NO_ROW)
        schemas = np.full(len(batch.order), schema)
        of_all = Delivery(
            batch.order, drawn.numbers, drawn.versions, drawn.operations, old, committed.stamps_us, times, schemas
        )
        return of_all.take(np.isin(drawn.operations, [OPERATIONS.index(one) for one in self._settings.operations]))

    def _placed(self, changes: Changes, written_utc: datetime) -> tuple[str, Callable[[], bytes], I64]:
        """Key and content of a change file, and the place of each of the rows in it."""
        table, settings = self._options.table, self._settings
        count = len(changes.operations)
        if settings.preserve_transactions:
            key = transactions_key(settings, written_utc)
            relative = key.rpartition("/")[2]
            other = _other_table(table, changes)
            order = self._dice.permutation(np.repeat([0, 1], [count, len(other.changes.operations)]))
            content = partial(transaction_bytes, [TableChanges(table, changes), other], order, settings)
            places = np.flatnonzero(order == 0)
        else:
            relative = change_path(settings, written_utc)
            key, content = table_folder(settings, table) + relative, partial(change_bytes, changes, settings)
            places = np.arange(count)
        self._check_name(relative)
        return key, content, places

    def _check_name(self, relative: str) -> None:
        name = file_order(relative)
        if relative in self._names:
            message = f"Two change files would be named {relative}"
            remedy = "Let the feed start at another time, or have fewer files or a longer CdcMaxBatchInterval"
            raise ConfigurationError(message, remedy=remedy)
        self._names.add(relative)
        if self._options.in_order_by_name and name <= self._last_name:
            message = f"The change file {relative} would be named before the one it comes after"
            remedy = "Let the feed start at another time, or add AR_H_CHANGE_SEQ to HeaderColumns"
            raise ConfigurationError(message, remedy=remedy)
        self._last_name = name


def microseconds(when: datetime) -> int:
    """Since 1970."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def _truncated(content: Callable[[], bytes]) -> bytes:
    return truncated(content())


def _name_time_us(order: str) -> int:
    """The time that the name of a change file tells."""
    when = read_time(order)
    assert when is not None
    return microseconds(when.replace(tzinfo=timezone.utc))


def _other_table(name: TableName, changes: Changes) -> TableChanges:
    """Rows of another table that was changed in the same transactions."""
    times = changes.committed_utc[::2]
    count = len(times)
    rows = pa.table({"entry": np.arange(count), "what": pa.repeat("a row of another table, with a comma", count)})
    return TableChanges(TableName(name.schema, f"{name.table}_audit"), Changes(pa.repeat("I", count), times, rows))
