"""The recommended settings of the S3 target endpoint and of the task, and the table mappings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdclake.model.schema import BEFORE_PREFIX
from cdclake_cli.dms.settings import CHANGE_SEQUENCE
from cdclake_cli.doctor.dms.setting import GUIDE, Check, Setting, Source
from cdclake_cli.doctor.findings import Severity

_ERROR, _WARNING, _NOTE = Severity
_S3 = f"{GUIDE}CHAP_Target.S3.html"
_S3_SETTINGS = f"{_S3}#CHAP_Target.S3.Configuring"
_TASK = f"{GUIDE}CHAP_Tasks.CustomizingTasks.TaskSettings"
_DDL = f"{_TASK}.DDLHandling.html"
_ERRORS = f"{_TASK}.ErrorHandling.html"
_TARGET_METADATA = f"{_TASK}.TargetMetadata.html"
_LOB = f"{GUIDE}CHAP_Tasks.LOBSupport.html"
_RULES = f"{GUIDE}CHAP_Tasks.CustomizingTasks.TableMapping.SelectionTransformation"

SEQUENCE_LENGTH = 35
"""Digits of a change sequence."""
DEFAULT_LOB_KILOBYTES = 63
"""Above this the guide warns of slower full loads."""
MAX_LOB_KILOBYTES = 102_400
"""The largest value that the guide recommends."""


@dataclass(frozen=True)
class RawLocation:
    """Where DMS writes raw files. Each value is text, or a template's reference.

    Attributes:
        bucket: The raw bucket.
        role_arn: The role that DMS writes with.
        bucket_owner: Number of the account that owns the bucket.
        folder: The raw prefix without a slash at its end; None if there is none.
        kms_key_arn: The key that encrypts the files; None for S3's own keys.
    """

    bucket: Any
    role_arn: Any
    bucket_owner: Any
    folder: Any = None
    kms_key_arn: Any = None


FILES = (
    Setting(
        "DataFormat",
        "parquet",
        "Columns have names and types, and a truncated file is never taken as complete",
        f"{_S3}#CHAP_Target.S3.Parquet",
        Check(_NOTE, default="csv"),
    ),
    Setting(
        "CompressionType", "GZIP", "Smaller files cost less to store and to read", _S3_SETTINGS, Check(_NOTE, "NONE")
    ),
    Setting(
        "TimestampColumnName",
        "dms_timestamp",
        "Each change has the time of its commit at the source, for history and for people",
        _S3_SETTINGS,
        Check(_NOTE, any_value=True),
    ),
    Setting(
        "CdcMaxBatchInterval",
        60,
        "A file a minute, DMS's default; a longer interval makes fewer files and a later lake",
        _S3_SETTINGS,
    ),
    Setting(
        "RowGroupLength",
        1_000_000,
        "Larger row groups than DMS's 10,000 rows make files smaller (a third less in a test) and faster to read",
        "https://docs.aws.amazon.com/dms/latest/APIReference/API_S3Settings.html",
    ),
    Setting(
        "ParquetTimestampInMillisecond",
        False,
        "Milliseconds would cut the microseconds of timestamps",
        _S3_SETTINGS,
        Check(_WARNING, default=False),
    ),
    Setting(
        "CdcInsertsOnly",
        False,
        "Otherwise updates and deletes are not in the files",
        _S3_SETTINGS,
        Check(_ERROR, default=False),
    ),
    Setting(
        "CdcInsertsAndUpdates",
        False,
        "Otherwise deletes are not in the files, so deleted rows stay in the lake",
        _S3_SETTINGS,
        Check(_ERROR, default=False),
    ),
    Setting(
        "PreserveTransactions",
        False,
        "Transaction files are CSV without column names: a column that is dropped while another is added shifts values",
        f"{_S3}#CHAP_Target.S3.EndpointSettings.CdcPath",
        Check(_WARNING, default=False),
    ),
    Setting(
        "DatePartitionEnabled",
        False,
        "cdclake needs no date folders, and with a time zone the names of files go backwards when summer time ends",
        f"{_S3}#CHAP_Target.S3.DatePartitioning",
    ),
)
"""`S3Settings` that determine the content of the files."""
OWNER_REASON = "DMS writes only while this account owns the bucket, so nobody can take over its name"
OWNER_CHECK = Setting("ExpectedBucketOwner", "<account ID>", OWNER_REASON, _S3, Check(_NOTE, any_value=True))
CSV_HEADER_CHECK = Setting(
    "AddColumnName",
    True,
    "Without names in CSV files, a column that is dropped while another is added shifts values",
    _S3_SETTINGS,
    Check(_WARNING, default=False),
)
TIME_ZONE_CHECK = Setting(
    "DatePartitionTimezone",
    "UTC",
    "In other zones the names of files go backwards when summer time ends",
    f"{_S3}#CHAP_Target.S3.DatePartitioning",
    Check(_WARNING, default="UTC", also=("Etc/UTC",)),
)


def s3_settings(location: RawLocation) -> list[Setting]:
    """`S3Settings` of the target endpoint."""
    settings = [Setting("BucketName", location.bucket, "The raw bucket of cdclake", _S3_SETTINGS)]
    if location.folder:
        reason = "The raw prefix of cdclake, above the schemas' folders"
        settings.append(Setting("BucketFolder", location.folder, reason, _S3_SETTINGS))
    settings += [
        Setting(
            "ServiceAccessRoleArn",
            location.role_arn,
            "The role that DMS writes with: s3:PutObject, s3:PutObjectTagging, s3:DeleteObject and s3:ListBucket",
            f"{_S3}#CHAP_Target.S3.Prerequisites",
        ),
        Setting("ExpectedBucketOwner", location.bucket_owner, OWNER_REASON, _S3),
    ]
    if location.kms_key_arn:
        url = f"{_S3}#CHAP_Target.S3.KMSKeys"
        settings += [
            Setting("EncryptionMode", "SSE_KMS", "Your own key encrypts the files", url),
            Setting("ServerSideEncryptionKmsKeyId", location.kms_key_arn, "DMS's role must be allowed to use it", url),
        ]
    return [*settings, *FILES]


def task_settings(source: Source, lob_kilobytes: int = DEFAULT_LOB_KILOBYTES) -> list[Setting]:
    """Task settings, named `Section.Name`.

    Args:
        lob_kilobytes: Size of the largest LOB at the source.
    """
    settings = [
        Setting(
            "Logging.EnableLogging",
            True,
            "DMS writes truncated values and rejected rows only to this log",
            f"{_TASK}.Logging.html",
            Check(_NOTE, default=False),
        ),
        Setting(
            "FullLoadSettings.TargetTablePrepMode",
            "DO_NOTHING",
            "Other modes drop or truncate a table before a reload, and with it raw files that are not applied yet",
            f"{GUIDE}CHAP_Tasks.ReloadTables.html",
            Check(_WARNING, default="DROP_AND_CREATE"),
        ),
        Setting(
            "ChangeProcessingDdlHandlingPolicy.HandleSourceTableDropped",
            False,
            "Otherwise DMS deletes the raw files, applied or not, when the source table is dropped",
            _DDL,
        ),
        Setting(
            "ChangeProcessingDdlHandlingPolicy.HandleSourceTableTruncated",
            False,
            "Otherwise DMS deletes the raw files, applied or not, when the source table is truncated",
            f"{_S3}#CHAP_Target.S3.Limitations",
        ),
        Setting(
            "ChangeProcessingDdlHandlingPolicy.HandleSourceTableAltered",
            True,
            "New columns and wider types reach the lake",
            _DDL,
            Check(_WARNING, default=True),
        ),
        Setting(
            "TargetMetadata.SupportLobs",
            True,
            "Otherwise LOB columns are not in the files",
            _TARGET_METADATA,
            Check(_WARNING, default=True),
        ),
        Setting(
            "TargetMetadata.FullLobMode",
            False,
            "S3 targets do not support full LOB mode",
            f"{_S3}#CHAP_Target.S3.Limitations",
            Check(_WARNING, default=False),
        ),
        Setting("TargetMetadata.LimitedSizeLobMode", True, "The LOB mode that S3 targets support", _LOB),
        Setting("TargetMetadata.LobMaxSize", lob_kilobytes, _lob_reason(source), _LOB),
        Setting(
            "TargetMetadata.BatchApplyEnabled",
            False,
            "AWS: batch apply may lose data with an S3 target",
            f"{_S3}#CHAP_Target.S3.Limitations",
            Check(_WARNING, default=False),
        ),
        Setting(
            "ErrorBehavior.DataErrorPolicy",
            "SUSPEND_TABLE",
            "The default only logs a row that DMS cannot convert, and goes on without it",
            _ERRORS,
            Check(_WARNING, default="LOG_ERROR", also=("STOP_TASK",)),
        ),
        Setting(
            "ErrorBehavior.DataTruncationErrorPolicy",
            "SUSPEND_TABLE",
            "The default only logs that a value was truncated",
            _ERRORS,
            Check(_WARNING, default="LOG_ERROR", also=("STOP_TASK",)),
        ),
        Setting("ErrorBehavior.FailOnNoTablesCaptured", True, "A task whose mappings match no table fails", _ERRORS),
    ]
    if source is Source.ORACLE:
        settings.append(
            Setting(
                "ErrorBehavior.FailOnTransactionConsistencyBreached",
                True,
                "Otherwise DMS starts without transactions that are still open after its timeout, and loses them",
                _ERRORS,
                Check(_WARNING, default=False),
            )
        )
    return settings


def _lob_reason(source: Source) -> str:
    if source in (Source.POSTGRES, Source.ORACLE):
        return "Kilobytes of the largest LOB: with FailTasksOnLobTruncation the task fails at a longer one"
    return "Kilobytes of the largest LOB: DMS cuts a longer one and only logs it, so look for the largest first"


def mapping_rules(schema: str) -> list[Setting]:
    """The rules of the table mappings.

    Args:
        schema: Name of the schema, in which `%` matches any text.
    """
    selection = {
        "rule-type": "selection",
        "rule-id": "1",
        "rule-name": "tables",
        "object-locator": {"schema-name": schema, "table-name": "%"},
        "rule-action": "include",
    }
    return [
        Setting("tables", selection, "All tables of the schema; add rules that exclude", f"{_RULES}.Selections.html"),
        Setting(
            "order",
            sequence_rule("2", "order", schema, "%"),
            f"{CHANGE_SEQUENCE} orders changes whatever the names and times of files; a sequence has 35 digits",
            f"{_RULES}.Expressions.html#CHAP_Tasks.CustomizingTasks.TableMapping.SelectionTransformation"
            ".Expressions-Headers",
        ),
        Setting(
            "old-keys",
            old_key_rule("3", "old-keys", schema, "%"),
            f"An update that changes the key has the old key in {BEFORE_PREFIX} columns, so its row is removed",
            f"{_RULES}.Transformations.html",
        ),
    ]


def table_mappings(schema: str) -> dict[str, Any]:
    """The table mappings of a task; see `mapping_rules`."""
    return {"rules": [rule.value for rule in mapping_rules(schema)]}


def sequence_rule(number: str, name: str, schema: str, table: str) -> dict[str, Any]:
    """A mapping rule that adds `AR_H_CHANGE_SEQ`."""
    action = {
        "rule-action": "add-column",
        "value": CHANGE_SEQUENCE,
        "expression": f"${CHANGE_SEQUENCE}",
        "data-type": {"type": "string", "length": SEQUENCE_LENGTH},
    }
    return _rule(number, name, schema, table, action)


def old_key_rule(number: str, name: str, schema: str, table: str) -> dict[str, Any]:
    """A mapping rule that adds a `BI_` column for each key column."""
    definition = {"column-prefix": BEFORE_PREFIX, "column-suffix": "", "column-filter": "pk-only"}
    action = {"rule-action": "add-before-image-columns", "before-image-def": definition}
    return _rule(number, name, schema, table, action)


def _rule(number: str, name: str, schema: str, table: str, action: dict[str, Any]) -> dict[str, Any]:
    return {
        "rule-type": "transformation",
        "rule-id": number,
        "rule-name": name,
        "rule-target": "column",
        "object-locator": {"schema-name": schema, "table-name": table},
        **action,
    }
