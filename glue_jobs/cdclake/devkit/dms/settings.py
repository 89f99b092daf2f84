"""The settings of a DMS task and its S3 endpoint that show in the files.

Names and defaults are those of `S3Settings` in the DMS API
(https://docs.aws.amazon.com/dms/latest/APIReference/API_S3Settings.html), in snake case. The last three are no endpoint
settings: they stand for table-mapping rules of the task.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cdclake.errors import ConfigurationError
from cdclake.model.rawfiles import RawFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE, _FALSE = {"true", "y"}, {"false", "n"}
ALL_OPERATIONS = "IUD"
KILOBYTE = 1000
"""DMS counts file sizes in thousands of bytes: 32,000 of them are its default `CdcMinFileSize`."""


class DataFormat(str, Enum):
    """What files hold."""

    CSV = "csv"
    PARQUET = "parquet"


class Compression(str, Enum):
    """How files are compressed; in Parquet, its pages are."""

    NONE = "none"
    GZIP = "gzip"


class ParquetVersion(str, Enum):
    """Version of Parquet's format."""

    V1 = "parquet-1-0"
    V2 = "parquet-2-0"


class Encoding(str, Enum):
    """How Parquet's values are encoded."""

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
    """What stands between the parts of a date folder."""

    SLASH = "SLASH"
    UNDERSCORE = "UNDERSCORE"
    DASH = "DASH"
    NONE = "NONE"


class BeforeImages(str, Enum):
    """Which columns a rule `add-before-image-columns` adds; its `column-filter`."""

    NONE = "none"
    PRIMARY_KEY = "pk-only"
    NON_LOB = "non-lob"
    ALL = "all"


class ParallelLoad(str, Enum):
    """How a full load in parallel names its files."""

    NONE = "none"
    FOLDERS = "folders"
    """A folder for each partition of the source's table."""
    SEGMENTS = "segments"
    """`SEGMENT1_` and so on before the name."""


