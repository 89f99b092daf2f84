"""Every name that operators, jobs and stored state share, spelled once.

The state table, its first eight attributes, their sentinels, the four job names and the job arguments are those of
AWS's walkthrough "Load ongoing data lake changes with AWS DMS and AWS Glue", so that a state table made for it, and the
habits, carry over.
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
    """Comma-separated key columns. `null`: only inserts are taken. Set by a person."""
    PARTITION_KEY = "PartitionKey"
    """Comma-separated partition columns of the lake table. `null`: none. Set by a person."""
    ACTIVE_FLAG = "ActiveFlag"
    """`true` lets the jobs work on the table. Set by a person."""
    SCHEMA = "Schema"
    """Columns of CSV files without a header line, all but `Op`, in order: `id int, name string`. With a header
    line, or in Parquet: types of the columns named. Set by a person."""
    CSV_DELIMITER = "CsvDelimiter"
    """Field delimiter of CSV files: one character, or `\\t`. As the DMS endpoint setting. Set by a person."""
    CSV_ROW_DELIMITER = "CsvRowDelimiter"
    """Row delimiter of CSV files. As the DMS endpoint setting. Set by a person."""
    CSV_NULL_VALUE = "CsvNullValue"
    """What an unquoted CSV field must equal to be null. As the DMS endpoint setting. Set by a person."""
    CSV_NO_SUP_VALUE = "CsvNoSupValue"
    """What a CSV field must equal to mean "not sent": the lake's value stays. Set by a person."""
    RFC4180 = "Rfc4180"
    """`false` if quotes in CSV files have no meaning. As the DMS endpoint setting. Set by a person."""
    CDC_PATH = "CdcPath"
    """Folder of DMS's transaction files (`CDC_TXN-...`) below the raw prefix, as the endpoint's setting of that
    name. Set by a person."""
    ORDER_COLUMN = "OrderColumn"
    """Source column that orders change rows before file name and row do. Set by a person."""
    LATE_WINDOW_HOURS = "LateWindowHours"
    """How much older than the newest applied change file a late one may be. Set by a person."""
    MAX_QUARANTINED_ROWS = "MaxQuarantinedRows"
    """Bad rows that one change may put aside before it stops instead. Set by a person."""
    TARGET_FILE_BYTES = "TargetFileBytes"
    """Size that data files of the lake grow to; a file that is rewritten takes in small neighbours up to it, and is
    cut at twice that. Set by a person."""
    RETENTION_DAYS = "RetentionDays"
    """How long `cdclake clean-up` keeps what the lake table was, so that one can go back to it. Set by a person."""
    FULL_LOAD_QUIET_MINUTES = "FullLoadQuietMinutes"
    """A full load is taken once no `LOAD` file came for so long. `0`: at once. Set by a person."""
    DMS_TASK = "DmsTask"
    """ARN of the DMS task that must say that the table is complete before a full load is taken. Set by a person."""
    MAX_FILES_PER_RUN = "MaxFilesPerRun"
    """Change files that one change takes at most. Set by a person."""
    MAX_BYTES_PER_RUN = "MaxBytesPerRun"
    """Bytes of change files that one change takes at most; a larger file is taken alone. Set by a person."""

    DELETE_MODE = "DeleteMode"
    """`hard`: a delete takes the row out of the lake table. `soft`: the row stays, and its `Op` is `D`. Set by a
    person."""

    HISTORY = "History"
    """`true` keeps every version of each row in a table beside the lake table. Set by a person."""
    HISTORY_TIME_COLUMN = "HistoryTimeColumn"
    """Timestamp column of the lake table that says since when a row's version holds, such as the one of DMS's
    `TimestampColumnName`. Without one DMS's times do. Set by a person."""

    CATALOG_TABLE = "CatalogTable"
    """Name of the table in the Glue Data Catalog: `a-z`, `0-9` and `_`. Without one `<schema>_<table>`. Set by a
    person."""

    LAST_FULL_LOAD_DATE = "LastFullLoadDate"
    """When the newest `LOAD` file applied was written, `yyyy-mm-dd HH:MM:SS` (UTC). `1900-01-01 00:00:00`: none yet."""
    LAST_INCREMENTAL_FILE = "LastIncrementalFile"
    """`<raw bucket>/<key>` of the latest change file applied: the watermark. `<path>0.parquet`: none yet."""

    LAST_RUN_STATE = "LastRunState"
    """`SUCCEEDED` or `FAILED`: how the last run of this table ended."""
    LAST_RUN_ID = "LastRunId"
    """Glue job run id of the ProcessTable run that wrote this."""
    LAST_RUN_UTC = "LastRunUtc"
    """When that run ended."""
    LAST_LISTED_UTC = "LastListedUtc"
    """When the last run that ended well began to list the raw files: what was written later it may not have seen."""
    LAST_ERROR = "LastError"
    """What went wrong, and what to do; empty after a good run."""
    LAST_CHANGE_ID = "LastChangeId"
    """Number of the lake table's newest change."""
    LAST_PENDING = "LastPending"
    """How many change files were listed and not yet applied, and up to which; empty if none. `cdclake tables
    unfreeze` clears it."""
    LAST_LOOK_FROM = "LastLookFrom"
    """Time in the name of the 800th change file before the watermark, `yyyymmdd-HHMMSS`; empty if there are fewer.
    The Controller's look at what is new goes back no further."""
    LAST_PAGE_END = "LastPageEnd"
    """Key in the raw folder after which the Controller reads its next page of a large folder; empty: from the
    front. What is no such key is mended by itself."""

    LAST_CATALOG_TABLE = "LastCatalogTable"
    """`<database>.<table>` that shows the lake table in the Glue Data Catalog; absent if none does."""
    LAST_CATALOG_ERROR = "LastCatalogError"
    """Why the catalog could not be brought in line with the lake table, and what to do; empty if it was."""

    LEASE_HOLDER = "LeaseHolder"
    """Run that may write the table until `LeaseExpiresUtc`; absent when free."""
    LEASE_EXPIRES_UTC = "LeaseExpiresUtc"
    """When the lease is anybody's again."""
    FENCING_TOKEN = "FencingToken"
    """Counts leases: a later holder has a greater number."""
    WORK_REQUESTED_UTC = "WorkRequestedUtc"
    """An event asked for a run that has not yet listed the raw files; absent when nobody is waiting."""


