"""Combinations of DMS settings and source behavior, as arguments of `cdclake local feed`."""

from __future__ import annotations

SMALL = ("--rows", "40", "--changes", "120", "--files", "8")
"""A feed that is applied quickly."""
_ALL_TYPES = (
    "id bigint, b boolean, t tinyint, s smallint, i int, f float, d double, n decimal(38,10), c char(5), day date, "
    "at timestamp, clock time, blob binary, note string"
)
_TWO_KEYS = "part string, id bigint, name string, quantity int, note string, at timestamp"
_CSV = ("DataFormat=csv",)
_SEQUENCE = "HeaderColumns=AR_H_CHANGE_SEQ"
_MOVES = ("--insert", "0.3", "--update", "0.3", "--delete", "0.2", "--move", "0.2")
_UNTIDY = ("--insert", "0.3", "--update", "0.3", "--delete", "0.2", "--untidy", "0.2")
_OFTEN = ("--late", "2", "--repeated", "1", "--resumed", "1")


def _feed(*settings: str, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (*(part for setting in settings for part in ("--set", setting)), *more)


COMBINATIONS: dict[str, tuple[str, ...]] = {
    "parquet": _feed(more=("--history",)),
    "parquet_gzip": _feed("CompressionType=gzip", "TimestampColumnName=dms_ts", more=("--history",)),
    "bucket_folder": _feed("BucketFolder=dms", more=("--history",)),
    "bucket_folder_transactions": _feed("BucketFolder=dms", "PreserveTransactions=true", "CdcPath=all", *_CSV),
    "parquet_2": _feed("ParquetVersion=parquet-2-0", "EncodingType=plain", "RowGroupLength=7", "EnableStatistics=n"),
    "parquet_ms": _feed("ParquetTimestampInMillisecond=y", "EncodingType=plain-dictionary"),
    "parquet_types": _feed("TimestampColumnName=ts", more=("--columns", _ALL_TYPES, "--history")),
    "parquet_drawn": _feed(more=("--draw-columns", "12", "--seed", "3")),
    "op_in_load": _feed("IncludeOpForFullLoad=true", "TimestampColumnName=ts"),
    "task_start": _feed("TimestampColumnName=ts", "UseTaskStartTimeForFullLoadTimestamp=true"),
    "csv": _feed(*_CSV, more=("--history",)),
    "csv_gzip": _feed(*_CSV, "CompressionType=gzip", "TimestampColumnName=ts", more=_OFTEN),
    "csv_types": _feed(*_CSV, more=("--columns", _ALL_TYPES)),
    "csv_tab": _feed(*_CSV, "CsvDelimiter=\\t", "CsvRowDelimiter=\\r\\n", "CsvNullValue=\\N"),
    "csv_empty_null": _feed(*_CSV, "CsvDelimiter=;", "CsvNullValue=", "IncludeOpForFullLoad=true"),
    "csv_odd_rows": _feed(*_CSV, "CsvRowDelimiter=|#|\\n", "CsvDelimiter=~"),
    "csv_unquoted": _feed(*_CSV, "Rfc4180=false", "CsvDelimiter=|"),
    "csv_header": _feed(*_CSV, "AddColumnName=true", "TimestampColumnName=ts", _SEQUENCE, more=("--history",)),
    "csv_header_schema": _feed(*_CSV, "AddColumnName=y", more=("--schema-changes", "3", "--rounds", "2")),
    "csv_padded": _feed(*_CSV, "AddTrailingPaddingCharacter=true"),
    "csv_unsent": _feed(*_CSV, "UseCsvNoSupValue=true", "CsvNoSupValue=?nosup?", more=_MOVES),
    "csv_drawn": _feed(*_CSV, "CompressionType=gzip", more=("--draw-columns", "10", "--seed", "5")),
    "inserts_only": _feed("CdcInsertsOnly=true"),
    "inserts_only_op": _feed("CdcInsertsOnly=true", "IncludeOpForFullLoad=true", *_CSV),
    "no_deletes": _feed("CdcInsertsAndUpdates=true", "IncludeOpForFullLoad=true", more=("--history",)),
    "no_deletes_no_op": _feed("CdcInsertsAndUpdates=true", *_CSV),
    "dates": _feed("DatePartitionEnabled=true", more=(*_OFTEN, "--start", "2024-03-05T23:55:00")),
    "dates_hours": _feed(
        "DatePartitionEnabled=true",
        "DatePartitionSequence=YYYYMMDDHH",
        "DatePartitionDelimiter=DASH",
        more=("--start", "2024-03-05T09:52:00"),
    ),
    "dates_months": _feed(
        "DatePartitionEnabled=true", "DatePartitionSequence=YYYYMM", "DatePartitionDelimiter=UNDERSCORE", *_CSV
    ),
    "dates_backwards": _feed(
        "DatePartitionEnabled=true",
        "DatePartitionSequence=DDMMYYYY",
        "DatePartitionDelimiter=NONE",
        "DatePartitionTimezone=Europe/Berlin",
        _SEQUENCE,
        more=("--start", "2024-10-27T00:52:00", "--history"),
    ),
    "dates_zone": _feed(
        "DatePartitionEnabled=true",
        "DatePartitionSequence=MMYYYYDD",
        "DatePartitionTimezone=Asia/Tokyo",
        more=("--start", "2024-02-29T14:55:00", "--history"),
    ),
    "load_folders": _feed("ParallelLoad=folders", more=("--load-files", "5")),
    "load_segments": _feed("ParallelLoad=segments", "MaxFileSize=4", *_CSV),
    "before_key": _feed("BeforeImages=pk-only", more=(*_MOVES, "--late", "2", "--repeated", "1", "--history")),
    "before_key_resumed": _feed("BeforeImages=pk-only", _SEQUENCE, more=(*_MOVES, *_OFTEN)),
    "before_all": _feed("BeforeImages=all", _SEQUENCE, "TimestampColumnName=ts", more=(*_MOVES, "--history")),
    "before_csv": _feed(
        "BeforeImages=non-lob", *_CSV, more=(*_MOVES, "--columns", _TWO_KEYS, "--primary-key", "part,id")
    ),
    "moves_without_old_key": _feed(more=_MOVES),
    "all_headers": _feed(
        f"{_SEQUENCE},AR_H_STREAM_POSITION,AR_H_TRANSACTION_ID,AR_H_COMMIT_TIMESTAMP,AR_H_OPERATION", more=_OFTEN
    ),
    "transactions": _feed("PreserveTransactions=true", "CdcPath=cdc/transactions", more=("--history",)),
    "transactions_csv": _feed(
        "PreserveTransactions=true", "CdcPath=cdc/csv", "CompressionType=gzip", "TimestampColumnName=ts", *_CSV
    ),
    "late": _feed(more=(*_OFTEN, "--history")),
    "late_sequences": _feed(_SEQUENCE, more=(*_OFTEN, *_UNTIDY, "--history")),
    "untidy": _feed("TimestampColumnName=ts", more=(*_UNTIDY, "--hot-share", "0.8", "--hot-keys", "2", "--history")),
    "key_deletes": _feed(more=("--delete-image", "key", "--history", *_UNTIDY)),
    "soft_delete": _feed("BeforeImages=pk-only", more=("--soft-delete", *_MOVES, "--history")),
    "soft_delete_csv": _feed(
        *_CSV, "TimestampColumnName=ts", more=("--soft-delete", "--delete-image", "key", *_UNTIDY)
    ),
    "soft_delete_late": _feed(more=("--soft-delete", *_OFTEN, "--schema-changes", "2", "--partition-key", "region")),
    "schema_changes": _feed(more=("--schema-changes", "3", "--history")),
    "schema_changes_late": _feed(more=("--schema-changes", "4", *_OFTEN)),
    "partitions": _feed(more=("--partition-key", "region,gift", "--history")),
    "partitions_csv": _feed(*_CSV, more=("--partition-key", "ordered_on", "--rows", "20", "--changes", "60")),
    "two_keys": _feed(more=("--columns", _TWO_KEYS, "--primary-key", "part,id", "--history")),
    "text_key": _feed(*_CSV, more=("--columns", "id string, name string, n smallint", "--history")),
    "bad_rows": _feed(more=("--fault", "bad-rows", "--bad-rows", "4", "--history")),
    "bad_rows_csv": _feed(*_CSV, "TimestampColumnName=ts", more=("--fault", "bad-rows")),
    "bad_rows_transactions": _feed(
        "PreserveTransactions=true", "CdcPath=cdc/bad", "DataFormat=csv", more=("--fault", "bad-rows")
    ),
    "empty": _feed(more=("--rows", "0", "--history")),
    "tiny_transactions": _feed("TimestampColumnName=ts", more=("--transaction-rows", "1", "--files", "20")),
}
"""Arguments by table name. Files are Parquet unless the arguments set another format."""


def key_of(name: str) -> list[str]:
    """Key columns of a combination's table."""
    arguments = COMBINATIONS[name]
    return arguments[arguments.index("--primary-key") + 1].split(",") if "--primary-key" in arguments else ["id"]
