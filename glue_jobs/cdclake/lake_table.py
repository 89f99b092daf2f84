"""The Python API of lake tables: insert, update and delete rows, read earlier states, undo changes.

Each call that changes a table commits one change, under the table's lease and with the same engine as the jobs. See
docs/direct-changes.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdclake.adapters import aws
from cdclake.adapters.caller import aws_caller_arn, configured_user, os_user
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.stores import S3, open_store, parse_location
from cdclake.commit.report import newest_changes
from cdclake.control.admin.installation import Installation
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.raw_fates import raw_fates, rows_read
from cdclake.lake.operations.direct.apply import DirectChange, DirectResult, change_directly
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows, input_updates
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.read.as_of import RetainedFile, TableLocation
from cdclake.lake.read.dataframe import frame, quoted, read_table
from cdclake.lake.read.history_dataframe import read_history
from cdclake.lake.spark.session import active_session
from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake.lake.spark.workers_python import check_python
from cdclake.lake.storage.shape import TableShape
from cdclake.model.names import Sentinel
from cdclake.model.schema import DELETE, INSERT, UPDATE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from cdclake.control.plan.fates import FileFate
    from cdclake.lake.operations.direct.apply import ReadInput
    from cdclake.model.change.record import ChangeRecord, RawFileRows
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Catalog, Clock, StateStore

__all__ = ["DirectResult", "LakeTable", "UndoResult"]

_CHANGES = (
    "change bigint, committed timestamp, kind string, made_by string, reason string, inserted bigint, updated bigint,"
    " deleted bigint, rows bigint, shown boolean, undone boolean, retained boolean"
)

_FILES = (
    "file string, fate string, change bigint, rows bigint, quarantined bigint, bytes bigint, written timestamp,"
    " reason string"
)


@dataclass(frozen=True)
class UndoResult:
    """The result of a rollback or reapply.

    Attributes:
        change: Number of its change.
        content_change: Number of the change whose content the table has now; 0 for the table before its first change.
    """

    change: int
    content_change: int


class LakeTable:
    """One table of the lake.

    The AWS SDKs choose the AWS account (`AWS_PROFILE`, `AWS_REGION`, ...). Buckets and the state table come from the
    arguments, else from `CDCLAKE_LAKE_BUCKET` and similar variables, else from the defaults of the `cdclake` command.
    The constructor does not call AWS.

    Args:
        name: `schema.table`; `schema/table` if one of them contains a dot.
        lake: `bucket`, `s3://bucket` or `file:///folder`.
        lake_prefix: Folder of the lake in the bucket.
        raw_bucket: Bucket that DMS writes to. Only `files` reads it, but it is part of the table's key in the state
            table.
        raw_prefix: Folder of the schemas in that bucket, which is also part of the key.
        state_table: DynamoDB table that contains the state.
        spark: The Spark session; by default the active one, or a new one whose workers run this Python if they are on
            this machine.
        user: Author of changes, for the change records; by default `CDCLAKE_USER`, else the identity that AWS reports.
        states: State store to use instead of a DynamoDB table.
        clock: Returns the current time in UTC; by default AWS's time, or this machine's if nothing is on AWS.

    Raises:
        ConfigurationError: The table name or the lake is not valid.
    """

    def __init__(
        self,
        name: str,
        *,
        lake: str | None = None,
        lake_prefix: str | None = None,
        raw_bucket: str | None = None,
        raw_prefix: str | None = None,
        state_table: str | None = None,
        spark: SparkSession | None = None,
        user: str | None = None,
        states: StateStore | None = None,
        clock: Clock = aws.server_clock,
    ) -> None:
        self._name = TableName.parse(name)
        self._installation = Installation.of(
            os.environ,
            lake_bucket=lake,
            lake_prefix=lake_prefix,
            raw_bucket=raw_bucket,
            raw_prefix=raw_prefix,
            state_table=state_table,
        )
        self._address = self._installation.lake_bucket, name, self._installation.lake_prefix
        self._location = TableLocation.at(*self._address)
        self._spark_argument, self._user_argument, self._states_argument = spark, user, states
        self._clock = clock

    def register(self, primary_key: Sequence[str] = (), partition_key: Sequence[str] = ()) -> bool:
        """Register a table that has no source, so that rows can be inserted. The table stays inactive.

        Args:
            primary_key: Key columns; if empty, rows can only be inserted.

        Returns:
            False if the table is registered already; then nothing was changed.

        Raises:
            ConfigurationError: A key names a column twice.
        """
        keys = {Attribute.PRIMARY_KEY: primary_key, Attribute.PARTITION_KEY: partition_key}
        texts = {attribute: ",".join(columns) or Sentinel.NONE for attribute, columns in keys.items()}
        state = self._installation.new_state(self._name).with_attributes(**texts)
        TableSettings.from_item(state.item)  # refuses settings that the jobs would refuse later
        return self._states.register(state)

    def insert(self, rows: object, reason: str = "") -> DirectResult:
        """Insert rows. Missing columns are null. The first insert creates the lake table.

        Args:
            rows: A Spark or pandas DataFrame, an Arrow table, or a list of dicts. The columns `Op` and `_cdc_position`,
                which reads of lake tables return, are ignored.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed, because a key is in the table already or occurs twice, the table
                has no such column, a value does not fit its column's type, or a later change of a key is applied.
            LeaseHeldError: A run is working on the table.
        """
        return self._change(INSERT, lambda _: input_rows(rows), reason)

    def update(self, changes: object, reason: str = "") -> DirectResult:
        """Set columns of existing rows. Other columns stay the same. Updates can change the partition, but not the key.

        Args:
            changes: `{key: {column: value}}`, where the key is a tuple if it has several columns; or rows, as for
                `insert`, that consist of the key columns and the columns to set.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed, because a key is not in the table or occurs twice, or as for
                `insert`.
            ConfigurationError: The table has no key.
            LeaseHeldError: A run is working on the table.
        """
        return self._change(UPDATE, lambda before: input_updates(changes, before.primary_key), reason)

    def delete(self, what: object, reason: str = "") -> DirectResult:
        """Delete rows.

        Args:
            what: A condition, as SQL text or a Spark column; or keys: an iterable, an Arrow array or a pandas Series
                (of tuples if the key has several columns), or rows, of which only the key columns are used. The result
                counts the keys that the table does not have.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed, because a key does not fit the type of its column, or a later
                change of it is applied.
            ConfigurationError: The table has no key.
            LeaseHeldError: A run is working on the table.
        """
        if isinstance(what, (str, Column)):
            return self._change(DELETE, lambda before: self._keys_where(what, before), reason)
        return self._change(DELETE, lambda before: input_keys(what, before.primary_key), reason)

    def as_of(self, when: int | date | str | None = None, *, with_deleted: bool = False) -> DataFrame:
        """Read the table as of a change or a time, or as it is now; see `cdclake.lake.read.dataframe.read_table`.

        Args:
            when: Number of a change, or a time, or its ISO 8601 text. Without a zone it is UTC; a date means midnight.
            with_deleted: Whether to include soft-deleted rows; their `Op` is `D`.

        Raises:
            ConfigurationError: There is no such change.
            PastRetentionError: The state after that change is no longer retained.
        """
        change, at = (int(when), None) if isinstance(when, (int, Integral)) else (None, when)
        return read_table(self._spark, *self._address, change=change, at=at, with_deleted=with_deleted)

    def history(self, key: object = None) -> DataFrame:
        """Read the versions of all rows, or of one row, oldest first; see `cdclake.lake.read.history_dataframe`.

        Args:
            key: Key of one row, a tuple if it has several columns; None for all rows, in no order.

        Raises:
            ConfigurationError: The table keeps no history, or the key has the wrong number of columns.
        """
        return read_history(self._spark, *self._address, key=key)

    def changes(self) -> DataFrame:
        """List the table's changes by number: kind, author, reason, and counts of rows.

        `shown` marks the change whose content the table has now, `undone` the changes that a rollback undid, and
        `retained` the changes that you can roll back to.
        """
        log = self._location.log()
        report = newest_changes(log, log.head())
        rows = [(*_facts(entry.record), entry.current, entry.undone, entry.retained) for entry in report.entries]
        return self._spark.createDataFrame(rows, _CHANGES)

    def files(self) -> DataFrame:
        """List the table's raw files by name, also those that are gone, with the fate of each.

        `fate` is a value of `cdclake.control.plan.fates.Fate`, and `reason` says why a file is not in the lake.
        `change` is the change that read it, with the rows that it read and quarantined. This reads the raw bucket.

        Raises:
            UnknownTableError: The table is not registered.
            UnreadableFileError: The name of a change file has an invalid time.
        """
        table, raw = self._open(), open_store(self._installation.raw_bucket)
        found = raw_fates(raw, table.state, table.log, self._clock(), DmsStatistics(lambda: aws.client("dms")))
        read = rows_read(table.log, found)
        return self._spark.createDataFrame([_file_facts(one, read.get(one.file)) for one in found], _FILES)

    def rollback(self, to: int | None = None, reason: str = "", *, leave_off: bool = False) -> UndoResult:
        """Undo the last change, or roll back to an earlier one. The table becomes inactive, so jobs do not change it.

        It needs action in `cdclake status` until an operator turns it on.

        Args:
            to: Number of the change to roll back to, 0 for the table before its first change; None undoes the last
                change.
            reason: Why, for the change record.
            leave_off: Whether the table is meant to stay off, so that it needs no action.

        Raises:
            ConfigurationError: There is nothing to undo, or no such change.
            PastRetentionError: Files to restore are no longer retained.
            LeaseHeldError: A run is working on the table.
        """
        return _undo_result(self._open().rollback(to, reason, leave_off=leave_off))

    def reapply(self, reason: str = "") -> UndoResult:
        """Reapply the changes that the last rollback undid, one per call.

        Args:
            reason: Why, for the change record.

        Raises:
            As `rollback`.
        """
        return _undo_result(self._open().reapply(reason))

    @cached_property
    def _spark(self) -> SparkSession:
        session = self._spark_argument or active_session()
        check_python(session.sparkContext)
        return session

    @cached_property
    def _states(self) -> StateStore:
        return self._states_argument or DynamoState(aws.client("dynamodb"), self._installation.state_table)

    @cached_property
    def user(self) -> str:
        """Author of changes, for the change records."""
        user = self._user_argument or configured_user()
        return user or (aws_caller_arn() if self._is_on_s3 else os_user())

    @property
    def _is_on_s3(self) -> bool:
        return parse_location(self._installation.lake_bucket).scheme == S3

    def _open(self) -> RegisteredTable:
        state = self._installation.find_table(self._states, self._name)
        return RegisteredTable(
            self._states,
            state,
            self._location.log(),
            f"by-hand-{uuid4().hex}",
            self._clock,
            _catalog if self._is_on_s3 else None,
            self.user,
        )

    def _change(self, op: str, rows: ReadInput, reason: str) -> DirectResult:
        table = self._open()
        change = DirectChange(op, rows, reason, self.user)
        backend, watermark = SparkBackend(self._spark.sparkContext), table.state.checked_watermark
        return table.change(lambda token: change_directly(self._run(table, token), backend, change, watermark))

    def _run(self, table: RegisteredTable, fencing_token: int) -> TableRun:
        fs = self._location.fs
        return TableRun(
            raw=table.log.store,
            raw_fs=fs,
            raw_prefix="",
            log=table.log,
            lake_fs=fs,
            settings=table.state.settings,
            run_id=table.run_id,
            fencing_token=fencing_token,
            clock=table.clock,
        )

    def _keys_where(self, condition: str | Column, before: Snapshot) -> DataFrame:
        shape = TableShape(before.schema, before.primary_key, before.partition_key)
        rows = frame(self._spark, self._location, shape, [RetainedFile(file) for file in before.files])
        return rows.where(condition).select(*(F.col(quoted(name)) for name in before.primary_key))


def _catalog(database: str) -> Catalog:
    return GlueCatalog(aws.client("glue"), database)


def _facts(record: ChangeRecord) -> tuple[Any, ...]:
    books = record.books
    committed = datetime.fromisoformat(record.created_utc)
    counts = (books.inserted, books.updated, books.deleted, books.rows_after)
    return (record.change, committed, record.kind.value, record.made_by, record.reason, *counts)


def _file_facts(file: FileFate, read: RawFileRows | None) -> tuple[Any, ...]:
    counts = (read.rows, read.quarantined) if read else (None, None)
    return (file.file, file.fate.value, file.change, *counts, file.size_bytes, file.modified_utc, file.reason)


def _undo_result(record: ChangeRecord) -> UndoResult:
    return UndoResult(record.change, record.content_change)
