"""Settings of a DMS task and its S3 endpoint that affect the files.

Names and defaults come from `S3Settings` in the DMS API
(https://docs.aws.amazon.com/dms/latest/APIReference/API_S3Settings.html), in snake case; the two that begin with `map`
come from `PostgreSQLSettings`. The last three are not endpoint settings: they represent table-mapping rules of the
task.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import RawFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE, _FALSE = {"true", "y"}, {"false", "n"}
ALL_OPERATIONS = "IUD"
CHANGE_SEQUENCE = "AR_H_CHANGE_SEQ"
KILOBYTE = 1000
"""DMS counts file sizes in units of 1,000 bytes: its default `CdcMinFileSize` is 32,000."""


class DataFormat(str, Enum):
    """Format of the files."""

    CSV = "csv"
    PARQUET = "parquet"


class Compression(str, Enum):
    """Compression of the files; for Parquet, of its pages."""

    NONE = "none"
    GZIP = "gzip"


class ParquetVersion(str, Enum):
    """Version of the Parquet format."""

    V1 = "parquet-1-0"
    V2 = "parquet-2-0"


class Encoding(str, Enum):
    """Encoding of Parquet values."""

    PLAIN = "plain"
    PLAIN_DICTIONARY = "plain-dictionary"
    RLE_DICTIONARY = "rle-dictionary"


class DateSequence(str, Enum):
    """Parts of a date folder, in order."""

    YYYYMMDD = "YYYYMMDD"
    YYYYMMDDHH = "YYYYMMDDHH"
    YYYYMM = "YYYYMM"
    MMYYYYDD = "MMYYYYDD"
    DDMMYYYY = "DDMMYYYY"


class DateDelimiter(str, Enum):
    """Delimiter between the parts of a date folder."""

    SLASH = "SLASH"
    UNDERSCORE = "UNDERSCORE"
    DASH = "DASH"
    NONE = "NONE"


class BeforeImages(str, Enum):
    """The `column-filter` of a rule `add-before-image-columns`: the columns that it adds."""

    NONE = "none"
    PRIMARY_KEY = "pk-only"
    NON_LOB = "non-lob"
    ALL = "all"


class ParallelLoad(str, Enum):
    """How a parallel full load names its files."""

    NONE = "none"
    FOLDERS = "folders"
    """One folder for each partition of the source table."""
    SEGMENTS = "segments"
    """A prefix `SEGMENT1_`, `SEGMENT2_` and so on."""


@dataclass(frozen=True)
class DmsSettings:
    """Settings of a DMS task and its S3 endpoint that affect the files.

    Attributes:
        bucket_folder: Folder that holds the schema folders, without leading or trailing slash; empty for none.
        row_group_length: Rows per Parquet row group; 0 for one row group per file. The API documents 10,000 as the
            default, but real files have one row group.
        max_file_size: Maximum size of a full-load file, in kilobytes.
        cdc_max_batch_interval: Seconds after which DMS writes a change file.
        cdc_min_file_size: Size in kilobytes at which DMS writes a change file earlier.
        timestamp_column_name: Column with the commit time, or the transfer time in a full load; empty for none.
        date_partition_timezone: For example `Europe/Berlin`; empty for UTC. Applies only with date folders.
        cdc_path: Folder of transaction files below `bucket_folder`.
        map_boolean_as_boolean: Of a PostgreSQL source: otherwise a boolean is the text `true` or `false`.
        map_unbounded_numeric_as_string: Of a PostgreSQL source: otherwise a NUMERIC without precision has 28 digits, 6
            of them decimals.
        csv_no_sup_value: CSV text for a value that the source did not log, if `use_csv_no_sup_value`.
        before_images: Columns that a rule `add-before-image-columns` adds as `BI_<column>`.
        header_columns: Columns that rules add, named after DMS's headers, such as `AR_H_CHANGE_SEQ`.
        parallel_load: How full-load files are named.
    """

    data_format: DataFormat = DataFormat.CSV
    compression_type: Compression = Compression.NONE
    bucket_folder: str = ""
    csv_delimiter: str = ","
    csv_row_delimiter: str = "\n"
    csv_null_value: str = "NULL"
    rfc4180: bool = True
    add_column_name: bool = False
    add_trailing_padding_character: bool = False
    use_csv_no_sup_value: bool = False
    csv_no_sup_value: str = ""
    parquet_version: ParquetVersion = ParquetVersion.V1
    encoding_type: Encoding = Encoding.RLE_DICTIONARY
    enable_statistics: bool = True
    row_group_length: int = 0
    parquet_timestamp_in_millisecond: bool = False
    include_op_for_full_load: bool = False
    cdc_inserts_only: bool = False
    cdc_inserts_and_updates: bool = False
    timestamp_column_name: str = ""
    use_task_start_time_for_full_load_timestamp: bool = False
    date_partition_enabled: bool = False
    date_partition_sequence: DateSequence = DateSequence.YYYYMMDD
    date_partition_delimiter: DateDelimiter = DateDelimiter.SLASH
    date_partition_timezone: str = ""
    preserve_transactions: bool = False
    cdc_path: str = ""
    max_file_size: int = 1_048_576
    cdc_max_batch_interval: int = 60
    cdc_min_file_size: int = 32_000
    map_boolean_as_boolean: bool = False
    map_unbounded_numeric_as_string: bool = False
    before_images: BeforeImages = BeforeImages.NONE
    header_columns: tuple[str, ...] = ()
    parallel_load: ParallelLoad = ParallelLoad.NONE

    def __post_init__(self) -> None:
        """Reject values that DMS rejects, and values that make the files ambiguous.

        Raises:
            ConfigurationError: A setting is invalid; the message names it.
        """
        _require(len(self.csv_delimiter) == 1, "CsvDelimiter", "one character")
        valid = self.csv_row_delimiter not in {"", self.csv_delimiter}
        _require(valid, "CsvRowDelimiter", "a text other than CsvDelimiter")
        for name in ("csv_null_value", "csv_no_sup_value"):
            valid = not any(mark in getattr(self, name) for mark in (self.csv_delimiter, self.csv_row_delimiter))
            _require(valid, dms_name(name), "a text without delimiters")
        both = self.cdc_inserts_only and self.cdc_inserts_and_updates
        _require(not both, "CdcInsertsAndUpdates", "false, or CdcInsertsOnly to false")
        for name in ("max_file_size", "cdc_max_batch_interval", "cdc_min_file_size"):
            _require(getattr(self, name) > 0, dms_name(name), "a number greater than 0")
        _require(self.row_group_length >= 0, "RowGroupLength", "a number of rows, or 0 for one row group")
        unsent = self.csv_no_sup_value
        _require(bool(unsent) or not self.use_csv_no_sup_value, "CsvNoSupValue", "the text for a value not sent")
        _require(not unsent or unsent != self.csv_null_value, "CsvNoSupValue", "a text other than CsvNullValue")
        if self.preserve_transactions:
            _require(bool(self.cdc_path.strip("/")), "CdcPath", "the folder of the transaction files")
            reason = "false, because PreserveTransactions is true"
            _require(not self.date_partition_enabled, "DatePartitionEnabled", reason)
            _require(not self.add_column_name, "AddColumnName", reason)
        for name in self.header_columns:
            _require(name.startswith("AR_H_"), "HeaderColumns", "names of DMS headers, such as AR_H_CHANGE_SEQ")
        _ = self.zone

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of date folders and, if they are enabled, of the names of change files.

        Raises:
            ConfigurationError: The time zone does not exist.
        """
        name = self.date_partition_timezone if self.date_partition_enabled else ""
        try:
            return ZoneInfo(name or "UTC")
        except (ZoneInfoNotFoundError, ValueError) as error:
            remedy = "Write it as Area/Location, such as Europe/Berlin"
            message = f"DatePartitionTimezone is '{name}'"
            raise ConfigurationError(message, remedy=remedy) from error

    @property
    def raw_format(self) -> RawFormat:
        """Format of full-load and change files, which their names end with."""
        if self.data_format is DataFormat.PARQUET:
            return RawFormat.PARQUET
        return RawFormat.CSV if self.compression_type is Compression.NONE else RawFormat.CSV_GZ

    @property
    def csv_changes(self) -> bool:
        """Whether change files are CSV. Transaction files always are."""
        return self.preserve_transactions or self.data_format is DataFormat.CSV

    @property
    def unsent_text(self) -> str | None:
        """CSV text for a value that the source did not log; None if it is written as null."""
        return self.csv_no_sup_value if self.use_csv_no_sup_value else None

    @property
    def operations(self) -> str:
        """Operations that change files contain."""
        return "I" if self.cdc_inserts_only else "IU" if self.cdc_inserts_and_updates else ALL_OPERATIONS

    @property
    def op_in_changes(self) -> bool:
        """Whether change files have the column `Op`."""
        return self.operations == ALL_OPERATIONS or self.include_op_for_full_load


