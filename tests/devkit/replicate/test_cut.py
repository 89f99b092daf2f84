"""When change files are written, and what is in them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from cdclake.devkit.dms.settings import DmsSettings
from cdclake.devkit.replicate.changes import RowChange, Transaction
from cdclake.devkit.replicate.cut import Batch, StampedRow, change_sequence, cut
from cdclake.devkit.replicate.mysql_types import SourceColumn
from cdclake.devkit.replicate.position import BinlogPosition, Progress
from cdclake.model.table import TableName

NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)
ID, NAME = SourceColumn("id", "int"), SourceColumn("name", "varchar")
SETTINGS = DmsSettings(cdc_max_batch_interval=60, cdc_min_file_size=1)


def row(number: int, table: str = "a", columns: tuple[SourceColumn, ...] = (ID,), size_bytes: int = 10) -> RowChange:
    values = {column.name: number for column in columns}
    return RowChange(TableName("shop", table), columns, ("id",), "I", values, None, size_bytes)


def transaction(*rows: RowChange, at: datetime = NOON, end: int = 100) -> Transaction:
    return Transaction(rows, at, BinlogPosition("binlog.000001", end))


def batch() -> Batch:
    return Batch(SETTINGS, Progress(BinlogPosition("binlog.000001", 4), sequence=7))


def stamped(*rows: RowChange) -> list[StampedRow]:
    return [StampedRow(change, NOON, str(number)) for number, change in enumerate(rows)]


def files_of(rows: list[StampedRow], most_bytes: int = 1000) -> list[tuple[str, list[int]]]:
    return [(name.table, [row.change.values["id"] for row in file]) for name, file in cut(rows, most_bytes)]


def test_files_are_due_when_the_first_waiting_change_has_waited_for_the_interval():
    waiting = batch()
    assert not waiting.is_due(NOON + timedelta(days=1))
    waiting.add(transaction(row(1)), NOON)
    waiting.add(transaction(row(2)), NOON + timedelta(seconds=50))
    assert not waiting.is_due(NOON + timedelta(seconds=59))
    assert waiting.is_due(NOON + timedelta(seconds=60))


def test_files_are_due_when_enough_bytes_wait():
    waiting = batch()
    waiting.add(transaction(row(1, size_bytes=600)), NOON)
    assert not waiting.is_due(NOON)
    waiting.add(transaction(row(2, size_bytes=400)), NOON)
    assert waiting.is_due(NOON)


def test_a_transaction_without_rows_of_interest_moves_the_position_on_as_well():
    waiting = batch()
    waiting.add(transaction(end=500), NOON)
    assert waiting.progress.binlog == BinlogPosition("binlog.000001", 500)
    assert waiting.rows == []
    assert waiting.is_due(NOON + timedelta(seconds=60))


def test_the_change_sequence_grows_though_the_clock_of_the_source_goes_back():
    waiting = batch()
    waiting.add(transaction(row(1), row(2)), NOON)
    waiting.add(transaction(row(3), at=NOON - timedelta(hours=1)), NOON)
    sequences = [row.sequence for row in waiting.rows]
    assert sequences == sorted(set(sequences))
    assert [row.committed_utc for row in waiting.rows] == [NOON, NOON, NOON - timedelta(hours=1)]


def test_the_same_changes_get_the_same_sequence_when_they_are_sent_again():
    first, again = batch(), batch()
    for waiting in (first, again):
        waiting.add(transaction(row(1), row(2)), NOON)
    assert first.rows == again.rows
    assert first.rows[0].sequence == "2024030512000000" + "0" * 18 + "8"


def test_a_change_sequence_has_35_digits():
    sequence = change_sequence(datetime(2024, 3, 5, 1, 2, 3, 456_789, tzinfo=timezone.utc), 12)
    assert sequence == "2024030501020345" + "0000000000000000012"


def test_each_table_has_its_file_with_its_rows_in_order():
    rows = stamped(row(1), row(1, "b"), row(2), row(2, "b"))
    assert files_of(rows) == [("a", [1, 2]), ("b", [1, 2])]


def test_rows_with_other_columns_begin_a_new_file():
    rows = stamped(row(1), row(2, columns=(ID, NAME)), row(3, columns=(ID, NAME)), row(4))
    assert files_of(rows) == [("a", [1]), ("a", [2, 3]), ("a", [4])]


def test_rows_with_another_type_of_a_column_begin_a_new_file():
    wider = SourceColumn("id", "bigint")
    assert files_of(stamped(row(1), row(2, columns=(wider,)))) == [("a", [1]), ("a", [2])]


def test_a_large_transaction_goes_to_several_files():
    rows = stamped(*(row(number, size_bytes=40) for number in range(5)), row(1, "b"))
    assert files_of(rows, most_bytes=80) == [("a", [0, 1]), ("a", [2, 3]), ("a", [4]), ("b", [1])]


def test_no_rows_make_no_file():
    assert cut([], 1000) == []
