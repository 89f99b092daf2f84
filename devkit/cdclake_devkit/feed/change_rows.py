"""Generates the rows of a change file: source columns, commit times, DMS headers, before images."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.position import SEQUENCE_DIGITS
from cdclake_cli.dms.files import ChangeRows
from cdclake_cli.dms.settings import CHANGE_SEQUENCE, BeforeImages
from cdclake_devkit.feed.options import DeleteImage
from cdclake_devkit.feed.source import DELETE, NO_ROW, OPERATIONS, UPDATE
from cdclake_devkit.feed.values import RowIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdclake_devkit.feed.columns import FeedColumn
    from cdclake_devkit.feed.options import FeedOptions
    from cdclake_devkit.feed.source import DrawnRows
    from cdclake_devkit.feed.values import RowGenerator

    I64 = NDArray[np.int64]

_HUNDREDTH_US = 10_000
_TIME_DIGITS = 16
_LOB_TYPES = ("binary",)
_WORDS = ("INSERT", "UPDATE", "DELETE")


class Commits(NamedTuple):
    """The transactions that change rows belong to.

    Attributes:
        sequences: Number of each row in the whole feed.
        stamps_us: Commit time of each row's transaction, in microseconds since 1970, never decreasing.
        transactions: Number of each row's transaction.
    """

    sequences: I64
    stamps_us: I64
    transactions: I64


def commits(sequences: I64, start_us: int, end_us: int, transaction_rows: int, rng: np.random.Generator) -> Commits:
    """Group rows into transactions of random length, with commit times between `start_us` and `end_us`.

    Args:
        sequences: Numbers of the rows.
        start_us: Exclusive, in microseconds since 1970.
        end_us: Exclusive, in microseconds since 1970.
        transaction_rows: Rows per transaction, on average.
    """
    begins = rng.random(len(sequences)) < 1 / transaction_rows
    begins[:1] = True
    transactions = np.cumsum(begins) - 1
    times = np.sort(rng.integers(start_us + 1, end_us, int(begins.sum())))
    return Commits(sequences, times[transactions], sequences[:1] + transactions)


def sequence_time_us(stamps_us: I64) -> I64:
    """Commit times as change sequences contain them: in hundredths of a second."""
    return stamps_us // _HUNDREDTH_US * _HUNDREDTH_US


class ChangeRowGenerator:
    """Generates change rows.

    Args:
        generator: Generates the source's rows.
    """

    def __init__(self, options: FeedOptions, generator: RowGenerator) -> None:
        self._options, self._generator = options, generator
        self._settings = options.settings

    def added_columns(self, columns: Sequence[FeedColumn]) -> list[str]:
        """Names of the columns that mapping rules add, in order."""
        return [*self._settings.header_columns, *(f"BI_{column.name}" for column in self._before_columns(columns))]

    def changes(self, drawn: DrawnRows, committed: Commits, columns: Sequence[FeedColumn]) -> ChangeRows:
        """The rows of a change file with these source columns."""
        operations = pa.DictionaryArray.from_arrays(pa.array(drawn.operations), pa.array(OPERATIONS))
        rows = self._generator.rows(RowIds(drawn.numbers, drawn.versions), columns)
        unsent = self._unsent(drawn, columns)
        is_delete = pa.array(drawn.operations == DELETE)
        for i, column in enumerate(columns):
            omitted = unsent.get(column.name)
            if self._options.delete_image is DeleteImage.KEY and column.name not in self._options.primary_key:
                omitted = is_delete if omitted is None else pc.or_(omitted, is_delete)
            if omitted is not None:
                rows = rows.set_column(i, column.field, pc.if_else(omitted, None, rows.column(i)))
        return ChangeRows(
            operations.cast(pa.string()),
            pa.array(committed.stamps_us).cast(pa.timestamp("us", tz="UTC")),
            rows,
            self._before(drawn, columns),
            self._headers(drawn, committed),
            unsent,
        )

    def _unsent(self, drawn: DrawnRows, columns: Sequence[FeedColumn]) -> dict[str, pa.Array]:
        """Masks of static columns: updates that keep the key omit them, if the CSV settings can express that."""
        if not (self._settings.csv_changes and self._settings.unsent_text is not None):
            return {}
        mask = pa.array((drawn.operations == UPDATE) & (drawn.old_numbers == NO_ROW))
        return {column.name: mask for column in columns if column.static}

    def _before_columns(self, columns: Sequence[FeedColumn]) -> list[FeedColumn]:
        images = self._settings.before_images
        if images is BeforeImages.NONE:
            return []
        if images is BeforeImages.PRIMARY_KEY:
            return [column for column in columns if column.name in self._options.primary_key]
        return [column for column in columns if images is BeforeImages.ALL or column.type not in _LOB_TYPES]

    def _before(self, drawn: DrawnRows, columns: Sequence[FeedColumn]) -> pa.Table | None:
        before_columns = self._before_columns(columns)
        if not before_columns:
            return None
        numbers = np.where(drawn.old_numbers != NO_ROW, drawn.old_numbers, drawn.numbers)
        before = self._generator.rows(RowIds(numbers, drawn.old_versions), before_columns)
        absent = pa.array(drawn.operations != UPDATE)
        arrays = [pc.if_else(absent, pa.scalar(None, values.type), values) for values in before.columns]
        return pa.table(arrays, schema=before.schema)

    def _headers(self, drawn: DrawnRows, committed: Commits) -> pa.Table | None:
        headers = {name: self._header(name, drawn, committed) for name in self._settings.header_columns}
        return pa.table(headers) if headers else None

    def _header(self, name: str, drawn: DrawnRows, committed: Commits) -> pa.Array:
        """Values of a DMS header; see "Replacing column values" in the guide's chapter on transformation rules."""
        if name == CHANGE_SEQUENCE:
            counter = pa.array(committed.sequences).cast(pa.string())
            digits = pc.utf8_lpad(counter, SEQUENCE_DIGITS - _TIME_DIGITS, "0")
            return pc.binary_join_element_wise(_time_digits(committed.stamps_us), digits, "")
        if name == "AR_H_STREAM_POSITION":
            position = pc.utf8_lpad(pa.array(committed.sequences).cast(pa.string()), 12, "0")
            return pc.binary_join_element_wise("mysql-bin-changelog.000042", position, ":")
        if name == "AR_H_TRANSACTION_ID":
            return pa.array([f"{number:032X}" for number in committed.transactions.tolist()], pa.string())
        if name in {"AR_H_TIMESTAMP", "AR_H_COMMIT_TIMESTAMP"}:
            return pa.array(committed.stamps_us).cast(pa.timestamp("us")).cast(pa.string())
        assert name == "AR_H_OPERATION", name
        return pa.DictionaryArray.from_arrays(pa.array(drawn.operations), pa.array(_WORDS)).cast(pa.string())


def _time_digits(stamps_us: I64) -> pa.Array:
    """Times as `YYYYMMDDHHmmSShh`; the last two digits are hundredths of a second."""
    distinct, indices = np.unique(stamps_us // _HUNDREDTH_US, return_inverse=True)
    seconds = pc.strftime(pa.array(distinct // 100).cast(pa.timestamp("s")), "%Y%m%d%H%M%S")
    hundredths = pc.utf8_lpad(pa.array(distinct % 100).cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(seconds, hundredths, "").take(pa.array(indices))