def settings_from(names: Mapping[str, object]) -> DmsSettings:
    """Parse settings by their DMS names; a setting that is not named has DMS's default.

    Args:
        names: Values by name, such as `CsvNullValue`; as text, or as parsed from JSON.

    Raises:
        ConfigurationError: A setting is unknown or its value is invalid.
    """
    kinds = {dms_name(field.name): field for field in fields(DmsSettings)}
    values: dict[str, Any] = {}
    for name, value in names.items():
        field = kinds.get(name)
        if field is None:
            message = f"'{name}' is not a DMS setting that affects the files"
            raise ConfigurationError(message, remedy=f"Use one of {', '.join(kinds)}")
        assert field.default is not MISSING
        values[field.name] = _parsed(name, value, field.default)
    return DmsSettings(**values)


def dms_name(field: str) -> str:
    """The DMS name of a setting: `CsvNullValue` for `csv_null_value`."""
    return "".join(part.capitalize() for part in field.split("_"))


def _parsed(name: str, value: object, default: object) -> object:
    """The value, converted to the type of the default."""
    if isinstance(default, tuple):
        parts = value if isinstance(value, list) else str(value).split(",")
        return tuple(text for part in parts if (text := str(part).strip()))
    text = str(value)
    if isinstance(default, bool):
        _require(text.lower() in _TRUE | _FALSE, name, "true or false")
        return text.lower() in _TRUE
    if isinstance(default, int):
        _require(text.isascii() and text.isdigit(), name, "a whole number")
        return int(text)
    if isinstance(default, Enum):
        kind = type(default)
        known = {member.value.lower(): member for member in kind}
        _require(text.lower() in known, name, f"one of {', '.join(member.value for member in kind)}")
        return known[text.lower()]
    if name in {"CsvDelimiter", "CsvRowDelimiter"}:
        # Endpoint settings are written with backslash escapes, in the AWS console as in JSON.
        text = text.replace("\\t", "\t").replace("\\r", "\r").replace("\\n", "\n")
    return text


def _require(valid: bool, name: str, expected: str) -> None:
    if not valid:
        message = f"The value of the DMS setting {name} is invalid"
        raise ConfigurationError(message, remedy=f"Set it to {expected}")
