"""Lake tables for people and notebooks: insert, update and delete rows, look back, undo.

Each change is one committed step of the table like any other, made under the table's lease by the same engine. See
docs/direct-changes.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, datetime, timezone
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from cdclake.adapters import aws
from cdclake.adapters.caller import aws_caller_arn, configured_user, os_user
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.stores import S3, parse_location
from cdclake.commit.report import newest_changes
from cdclake.control.admin.installation import Installation
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.lake.operations.direct.apply import DirectChange, DirectResult, change_directly
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows, input_updates
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.read.as_of import RetainedFile, TableLocation
from cdclake.lake.read.dataframe import frame, quoted, read_table
from cdclake.lake.read.history_dataframe import read_history
from cdclake.lake.storage.shape import TableShape
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.schema import DELETE, INSERT, UPDATE
from cdclake.model.table import TableName, TableSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from cdclake.lake.operations.direct.apply import ReadInput
    from cdclake.model.change import ChangeRecord
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Catalog, Clock, StateStore

__all__ = ["DirectResult", "LakeTable", "Undone"]

_CHANGES = (
    "change bigint, committed timestamp, kind string, made_by string, reason string, inserted bigint, updated bigint,"
    " deleted bigint, rows bigint, shown boolean, undone boolean, retained boolean"
)


@dataclass(frozen=True)
class Undone:
    """What a rollback or reapply did.

    Attributes:
        change: Number of the change that it is.
        shows: Number of the change whose table is shown now; 0: the table before any.
    """

    change: int
    shows: int


def now_utc() -> datetime:
    """The time."""
    return datetime.now(timezone.utc)


class LakeTable:
    """One table of the lake.

    The AWS account is the one that the AWS SDKs find (`AWS_PROFILE`, `AWS_REGION`, ...). Buckets and state table are
    found as the `cdclake` command finds them: as given here, else by `CDCLAKE_LAKE_BUCKET` and the like, else by the
    same defaults. Nothing is asked of AWS before a method is called.

    Args:
        name: `schema.table`.
        lake: `bucket`, `s3://bucket` or `file:///folder`.
        lake_prefix: Folder of the lake in the bucket.
        raw_bucket: Bucket that DMS writes to; it is not read, but is part of the table's key in the state table.
        raw_prefix: Folder of the schemas in it; likewise.
        state_table: DynamoDB table of the state.
        spark: The session to work in; the active one, or a new one, if not given.
        user: Who makes changes, for the change records; also `CDCLAKE_USER`. Else it is asked of AWS.
        states: Where the state is, in place of a DynamoDB table.
        clock: Gives the time in UTC.

    Raises:
        ConfigurationError: Not a table name, or not a place of a lake.
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
        clock: Clock = now_utc,
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
        self._place = TableLocation.at(self._installation.lake_bucket, name, self._installation.lake_prefix)
        self._given_spark, self._given_user, self._given_states = spark, user, states
        self._clock = clock

    def register(self, primary_key: Sequence[str] = (), partition_key: Sequence[str] = ()) -> bool:
        """Register a table that no source feeds, so that rows can be inserted in it. It is not turned on.

        Args:
            primary_key: Key columns; without any, rows can only be inserted.
            partition_key: Partition columns.

        Returns:
            False if it is registered already; then nothing was changed.

        Raises:
            ConfigurationError: A key names a column twice.
        """
        keys = {Attribute.PRIMARY_KEY: primary_key, Attribute.PARTITION_KEY: partition_key}
        texts = {attribute: ",".join(columns) or Sentinel.NONE for attribute, columns in keys.items()}
        state = self._installation.new_state(self._name).with_attributes(**texts)
        TableSettings.from_item(state.item)  # what the jobs would refuse is refused here already
        return self._states.register(state)

    def insert(self, rows: object, reason: str = "") -> DirectResult:
        """Insert rows. Columns that are not given are null. The first rows of a table make it.

        Args:
            rows: A Spark or pandas DataFrame, an Arrow table, or a list of dicts. `Op` and `_cdc_position`, which reads
                of lake tables give, are left out.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed: a key is in the table already or comes twice, the table has no such
                column, a value does not fit its column's type, or a later change of a key is known.
            LeaseHeldError: A run is working on the table.
        """
        return self._change(INSERT, lambda _: input_rows(rows), reason)

    def update(self, changes: object, reason: str = "") -> DirectResult:
        """Set columns of rows; their other columns stay. The key cannot be changed; the partition can.

        Args:
            changes: `{id: {column: value}}`, where the id of a key of several columns is a tuple; or rows, as for
                `insert`, of the key columns and those to set.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed: a key is not in the table or comes twice, or else as for `insert`.
            ConfigurationError: The table has no key.
            LeaseHeldError: A run is working on the table.
        """
        return self._change(UPDATE, lambda before: input_updates(changes, before.primary_key), reason)

    def delete(self, what: object, reason: str = "") -> DirectResult:
        """Delete rows.

        Args:
            what: A condition, as SQL text or a Spark column; or ids: a list, set or the like, an Arrow array, a pandas
                Series (of a key of several columns each is a tuple), or rows of which the key columns count. Ids that
                the table does not have are counted.
            reason: Why, for the change record.

        Raises:
            RefusedChangeError: Nothing was changed: an id does not fit the key's type, or a later change is known.
            ConfigurationError: The table has no key.
            LeaseHeldError: A run is working on the table.
        """
        if isinstance(what, (str, Column)):
            return self._change(DELETE, lambda before: self._keys_where(what, before), reason)
        return self._change(DELETE, lambda before: input_keys(what, before.primary_key), reason)

    def as_of(self, when: int | date | str | None = None, *, with_deleted: bool = False) -> DataFrame:
        """The table as it was after a change or at a time, or as it is now; see `cdclake.lake.read.dataframe`.

        Args:
            when: Number of a change; or a time, also as ISO 8601 text: without a zone it is UTC, a date is midnight.
            with_deleted: Whether rows that were deleted softly are given too; their `Op` is `D`.

        Raises:
            ConfigurationError: There is no such change.
            PastRetentionError: What the table was then is no longer kept.
        """
        change, at = (int(when), None) if isinstance(when, (int, Integral)) else (None, when)
        lake, prefix = self._installation.lake_bucket, self._installation.lake_prefix
        name = str(self._name)
        return read_table(self._spark, lake, name, prefix, change=change, at=at, with_deleted=with_deleted)

    def history(self, key: object = None) -> DataFrame:
        """The versions of the table's rows, or of one key: oldest first. See `cdclake.lake.read.history_dataframe`.

        Args:
            key: The id of a row, a tuple of a key of several columns; None: the versions of all rows.

        Raises:
            ConfigurationError: The table keeps no history, or its key has more or fewer columns.
        """
        lake, prefix = self._installation.lake_bucket, self._installation.lake_prefix
        return read_history(self._spark, lake, str(self._name), prefix, key=key)

    def changes(self) -> DataFrame:
        """Every change of the table by number: what made it, who, why, and how many rows it inserted and so on.

        `shown` is true of the change whose table is shown now, `undone` of those that a rollback undid, `retained` of
        those that one can go back to.
        """
        log = self._place.log()
        report = newest_changes(log, log.head())
        rows = [(*_facts(entry.record), entry.current, entry.undone, entry.retained) for entry in report.entries]
        return self._spark.createDataFrame(rows, _CHANGES)

    def rollback(self, to: int | None = None, reason: str = "") -> Undone:
        """Undo the last change, or go back to an earlier one, and turn the table off: the jobs leave it alone then.

        Args:
            to: Number of the change to go back to, 0 for the table before any; None: undo the last change.
            reason: Why, for the change record.

        Raises:
            ConfigurationError: There is nothing to undo, or no such change.
            PastRetentionError: Files to bring back are no longer kept.
            LeaseHeldError: A run is working on the table.
        """
        return _undone(self._open().rollback(to, reason))

    def reapply(self, reason: str = "") -> Undone:
        """Do again what the last rollback undid, a change at a time.

        Raises:
            As `rollback`.
        """
        return _undone(self._open().reapply(reason))

    @cached_property
    def _spark(self) -> SparkSession:
        return self._given_spark or SparkSession.builder.getOrCreate()

    @cached_property
    def _states(self) -> StateStore:
        return self._given_states or DynamoState(aws.client("dynamodb"), self._installation.state_table)

    @cached_property
    def user(self) -> str:
        """Who makes changes, for the change records."""
        given = self._given_user or configured_user()
        return given or (aws_caller_arn() if self._is_on_s3 else os_user())

    @property
    def _is_on_s3(self) -> bool:
        return parse_location(self._installation.lake_bucket).scheme == S3

    def _open(self) -> RegisteredTable:
        state = self._installation.find_table(self._states, self._name)
        return RegisteredTable(
            self._states,
            state,
            self._place.log(),
            f"by-hand-{uuid4().hex}",
            self._clock,
            _catalog if self._is_on_s3 else None,
            self.user,
        )

    def _change(self, op: str, rows: ReadInput, reason: str) -> DirectResult:
        table = self._open()
        change = DirectChange(op, rows, reason, self.user)
        watermark = table.state.checked_watermark
        context = self._spark.sparkContext

        def make(fencing_token: int) -> DirectResult:
            return change_directly(self._run(table, fencing_token), context, change, watermark)

        return table.change(make)

    def _run(self, table: RegisteredTable, fencing_token: int) -> TableRun:
        fs = self._place.fs
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
        rows = frame(self._spark, self._place, shape, [RetainedFile(file) for file in before.files])
        return rows.where(condition).select(*(F.col(quoted(name)) for name in before.primary_key))


def _catalog(database: str) -> Catalog:
    return GlueCatalog(aws.client("glue"), database)


def _facts(record: ChangeRecord) -> tuple[Any, ...]:
    books = record.books
    committed = datetime.fromisoformat(record.created_utc)
    counts = (books.inserted, books.updated, books.deleted, books.rows_after)
    return (record.change, committed, record.kind.value, record.made_by, record.reason, *counts)


def _undone(record: ChangeRecord) -> Undone:
    return Undone(record.change, record.content_change)