class Sentinel:
    """Values that mean "nothing yet"; accepted for ever."""

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
    """LoadIncremental only: so many change files were to be applied when it was decided on; fewer are an error."""
    BASE_CHANGE = "base_change"
    """LoadInitial only: the lake's newest change when the load was decided on; once there is another, it is done."""
    NEW_TABLE = "new_table"
    """Controller only: JSON of settings that a table gets when it is registered, beside the defaults."""
    JOB_RUN_ID = "JOB_RUN_ID"
    """Spark jobs only: the run's own id, which Glue passes."""
    BATCH = "batch"
    """Spark jobs only: `s3://` URL of the object with the arguments of several tables' runs, in place of those."""
    PACK_TABLES = "pack_tables"
    """Controller only: most tables that one ProcessTable run is started for; 1 has each go alone."""
    PACK_TABLE_FILES = "pack_table_files"
    """Controller only: a table with more raw files due goes alone."""
    PACK_TABLE_BYTES = "pack_table_bytes"
    """Controller only: a table with more bytes due goes alone."""
    PATHS = "paths"
    """ProcessTable only: JSON list of the paths of several tables, in place of `item`."""
    TIMEOUT_MINUTES = "timeout_minutes"
    """ProcessTable only: after how long it ends by itself; less than after which Glue ends it."""
    CATALOG_DATABASE = "catalog_database"
    """ProcessTable only: database of the Glue Data Catalog that shows the lake tables; empty: none does."""
    TABLES = "tables"
    """Controller only: comma-separated `schema.table` names to limit the run to."""
    TABLE_METRICS = "table_metrics"
    """`false` keeps the metrics of all tables together only; else there are those of each table beside them."""
