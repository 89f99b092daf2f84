"""Change files are written when due, and contain the right rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from cdclake.model.table.name import TableName
from cdclake_cli.dms.settings import DmsSettings
from cdclake_cli.sources.mysql.types import MysqlColumn
from cdclake_cli.sources.positions import BinlogPosition
from cdclake_devkit.replicate.batch import Batch, CommittedRow, change_sequence, split_by_file
from cdclake_devkit.replicate.progress import ReplicationProgress
from cdclake_devkit.replicate.transactions import ChangeRow, Transaction

NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)
ID, NAME = MysqlColumn("id", "int"), MysqlColumn("name", "varchar")
SETTINGS = DmsSettings(cdc_max_batch_interval=60, cdc_min_file_size=1)


def row(number: int, table: str = "a", columns: tuple[MysqlColumn, ...] = (ID,), size_bytes: int = 10) -> ChangeRow:
    values = {column.name: number for column in columns}
    return ChangeRow(TableName("shop", table), columns, ("id",), "I", values, None, size_bytes)


def transaction(*rows: ChangeRow, at: datetime = NOON, end: int = 100) -> Transaction:
    return Transaction(rows, at, BinlogPosition("binlog.000001", end))


def batch() -> Batch:
    return Batch(SETTINGS, ReplicationProgress(BinlogPosition("binlog.000001", 4), sequence=7))


def committed(*rows: ChangeRow) -> list[CommittedRow]:
    return [CommittedRow(row_, NOON, str(number)) for number, row_ in enumerate(rows)]


def files_of(rows: list[CommittedRow], max_bytes: int = 1000) -> list[tuple[str, list[int]]]:
    return [(name.table, [row.row.values["id"] for row in file]) for name, file in split_by_file(rows, max_bytes)]


def test_files_are_due_when_the_first_pending_change_is_as_old_as_the_interval():
    pending = batch()
    assert not pending.is_due(NOON + timedelta(days=1))
    pending.add(transaction(row(1)), NOON)
    pending.add(transaction(row(2)), NOON + timedelta(seconds=50))
    assert not pending.is_due(NOON + timedelta(seconds=59))
    assert pending.is_due(NOON + timedelta(seconds=60))


def test_files_are_due_when_enough_bytes_are_pending():
    pending = batch()
    pending.add(transaction(row(1, size_bytes=600)), NOON)
    assert not pending.is_due(NOON)
    pending.add(transaction(row(2, size_bytes=400)), NOON)
    assert pending.is_due(NOON)


def test_a_position_that_advanced_without_a_transaction_is_due_like_a_change():
    pending = batch()
    pending.skip_to(BinlogPosition("binlog.000001", 4), NOON)
    assert not pending.is_due(NOON + timedelta(days=1))
    pending.skip_to(BinlogPosition("binlog.000001", 9), NOON)
    assert not pending.is_due(NOON + timedelta(seconds=59))
    assert pending.is_due(NOON + timedelta(seconds=60))
    assert pending.progress.position == BinlogPosition("binlog.000001", 9)


def test_a_transaction_without_replicated_rows_advances_the_position():
    pending = batch()
    pending.add(transaction(end=500), NOON)
    assert pending.progress.position == BinlogPosition("binlog.000001", 500)
    assert pending.rows == []
    assert pending.is_due(NOON + timedelta(seconds=60))


def test_the_change_sequence_increases_though_the_source_clock_goes_back():
    pending = batch()
    pending.add(transaction(row(1), row(2)), NOON)
    pending.add(transaction(row(3), at=NOON - timedelta(hours=1)), NOON)
    sequences = [row.sequence for row in pending.rows]
    assert sequences == sorted(set(sequences))
    assert [row.committed_utc for row in pending.rows] == [NOON, NOON, NOON - timedelta(hours=1)]


def test_changes_keep_their_sequence_when_they_are_sent_again():
    first, again = batch(), batch()
    for pending in (first, again):
        pending.add(transaction(row(1), row(2)), NOON)
    assert first.rows == again.rows
    assert first.rows[0].sequence == "2024030512000000" + "0" * 18 + "8"


def test_a_change_sequence_has_35_digits():
    sequence = change_sequence(datetime(2024, 3, 5, 1, 2, 3, 456_789, tzinfo=timezone.utc), 12)
    assert sequence == "2024030501020345" + "0000000000000000012"


def test_each_table_has_one_file_with_its_rows_in_order():
    rows = committed(row(1), row(1, "b"), row(2), row(2, "b"))
    assert files_of(rows) == [("a", [1, 2]), ("b", [1, 2])]


def test_rows_with_different_columns_start_a_new_file():
    rows = committed(row(1), row(2, columns=(ID, NAME)), row(3, columns=(ID, NAME)), row(4))
    assert files_of(rows) == [("a", [1]), ("a", [2, 3]), ("a", [4])]


def test_rows_with_a_different_column_type_start_a_new_file():
    wider = MysqlColumn("id", "bigint")
    assert files_of(committed(row(1), row(2, columns=(wider,)))) == [("a", [1]), ("a", [2])]


def test_a_large_transaction_is_split_into_several_files():
    rows = committed(*(row(number, size_bytes=40) for number in range(5)), row(1, "b"))
    assert files_of(rows, max_bytes=80) == [("a", [0, 1]), ("a", [2, 3]), ("a", [4]), ("b", [1])]


def test_no_rows_produce_no_file():
    assert split_by_file([], 1000) == []