@dataclass(frozen=True)
class DmsSettings:
    """What an operator sets about a DMS task and its S3 endpoint, as far as it shows in the files.

    Attributes:
        bucket_folder: Folder of the schemas' folders, without slashes at its ends; empty for none.
        row_group_length: Rows of a Parquet row group; 0: all of a file. The API speaks of 10,000, files look otherwise.
        max_file_size: Kilobytes of a full-load file.
        cdc_max_batch_interval: Seconds after which a change file is written.
        cdc_min_file_size: Kilobytes at which one is written before that.
        timestamp_column_name: Column with the time of commit, or of transfer in a full load; empty for none.
        date_partition_timezone: As `Europe/Berlin`; empty: UTC. Counts only with date folders.
        cdc_path: Folder of transaction files below `bucket_folder`.
        csv_no_sup_value: What CSV has in place of a value that the source did not log, if `use_csv_no_sup_value`.
        before_images: Columns added by a rule `add-before-image-columns`, as `BI_<column>`.
        header_columns: Columns added by rules that name them after DMS's headers, such as `AR_H_CHANGE_SEQ`.
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
    before_images: BeforeImages = BeforeImages.NONE
    header_columns: tuple[str, ...] = ()
    parallel_load: ParallelLoad = ParallelLoad.NONE

    def __post_init__(self) -> None:
        """Refuse what DMS refuses, and what nobody could read.

        Raises:
            ConfigurationError: Names the setting.
        """
        _require(len(self.csv_delimiter) == 1, "CsvDelimiter", "one character")
        _require(self.csv_row_delimiter not in {"", self.csv_delimiter}, "CsvRowDelimiter", "what ends a row")
        for name in ("csv_null_value", "csv_no_sup_value"):
            clear = not any(mark in getattr(self, name) for mark in (self.csv_delimiter, self.csv_row_delimiter))
            _require(clear, dms_name(name), "a text without delimiters")
        both = self.cdc_inserts_only and self.cdc_inserts_and_updates
        _require(not both, "CdcInsertsAndUpdates", "false, or CdcInsertsOnly to false")
        for name in ("max_file_size", "cdc_max_batch_interval", "cdc_min_file_size"):
            _require(getattr(self, name) > 0, dms_name(name), "a number greater than 0")
        _require(self.row_group_length >= 0, "RowGroupLength", "a number of rows, or 0 for one row group")
        unsent = self.csv_no_sup_value
        _require(bool(unsent) or not self.use_csv_no_sup_value, "CsvNoSupValue", "what stands for a value not sent")
        _require(not unsent or unsent != self.csv_null_value, "CsvNoSupValue", "something else than CsvNullValue")
        if self.preserve_transactions:
            _require(bool(self.cdc_path.strip("/")), "CdcPath", "the folder of the transaction files")
            _require(not self.date_partition_enabled, "DatePartitionEnabled", "false, as PreserveTransactions is true")
            _require(not self.add_column_name, "AddColumnName", "false, as PreserveTransactions is true")
        for name in self.header_columns:
            _require(name.startswith("AR_H_"), "HeaderColumns", "names of DMS's headers, such as AR_H_CHANGE_SEQ")
        _ = self.zone

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of date folders and, where there are such, of the names of change files.

        Raises:
            ConfigurationError: There is no such zone.
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
        """What the names of full-load and change files end with."""
        if self.data_format is DataFormat.PARQUET:
            return RawFormat.PARQUET
        return RawFormat.CSV if self.compression_type is Compression.NONE else RawFormat.CSV_GZ

    @property
    def csv_changes(self) -> bool:
        """Whether change files are CSV: transaction files always are."""
        return self.preserve_transactions or self.data_format is DataFormat.CSV

    @property
    def unsent_text(self) -> str | None:
        """What CSV has in place of a value that the source did not log; None: the null text, as for any null."""
        return self.csv_no_sup_value if self.use_csv_no_sup_value else None

    @property
    def operations(self) -> str:
        """Operations whose rows change files hold."""
        return "I" if self.cdc_inserts_only else "IU" if self.cdc_inserts_and_updates else ALL_OPERATIONS

    @property
    def op_in_changes(self) -> bool:
        """Whether rows of change files tell their operation: not if only some operations are sent without `Op`."""
        return self.operations == ALL_OPERATIONS or self.include_op_for_full_load


def settings_from(names: Mapping[str, object]) -> DmsSettings:
    """Settings by DMS's names; a setting that is not named has DMS's default.

    Args:
        names: Name, such as `CsvNullValue`, to its value as text, or as JSON gives it.

    Raises:
        ConfigurationError: No such setting, or not such a value.
    """
    kinds = {dms_name(field.name): field for field in fields(DmsSettings)}
    values: dict[str, Any] = {}
    for name, value in names.items():
        field = kinds.get(name)
        if field is None:
            message = f"'{name}' is not a setting that shows in the files of DMS"
            raise ConfigurationError(message, remedy=f"Use one of {', '.join(kinds)}")
        assert field.default is not MISSING
        values[field.name] = _parsed(name, value, field.default)
    return DmsSettings(**values)


def dms_name(field: str) -> str:
    """DMS's name of a setting: `csv_null_value` is `CsvNullValue`."""
    return "".join(part.capitalize() for part in field.split("_"))


def _parsed(name: str, value: object, default: object) -> object:
    """A value of the type that the default has."""
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
        known = {one.value.lower(): one for one in kind}
        _require(text.lower() in known, name, f"one of {', '.join(one.value for one in kind)}")
        return known[text.lower()]
    if name in {"CsvDelimiter", "CsvRowDelimiter"}:
        # The endpoint's settings are written with backslashes, in the console as in JSON.
        text = text.replace("\\t", "\t").replace("\\r", "\r").replace("\\n", "\n")
    return text


def _require(good: bool, name: str, wanted: str) -> None:
    if not good:
        message = f"The DMS setting {name} cannot be that"
        raise ConfigurationError(message, remedy=f"Set it to {wanted}")
