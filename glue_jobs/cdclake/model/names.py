"""Defines every name that operators, jobs and stored state share.

The state table, its first eight attributes, their sentinels, the four job names and the job arguments come from AWS's
walkthrough "Load ongoing data lake changes with AWS DMS and AWS Glue". So an existing state table works, and operators
know the names.
"""

from __future__ import annotations

STATE_TABLE = "DMSCDC_Controller"

JOB_CONTROLLER = "DMSCDC_Controller"
JOB_PROCESS_TABLE = "DMSCDC_ProcessTable"
JOB_LOAD_INITIAL = "DMSCDC_LoadInitial"
JOB_LOAD_INCREMENTAL = "DMSCDC_LoadIncremental"


class Attribute:
    """Attributes of a table's item in the state table. All values are strings."""

    PATH = "path"
    """Key: `<raw bucket>/<prefix><schema>/<table>/`."""
    BUCKET = "bucket"
    """Raw bucket."""
    PREFIX = "prefix"
    """`<prefix><schema>/` in the raw bucket."""
    FOLDER = "folder"
    """`<table>/`."""

    PRIMARY_KEY = "PrimaryKey"
    """Comma-separated key columns. `null`: the table takes only inserts. Set by the operator."""
    PARTITION_KEY = "PartitionKey"
    """Comma-separated partition columns of the lake table, whose names do not begin with `_` or `.`. `null`: none. Set
    by the operator."""
    ACTIVE_FLAG = "ActiveFlag"
    """`true` lets the jobs work on the table. Set by the operator."""
    SCHEMA = "Schema"
    """Columns of CSV files without a header line, all but `Op`, in order: `id int, name string`. With a header
    line, or in Parquet: types of the columns named. Set by the operator."""
    CSV_DELIMITER = "CsvDelimiter"
    """Field delimiter of CSV files: one character, or `\\t`. Same as the DMS endpoint setting. Set by the operator."""
    CSV_ROW_DELIMITER = "CsvRowDelimiter"
    """Row delimiter of CSV files. Same as the DMS endpoint setting. Set by the operator."""
    CSV_NULL_VALUE = "CsvNullValue"
    """Unquoted CSV field that means null. Same as the DMS endpoint setting. Set by the operator."""
    CSV_NO_SUP_VALUE = "CsvNoSupValue"
    """CSV field that means "not sent": the lake keeps its value. Set by the operator."""
    RFC4180 = "Rfc4180"
    """`false` if quotes in CSV files have no meaning. Same as the DMS endpoint setting. Set by the operator."""
    ADD_COLUMN_NAME = "AddColumnName"
    """`true` or `false`: whether a first line of a CSV file that may be a header or a row is a header. Not set: such a
    file is refused. Same as the DMS endpoint setting. Set by the operator."""
    CDC_PATH = "CdcPath"
    """Folder of DMS's transaction files (`CDC_TXN-...`) below the raw prefix, same as the endpoint's setting
    of that name. Set by the operator."""
    ORDER_COLUMN = "OrderColumn"
    """Source column that orders change rows; file name and row break ties. Set by the operator."""
    LATE_WINDOW_HOURS = "LateWindowHours"
    """How much older than the newest applied change file a late one may be. Set by the operator."""
    MAX_QUARANTINED_ROWS = "MaxQuarantinedRows"
    """Most bad rows that one change may quarantine; with more, the table stops. Set by the operator."""
    TARGET_FILE_BYTES = "TargetFileBytes"
    """Size that data files grow to: a rewritten file absorbs small neighbors up to it, and is cut at twice the size.
    Set by the operator."""
    RETENTION_DAYS = "RetentionDays"
    """How long earlier states of the lake table are kept, so that you can roll back to them. Set by the operator."""
    CLEAN_UP = "CleanUp"
    """`automatic`: runs delete what only states past `RetentionDays` need. `manual`: only `cdclake clean-up` does. Set
    by the operator."""
    FULL_LOAD_QUIET_MINUTES = "FullLoadQuietMinutes"
    """Time without a new `LOAD` file after which a full load is applied; longer if its files arrive slowly. `0`: at
    once. Set by the operator."""
    DMS_TASK = "DmsTask"
    """ARN of the DMS task that must report the table complete before a full load is applied. Set by the operator."""
    MAX_FILES_PER_RUN = "MaxFilesPerRun"
    """Maximum number of change files in one change. Set by the operator."""
    MAX_BYTES_PER_RUN = "MaxBytesPerRun"
    """Maximum bytes of change files in one change; a larger file is applied by itself. Set by the operator."""

    MISSING_COLUMNS = "MissingColumns"
    """Where an update file lacks columns of the table: `keep` keeps the lake's values, `null` sets them to null. Set by
    the operator."""
    NULL_MEANS_UNSENT = "NullMeansUnsent"
    """Comma-separated columns whose null in an update means that the value was not sent, such as PostgreSQL's unchanged
    TOAST values: the lake keeps its value. Set by the operator."""
    SCHEMA_POLICY = "SchemaPolicy"
    """When columns change at the source: `evolve`: apply and report; `warn`: also, and the table is `incomplete` until
    `cdclake tables acknowledge`; `freeze`: apply nothing before that. Set by the operator."""
    READERS = "Readers"
    """`folder` (the default): readers list the table's folder of plain Parquet. `iceberg`: they open an Apache Iceberg
    table, in which every change appears at once. `both`: they do either, and the Iceberg table shows the newest change
    of the same files. Takes effect with the next change. Set by the operator."""
    ACCEPTED_DRIFT = "AcceptedDrift"
    """Column changes that an operator accepted with `cdclake tables acknowledge` while `SchemaPolicy` is `freeze`."""
    ACCEPT_LOST_CHANGES = "AcceptLostChanges"
    """Number of the table's newest change: the next one may be a reload from old `LOAD` files without changes whose
    files are gone. Taken only as in the error of the refused reload. Set by the operator."""
    ACKNOWLEDGED_CHANGE = "AcknowledgedChange"
    """Number of the newest change at the last `cdclake tables acknowledge`."""
    IGNORE_FILES = "IgnoreFiles"
    """Comma-separated globs of raw files to leave out. A glob must match the whole key within the table's folder; `*`
    matches slashes too. Set by the operator."""

    UNIQUE_CHECKS = "UniqueChecks"
    """When the source checks that keys are unique. `immediate`: row by row, as MySQL, MariaDB and PostgreSQL do.
    `deferred`: at the end of a statement or transaction, as Oracle, SQL Server and PostgreSQL's `DEFERRABLE` keys do.
    Set by the operator."""
    UNKNOWN_KEYS = "UnknownKeys"
    """When an update has a key that the table lacks, and no `BI_` value tells the key before, so that it may have
    changed it: `warn`: insert the row, and the table is `incomplete` until `cdclake tables acknowledge`; `refuse`:
    apply nothing; `insert`: insert the row. Not set: `warn` in a table with a full load, else `insert`. Set by the
    operator."""
    DELETE_MODE = "DeleteMode"
    """`hard`: a delete removes the row from the lake table. `soft`: the row stays, and its `Op` is `D`. Set by the
    operator."""

    HISTORY = "History"
    """`true` keeps every version of each row in a table next to the lake table. Set by the operator."""
    HISTORY_TIME_COLUMN = "HistoryTimeColumn"
    """Timestamp column of the lake table that sets `valid_from`, such as DMS's `TimestampColumnName`. Without it, DMS's
    times do. Set by the operator."""

    CATALOG_TABLE = "CatalogTable"
    """Name of the table in the Glue Data Catalog: `a-z`, `0-9` and `_`. Default: `<schema>_<table>`. Set by the
    operator."""

    LAST_FULL_LOAD_DATE = "LastFullLoadDate"
    """When the newest applied `LOAD` file was written, `yyyy-mm-dd HH:MM:SS` (UTC). `1900-01-01 00:00:00`: none yet."""
    LAST_INCREMENTAL_FILE = "LastIncrementalFile"
    """`<raw bucket>/<key>` of the latest change file applied: the watermark. `<path>0.parquet`: none yet."""

    LAST_FULL_LOAD_FILES = "LastFullLoadFiles"
    """Hashes of the `LOAD` files of the last full load; empty if unknown."""
    LAST_RECORDED = "LastRecorded"
    """JSON of `LastFullLoadDate` and `LastIncrementalFile` as the jobs wrote them. Other values were set by hand."""

    LAST_RUN_STATE = "LastRunState"
    """`SUCCEEDED` or `FAILED`: how the last run of this table ended."""
    LAST_RUN_ID = "LastRunId"
    """Glue job run id of the ProcessTable run that wrote this."""
    LAST_RUN_UTC = "LastRunUtc"
    """When that run ended."""
    LAST_LISTED_UTC = "LastListedUtc"
    """When the last good run began to list the raw files; it may have missed later ones."""
    LAST_ERROR = "LastError"
    """Error of the last run, with the remedy; empty after a good run."""
    LAST_ERROR_CODE = "LastErrorCode"
    """Kind of that error, such as `InputError`; it determines the exit status."""
    LAST_DEATHS = "LastDeaths"
    """How many Spark runs died at this table since a good run, as text. Until then the table has Spark runs of its own,
    which read each raw file alone first; empty if none."""
    LAST_FINDINGS = "LastFindings"
    """What changes left out or found, and no operator has acknowledged, as JSON; absent until a run wrote it."""
    LAST_DRIFT = "LastDrift"
    """Column changes for which the last run refused to apply anything; empty if none."""
    LAST_OFF_BY_ROLLBACK = "LastOffByRollback"
    """`true`: a rollback turned the table off, and nobody has turned it on since, or left it off on purpose with
    `cdclake tables pause` or `cdclake rollback --leave-off`."""
    LAST_CHANGE_ID = "LastChangeId"
    """Number of the lake table's newest change."""
    LAST_RETIRED_SINCE_UTC = "LastRetiredSinceUtc"
    """When the oldest files were retired that no clean-up has deleted yet; empty: there are none."""
    LAST_PENDING = "LastPending"
    """Number of change files listed and not yet applied, and the last of them; empty if none. `cdclake tables
    unfreeze` clears it."""
    LAST_LEFT_OUT = "LastLeftOut"
    """JSON of what the last run left out: whether there were unread files, and change files that came too late or were
    overwritten. Empty if nothing."""
    LAST_KEYS = "LastKeys"
    """`PrimaryKey`, `PartitionKey` and `OrderColumn` that the lake table was created with, as a JSON list."""
    LAST_KNOWN_FILES = "LastKnownFiles"
    """Digest and counts of the change files up to the watermark that the last good run saw, as JSON. If others are
    there, a run checks them; absent until a run wrote it."""
    LAST_LOOK_FROM = "LastLookFrom"
    """Time in the name of the 800th change file before the watermark, `yyyymmdd-HHMMSS`; empty if there are fewer.
    The Controller lists new files from there at the earliest."""
    LAST_PAGE_END = "LastPageEnd"
    """Key after which the Controller reads its next page of a large raw folder; empty: from the front. An invalid key
    is replaced."""

    LAST_CATALOG_TABLE = "LastCatalogTable"
    """`<database>.<table>` that shows the lake table in the Glue Data Catalog; absent if none."""
    LAST_CATALOG_ERROR = "LastCatalogError"
    """Why the catalog could not be updated, with the remedy; empty if it is up to date."""

    LEASE_HOLDER = "LeaseHolder"
    """Run that may write the table until `LeaseExpiresUtc`; absent when free."""
    LEASE_EXPIRES_UTC = "LeaseExpiresUtc"
    """When the lease expires. A lease that ends more than ten minutes from now counts as expired."""
    FENCING_TOKEN = "FencingToken"
    """Counts leases: a later holder has a greater number, also than any in the lake."""
    WORK_REQUESTED_UTC = "WorkRequestedUtc"
    """An event asked for a run that has not yet listed the raw files; absent if none is waiting."""


