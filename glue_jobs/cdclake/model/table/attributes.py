"""Declares every attribute of a table's item in the state table, once: all lists of attributes derive from this.

The first eight come from AWS's walkthrough, like the names in `model/names.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from cdclake.model.names import Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable


class SetBy(Enum):
    """Who writes an attribute."""

    OPERATOR = "operator"
    """With `cdclake tables set`; no job ever writes it."""
    JOBS = "jobs"
    """The jobs, and commands that do their work."""
    STORE = "store"
    """The state store itself: what identifies, leases and wakes a table."""


@dataclass(frozen=True)
class Declaration:
    """What is known of an attribute, besides its meaning: the docstring in `Attribute`.

    Attributes:
        default: What an unset attribute of operators means; empty if that has no text.
        for_new_tables: Whether it may be a default of new tables (`Argument.NEW_TABLE`).
        names_columns: Whether it names columns, which must exist.
        resettable: Whether operators may set it although jobs write it.
        of_lake: Whether it rests on what the lake contains; if the lake is gone, it becomes empty: nothing is known.
        adopted_from: Whether it determines a table that is adopted from other jobs.
        any_type: Whether it may have another type than text, because the next run replaces it, whatever it is.
        shown: Whether `cdclake tables show` shows it, though no operator sets it.
        once: Whether it holds for one change of one table, so that it is no part of a table's configuration.
        more: The section below `docs` that explains it.
    """

    name: str
    set_by: SetBy
    default: str = ""
    for_new_tables: bool = False
    names_columns: bool = False
    resettable: bool = False
    of_lake: bool = False
    adopted_from: bool = False
    any_type: bool = False
    shown: bool = False
    once: bool = False
    more: str = ""

    @property
    def settable(self) -> bool:
        """Whether operators may set it; resetting another one makes the jobs repeat work."""
        return self.set_by is SetBy.OPERATOR or self.resettable

    @property
    def configures(self) -> bool:
        """Whether it belongs into a file of tables: it means the same whenever it is set."""
        return self.set_by is SetBy.OPERATOR and not self.once


ATTRIBUTES: dict[str, Declaration] = {}
"""The declarations in `Attribute`, by name, in their order."""


def attributes_that(applies: Callable[[Declaration], bool]) -> tuple[str, ...]:
    """Names of the attributes whose declaration something applies to, in their order."""
    return tuple(name for name, declared in ATTRIBUTES.items() if applies(declared))


def _declared(set_by: SetBy, name: str, **facts: Any) -> str:  # noqa: ANN401 - as the dataclass declares them
    ATTRIBUTES[name] = Declaration(name, set_by, **facts)
    return name


_by_operator = partial(_declared, SetBy.OPERATOR)
_by_jobs = partial(_declared, SetBy.JOBS)
_by_store = partial(_declared, SetBy.STORE)


class Attribute:
    """Attributes of a table's item in the state table. All values are strings.

    Each is declared here and nowhere else. Its docstring is its meaning in `docs/reference/attributes.md`.
    `cdclake.model.table.settings` has the types of the attributes that operators set.
    """

    PATH = _by_store("path", shown=True)
    """Key: `<raw bucket>/<prefix><schema>/<table>/`."""
    BUCKET = _by_jobs("bucket")
    """Raw bucket."""
    PREFIX = _by_jobs("prefix")
    """`<prefix><schema>/` in the raw bucket."""
    FOLDER = _by_jobs("folder")
    """`<table>/`."""

    PRIMARY_KEY = _by_operator("PrimaryKey", default=Sentinel.NONE, names_columns=True, adopted_from=True)
    """Comma-separated key columns. `null`: the table takes only inserts."""
    PARTITION_KEY = _by_operator("PartitionKey", default=Sentinel.NONE, names_columns=True, adopted_from=True)
    """Comma-separated partition columns of the lake table, whose names do not begin with `_` or `.`. `null`: none."""
    ACTIVE_FLAG = _by_operator("ActiveFlag", default=Sentinel.INACTIVE)
    """`true` lets the jobs work on the table."""
    SCHEMA = _by_operator(
        "Schema", for_new_tables=True, names_columns=True, adopted_from=True, more="configuration.md#types-of-columns"
    )
    """Columns of CSV files without a header line, all but `Op`, in order: `id int, name string`. With a header
    line, or in Parquet: types of the columns named."""
    CSV_DELIMITER = _by_operator("CsvDelimiter", default=",", for_new_tables=True)
    """Field delimiter of CSV files: one character, or `\\t`. Same as the DMS endpoint setting."""
    CSV_ROW_DELIMITER = _by_operator("CsvRowDelimiter", default="\\n", for_new_tables=True)
    """Row delimiter of CSV files. Same as the DMS endpoint setting."""
    CSV_NULL_VALUE = _by_operator("CsvNullValue", default="NULL", for_new_tables=True)
    """Unquoted CSV field that means null. Same as the DMS endpoint setting."""
    CSV_NO_SUP_VALUE = _by_operator("CsvNoSupValue", for_new_tables=True)
    """CSV field that means "not sent": the lake keeps its value. Empty: there is none."""
    RFC4180 = _by_operator("Rfc4180", default="true", for_new_tables=True)
    """`false` if quotes in CSV files have no meaning. Same as the DMS endpoint setting."""
    ADD_COLUMN_NAME = _by_operator("AddColumnName", for_new_tables=True)
    """`true` or `false`: whether a first line of a CSV file that may be a header or a row is a header. Not set: such a
    file is refused. Same as the DMS endpoint setting."""
    CDC_PATH = _by_operator("CdcPath", for_new_tables=True, more="configuration.md#transaction-files")
    """Folder of DMS's transaction files (`CDC_TXN-...`) below the raw prefix, same as the endpoint's setting
    of that name."""
    ORDER_COLUMN = _by_operator(
        "OrderColumn",
        for_new_tables=True,
        names_columns=True,
        adopted_from=True,
        more="architecture.md#order-of-changes",
    )
    """Source column that orders change rows; file name and row break ties."""
    LATE_WINDOW_HOURS = _by_operator(
        "LateWindowHours", default="72", for_new_tables=True, more="configuration.md#late-files"
    )
    """How much older than the newest applied change file a late one may be."""
    MAX_QUARANTINED_ROWS = _by_operator(
        "MaxQuarantinedRows", default="0", for_new_tables=True, more="operations.md#quarantined-rows"
    )
    """Most bad rows that one change may quarantine; with more, the table stops."""
    TARGET_FILE_BYTES = _by_operator("TargetFileBytes", default=str(128 * 1024 * 1024), for_new_tables=True)
    """Size that data files grow to if no change touches them for seven days. Where changes fall, they are small."""
    RETENTION_DAYS = _by_operator(
        "RetentionDays", default="30", for_new_tables=True, more="undo.md#what-is-kept-and-for-how-long"
    )
    """How long earlier states of the lake table are kept, so that you can roll back to them."""
    KEEP_EVERY_STATE = _by_operator(
        "KeepEveryState", default="1", for_new_tables=True, more="undo.md#what-is-kept-and-for-how-long"
    )
    """Days for which every state is kept; of earlier ones one per six hours for a week, then one per day until
    `RetentionDays`. `RetentionDays` or more: all are kept."""
    CLEAN_UP = _by_operator(
        "CleanUp", default="automatic", for_new_tables=True, more="undo.md#what-is-kept-and-for-how-long"
    )
    """`automatic`: runs delete what no kept state needs. `manual`: only `cdclake clean-up` does."""
    # DMS writes the next LOAD file when one is full; even a slow source fills one within some minutes.
    FULL_LOAD_QUIET_MINUTES = _by_operator(
        "FullLoadQuietMinutes",
        default="10",
        for_new_tables=True,
        more="operations.md#a-full-load-that-is-still-arriving",
    )
    """Time without a new `LOAD` file after which a full load is applied; longer if its files arrive slowly. `0`: at
    once."""
    RELOAD_MODE = _by_operator(
        "ReloadMode", default="replace", for_new_tables=True, more="operations.md#take-a-reload-as-a-difference"
    )
    """What a full load of an existing table does: `replace` writes the table anew; `diff` compares it with the table,
    writes only files with rows that differ, and tells how many did."""
    MAX_DELAY_MINUTES = _by_operator(
        "MaxDelayMinutes", default="0", for_new_tables=True, more="monitoring.md#freshness"
    )
    """How long a due raw file may wait before the table is `late`, which also raises an alarm. `0`: no bound."""
    DMS_TASK = _by_operator("DmsTask", for_new_tables=True, more="operations.md#a-full-load-that-is-still-arriving")
    """ARN of the DMS task that must report the table complete before a full load is applied; `resync` has it reload."""
    # A week at DMS's default of one file per minute. Planning them takes half a minute, and listing them in the change
    # record 300 kB.
    MAX_FILES_PER_RUN = _by_operator(
        "MaxFilesPerRun", default="10000", for_new_tables=True, more="operations.md#a-large-backlog"
    )
    """Maximum number of change files in one change."""
    # 320 change files of DMS's default size: at most an hour's work for the workers of the default deployment.
    MAX_BYTES_PER_RUN = _by_operator(
        "MaxBytesPerRun", default=str(10 * 1024**3), for_new_tables=True, more="operations.md#a-large-backlog"
    )
    """Maximum bytes of change files in one change; a larger file is applied by itself."""

    MISSING_COLUMNS = _by_operator(
        "MissingColumns", default="keep", for_new_tables=True, more="schema-changes.md#updates-that-lack-columns"
    )
    """Where an update file lacks columns of the table: `keep` keeps the lake's values, `null` sets them to null."""
    NULL_MEANS_UNSENT = _by_operator(
        "NullMeansUnsent", names_columns=True, more="schema-changes.md#updates-that-lack-columns"
    )
    """Comma-separated columns whose null in an update means that the value was not sent, such as PostgreSQL's unchanged
    TOAST values: the lake keeps its value."""
    SCHEMA_POLICY = _by_operator("SchemaPolicy", default="evolve", for_new_tables=True, more="schema-changes.md")
    """When columns change at the source: `evolve`: apply and report; `warn`: also, and the table is `incomplete` until
    `cdclake tables acknowledge`; `freeze`: apply nothing before that."""
    READERS = _by_operator("Readers", default="folder", more="iceberg.md")
    """`folder` (the default): readers list the table's folder of plain Parquet. `iceberg`: they open an Apache Iceberg
    table, in which every change appears at once. `both`: they do either, and the Iceberg table shows the newest change
    of the same files. Takes effect with the next change."""
    ACCEPTED_DRIFT = _by_jobs("AcceptedDrift", shown=True, more="schema-changes.md#what-else-should-happen")
    """Column changes that an operator accepted with `cdclake tables acknowledge` while `SchemaPolicy` is `freeze`."""
    ACCEPT_LOST_CHANGES = _by_operator(
        "AcceptLostChanges", default="0", once=True, more="configuration.md#reload-a-table"
    )
    """Number of the table's newest change: the next one may be a reload from old `LOAD` files without changes whose
    files are gone. Taken only as in the error of the refused reload."""
    ACKNOWLEDGED_CHANGE = _by_jobs("AcknowledgedChange", shown=True, more="schema-changes.md#acknowledge")
    """Number of the newest change at the last `cdclake tables acknowledge`."""
    IGNORE_FILES = _by_operator("IgnoreFiles", for_new_tables=True, more="operations.md#files-that-are-left-out")
    """Comma-separated globs of raw files to leave out. A glob must match the whole key within the table's folder; `*`
    matches slashes too."""

    UNIQUE_CHECKS = _by_operator("UniqueChecks", more="configuration.md#updates-of-keys")
    """When the source checks that keys are unique. `immediate`: row by row, as MySQL, MariaDB and PostgreSQL do.
    `deferred`: at the end of a statement or transaction, as Oracle, SQL Server and PostgreSQL's `DEFERRABLE` keys do.
    """
    UNKNOWN_KEYS = _by_operator("UnknownKeys", for_new_tables=True, more="configuration.md#updates-of-unknown-keys")
    """When an update has a key that the table lacks, and no `BI_` value tells the key before, so that it may have
    changed it: `warn`: insert the row, and the table is `incomplete` until `cdclake tables acknowledge`; `refuse`:
    apply nothing; `insert`: insert the row. Not set: `warn` in a table with a full load, else `insert`."""
    DELETE_MODE = _by_operator("DeleteMode", default="hard", more="soft-delete.md")
    """`hard`: a delete removes the row from the lake table. `soft`: the row stays, and its `Op` is `D`."""

    HISTORY = _by_operator("History", default="false", more="history.md")
    """`true` keeps every version of each row in a table next to the lake table."""
    HISTORY_TIME_COLUMN = _by_operator("HistoryTimeColumn", names_columns=True, more="history.md#what-makes-a-version")
    """Timestamp column of the lake table that sets `valid_from`, such as DMS's `TimestampColumnName`. Without it, DMS's
    times do."""

    COLUMN_POLICY = _by_operator("ColumnPolicy", names_columns=True, more="column-policy.md")
    """What happens to columns before anything of them is stored: `exclude email, hash ssn, redact note, truncate name
    3`. A table that was loaded changes it only with a reload."""

    CATALOG_TABLE = _by_operator("CatalogTable", more="athena.md#names")
    """Name of the table in the Glue Data Catalog: `a-z`, `0-9` and `_`. Default: `<schema>_<table>`."""

    LAST_FULL_LOAD_DATE = _by_jobs(
        "LastFullLoadDate", resettable=True, adopted_from=True, more="configuration.md#reload-a-table"
    )
    """When the newest applied `LOAD` file was written, `yyyy-mm-dd HH:MM:SS` (UTC). `1900-01-01 00:00:00`: none yet."""
    LAST_INCREMENTAL_FILE = _by_jobs(
        "LastIncrementalFile",
        resettable=True,
        adopted_from=True,
        more="configuration.md#dates-and-watermarks-set-by-hand",
    )
    """`<raw bucket>/<key>` of the latest change file applied: the watermark. `<path>0.parquet`: none yet."""

    LAST_FULL_LOAD_FILES = _by_jobs("LastFullLoadFiles", of_lake=True)
    """Hashes of the `LOAD` files of the last full load; empty if unknown."""
    LAST_RECORDED = _by_jobs("LastRecorded", of_lake=True, more="configuration.md#dates-and-watermarks-set-by-hand")
    """JSON of `LastFullLoadDate` and `LastIncrementalFile` as the jobs wrote them. Other values were set by hand."""

    LAST_RUN_STATE = _by_jobs("LastRunState", shown=True)
    """`SUCCEEDED` or `FAILED`: how the last run of this table ended."""
    LAST_RUN_ID = _by_jobs("LastRunId", shown=True)
    """Id of the run that wrote this: of a Spark job, or of ProcessTable if none was needed."""
    LAST_RUN_UTC = _by_jobs("LastRunUtc", shown=True)
    """When that run ended."""
    LAST_ERROR = _by_jobs("LastError", shown=True)
    """Error of the last run, with the remedy; empty after a good run."""
    LAST_ERROR_CODE = _by_jobs("LastErrorCode")
    """Kind of that error, such as `InputError`; it determines the exit status."""
    LAST_DEATHS = _by_jobs("LastDeaths", more="operations.md#a-raw-file-that-ends-the-run")
    """How many Spark runs died at this table since a good run, as text. Until then the table has Spark runs of its own,
    which read each raw file alone first; empty if none."""
    LAST_SPARK_RUN = _by_jobs("LastSparkRun", more="operations.md#a-raw-file-that-ends-the-run")
    """JSON of the Spark run that was started for the table and has not recorded its end; empty if there is none."""
    LAST_FINDINGS = _by_jobs("LastFindings", of_lake=True, more="schema-changes.md#acknowledge")
    """What changes left out or found, and no operator has acknowledged, as JSON; absent until a run wrote it."""
    LAST_DRIFT = _by_jobs("LastDrift", shown=True, of_lake=True)
    """Column changes for which the last run refused to apply anything; empty if none."""
    LAST_OFF_BY_ROLLBACK = _by_jobs("LastOffByRollback", shown=True)
    """`true`: a rollback turned the table off, and nobody has turned it on since, or left it off on purpose with
    `cdclake tables pause` or `cdclake rollback --leave-off`."""
    LAST_CHANGE_ID = _by_jobs("LastChangeId", shown=True)
    """Number of the lake table's newest change."""
    LAST_LINEAGE_CHANGE = _by_jobs("LastLineageChange", of_lake=True, more="monitoring.md#lineage")
    """Number of the newest change whose lineage was logged and sent."""
    LAST_DELAYS = _by_jobs("LastDelays", of_lake=True, more="monitoring.md#freshness")
    """Changes of the day up to the newest with new change files, as JSON: number, when it became visible (seconds since
    1970), and delay in seconds. Of more than 100, every second, fourth, eighth, ..."""
    LAST_RETIRED_SINCE_UTC = _by_jobs("LastRetiredSinceUtc", of_lake=True, more="undo.md#what-is-kept-and-for-how-long")
    """When the oldest files were retired that no clean-up has deleted yet; empty: there are none."""
    LAST_REPEATED_SINCE_UTC = _by_jobs(
        "LastRepeatedSinceUtc", of_lake=True, more="undo.md#what-is-kept-and-for-how-long"
    )
    """When the first state was replaced that `KeepEveryState` alone keeps; empty: there is none."""
    LAST_PENDING = _by_jobs("LastPending", of_lake=True, more="operations.md#raw-files-that-vanish")
    """Change files listed and not yet applied, as JSON: number, last one, names (compressed); empty if none. `cdclake
    tables unfreeze` clears it."""
    LAST_LEFT_OUT = _by_jobs("LastLeftOut", of_lake=True, more="operations.md#files-that-are-left-out")
    """JSON of what the last run left out: whether there were unread files, and change files that came too late or were
    overwritten. Empty if nothing."""
    LAST_KEYS = _by_jobs("LastKeys", of_lake=True)
    """`PrimaryKey`, `PartitionKey` and `OrderColumn` that the lake table was created with, as a JSON list."""
    LAST_SEEN = _by_jobs("LastSeen", of_lake=True, more="architecture.md#what-is-due")
    """What runs saw of the raw files, as JSON: when the last good run began to list them, when one last listed all,
    where the newest begin, and digests of those up to the watermark. If others are there, a run checks them. Any other
    text: nothing is known, so a run checks every change file of the late window."""
    LAST_PAGE_END = _by_jobs("LastPageEnd", of_lake=True, more="operations.md#many-tables")
    """Key after which the Controller reads its next page of a large raw folder; empty: from the front. An invalid key
    is replaced."""

    LAST_CATALOG_TABLE = _by_jobs("LastCatalogTable", shown=True)
    """`<database>.<table>` that shows the lake table in the Glue Data Catalog; absent if none."""
    LAST_CATALOG_ERROR = _by_jobs("LastCatalogError", shown=True, more="athena.md")
    """Why the catalog could not be updated, with the remedy; empty if it is up to date."""

    LEASE_HOLDER = _by_store("LeaseHolder", shown=True, any_type=True, more="architecture.md#one-writer")
    """Run that may write the table until `LeaseExpiresUtc`; absent when free."""
    LEASE_EXPIRES_UTC = _by_store("LeaseExpiresUtc", shown=True, any_type=True)
    """When the lease expires. A lease that ends more than ten minutes from now counts as expired."""
    FENCING_TOKEN = _by_store("FencingToken", more="architecture.md#one-writer")
    """Counts leases: a later holder has a greater number, also than any in the lake."""
    WORK_REQUESTED_UTC = _by_store("WorkRequestedUtc", any_type=True)
    """An event asked for a run that has not yet listed the raw files; absent if none is waiting."""
