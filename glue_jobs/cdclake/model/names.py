"""Names that operators, jobs and stored state share, and S3's limit of names. Attributes: `table/attributes.py`.

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

FUNCTION_SMALL_CHANGES = "cdclake-small-changes"
"""The Lambda function that works as ProcessTable, and loads small changes itself."""

HASH_SECRET_VARIABLE = "CDCLAKE_HASH_SECRET"
"""Environment variable with the secret of hashed columns, where no job argument names it."""

MAX_S3_KEY_BYTES = 1024
"""Of an object's key in UTF-8. https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"""


class Sentinel:
    """Values that mean "nothing yet". They stay valid in all versions."""

    NONE = "null"
    NEVER_LOADED = "1900-01-01 00:00:00"
    FIRST_FILE = "0.parquet"
    """`LastIncrementalFile` of a table without applied changes is its path followed by this."""
    INACTIVE = "false"
    ACTIVE = "true"


DRIFT_SEPARATOR = "; "
"""Between the column changes in `AcceptedDrift` and `LastDrift`."""


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
    NEW_TABLE = "new_table"
    """Controller only: JSON of settings for newly registered tables, in addition to the defaults."""
    JOB_RUN_ID = "JOB_RUN_ID"
    """Spark jobs only: the run's id; Glue passes it."""
    PACK_TABLES = "pack_tables"
    """Controller only: maximum number of tables in one ProcessTable run; 1 gives each table its own run."""
    PACK_TABLE_FILES = "pack_table_files"
    """Controller only: a table with more due raw files gets its own run."""
    PACK_TABLE_BYTES = "pack_table_bytes"
    """Controller only: a table with more due bytes gets its own run."""
    PATHS = "paths"
    """ProcessTable: JSON list of the paths of several tables, instead of `item`. Spark jobs: the tables to bring up to
    date, instead of the arguments of one table."""
    LEASE_HOLDER = "lease_holder"
    """Spark jobs only: the ProcessTable run that hands its leases over."""
    TIMEOUT_MINUTES = "timeout_minutes"
    """Spark jobs only: the timeout of the Glue job. After half of it, the run leaves further work to another."""
    CATALOG_DATABASE = "catalog_database"
    """ProcessTable, which passes it on: database of the Glue Data Catalog for the lake tables; empty for none."""
    LINEAGE_URL = "lineage_url"
    """ProcessTable, which passes it on: where to send OpenLineage events; empty: they are only logged."""
    HASH_SECRET = "hash_secret"
    """ProcessTable, which passes it on: name of the secret in AWS Secrets Manager that hashes columns; empty for
    none."""
    TABLES = "tables"
    """Controller only: names of tables to limit the run to, separated by commas, or as a JSON list."""
    NAME_PREFIX = "name_prefix"
    """Controller, and ProcessTable, which passes it on: prefix of the names of all jobs and of the metrics' namespace.
    May be empty."""
    TABLE_METRICS = "table_metrics"
    """`false`: only metrics of all tables together; otherwise also metrics of each table."""