DRIFT_SEPARATOR = "; "
"""Between the column changes in `AcceptedDrift` and `LastDrift`."""


class Sentinel:
    """Values that mean "nothing yet". They stay valid in all versions."""

    NONE = "null"
    NEVER_LOADED = "1900-01-01 00:00:00"
    FIRST_FILE = "0.parquet"
    """`LastIncrementalFile` of a table without applied changes is its path followed by this."""
    INACTIVE = "false"
    ACTIVE = "true"


class RunState:
    """Values of `LastRunState`."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class Argument:
    """Arguments of the Glue jobs, without the leading dashes."""

    BUCKET = "bucket"
    PREFIX = "prefix"
    FOLDER = "folder"
    OUT_PATH = "out_path"
    PRIMARY_KEY = "primaryKey"
    PARTITION_KEY = "partitionKey"
    LAST_INCREMENTAL_FILE = "lastIncrementalFile"
    NEW_INCREMENTAL_FILE = "newIncrementalFile"
    ITEM = "item"
    """JSON of the table's state item."""

    OUT_BUCKET = "out_bucket"
    OUT_PREFIX = "out_prefix"
    STATE_TABLE = "state_table"
    FENCING_TOKEN = "fencing_token"
    NEW_INCREMENTAL_FILES = "newIncrementalFiles"
    """LoadIncremental only: number of change files that the decision counted; fewer are an error."""
    BASE_CHANGE = "base_change"
    """LoadInitial only: the lake's newest change at the decision; if there is a newer one, the load is done."""
    NEW_TABLE = "new_table"
    """Controller only: JSON of settings for newly registered tables, in addition to the defaults."""
    JOB_RUN_ID = "JOB_RUN_ID"
    """Spark jobs only: the run's id; Glue passes it."""
    BATCH = "batch"
    """Spark jobs only: `s3://` URL of the object with the arguments of several tables, instead of the arguments."""
    PROGRESS = "progress"
    """Spark jobs only: `s3://` URL of the object to write the error of a single table to, with its kind."""
    NAME_FILES = "name_files"
    """Spark jobs only: `true`: first read each raw file alone, and write its name to `progress` before; a run died at
    this table."""
    PACK_TABLES = "pack_tables"
    """Controller only: maximum number of tables in one ProcessTable run; 1 gives each table its own run."""
    PACK_TABLE_FILES = "pack_table_files"
    """Controller only: a table with more due raw files gets its own run."""
    PACK_TABLE_BYTES = "pack_table_bytes"
    """Controller only: a table with more due bytes gets its own run."""
    PATHS = "paths"
    """ProcessTable only: JSON list of the paths of several tables, instead of `item`."""
    TIMEOUT_MINUTES = "timeout_minutes"
    """ProcessTable only: after how long the run ends by itself; shorter than the timeout of the Glue job."""
    CATALOG_DATABASE = "catalog_database"
    """ProcessTable only: database of the Glue Data Catalog for the lake tables; empty for none."""
    TABLES = "tables"
    """Controller only: names of tables to limit the run to, separated by commas, or as a JSON list."""
    NAME_PREFIX = "name_prefix"
    """Controller and ProcessTable: prefix of the names of all jobs, and of the namespace of metrics; may be empty."""
    TABLE_METRICS = "table_metrics"
    """`false`: only metrics of all tables together; otherwise also metrics of each table."""
