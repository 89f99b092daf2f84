"""A source table: its name, and its item in the state table."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from cdclake.errors import ConfigurationError
from cdclake.model.iceberg.table import Readers
from cdclake.model.names import DRIFT_SEPARATOR, Attribute, Sentinel
from cdclake.model.rawfiles import file_order, is_transactions_key, read_time, transactions_prefix
from cdclake.model.schema import Schema, parse_columns
from cdclake.model.times import iso_utc, parse_iso_utc
from cdclake.printable import shell_word

if TYPE_CHECKING:
    from collections.abc import Mapping


Item = dict[str, str]
"""One item of the state table: attribute name to value, all strings."""

DEFAULT_TARGET_FILE_BYTES = 128 * 1024 * 1024
DEFAULT_LATE_WINDOW_HOURS = 72
DEFAULT_RETENTION_DAYS = 30
MIN_CLEAN_UP_DELAY = timedelta(days=1)
DEFAULT_FULL_LOAD_QUIET_MINUTES = 10
"""DMS writes the next LOAD file when one is full; even a slow source fills one within some minutes."""
DEFAULT_MAX_FILES_PER_RUN = 10_000
"""A week at DMS's default of one file per minute. Planning them takes half a minute, and listing them in the change
record 300 kB."""
DEFAULT_MAX_BYTES_PER_RUN = 10 * 1024**3
"""320 change files of DMS's default size: at most an hour's work for the workers of the default deployment."""
LONGEST_LEASE = timedelta(minutes=10)
"""No lease ends later than this from now: runs take leases of five minutes at a time, and writers share a clock."""
IMMEDIATE = "immediate"
"""Value of `UniqueChecks`: the source checks keys row by row, so two rows never have one key."""
MAX_RETENTION_DAYS = 36_500
MAX_QUIET_MINUTES = 10_080
MAX_KEY_BYTES = 1024
"""Maximum length of an S3 key, in UTF-8. https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"""
MAX_READINGS = 3
"""Of an ambiguous name, for its error."""
_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
_STAMP = re.compile(r"[0-9]{8}-[0-9]{6}")
_TYPES = {"L": "a list", "M": "a map", "SS": "a set", "NS": "a set", "BS": "a set", "B": "binary"}
_NO_TEXT = re.compile(rf'{{"({"|".join(_TYPES)})": ')
"""Begins the text of a value that is none, see `cdclake.adapters.dynamodb`."""
_READ_AS_TEXT = {value for name, value in vars(Attribute).items() if name.isupper()} - {
    Attribute.LEASE_HOLDER,
    Attribute.LEASE_EXPIRES_UTC,
    Attribute.WORK_REQUESTED_UTC,
}
"""Without the attributes that the next run replaces, whatever they are."""


@dataclass(frozen=True, order=True)
class TableName:
    """Schema and table of the source database, which are folders, so that they contain no slash."""

    schema: str
    table: str

    def __str__(self) -> str:
        """`schema.table`; with a slash if schema or table contain a dot, so that no two tables have the same text."""
        separator = "/" if "." in self.schema + self.table else "."
        return f"{self.schema}{separator}{self.table}"

    @property
    def typed(self) -> str:
        """The name quoted for a shell, so that commands in remedies are safe to copy."""
        return shell_word(str(self))

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `schema.table` or `schema/table`; with further dots, only the latter is exact.

        Raises:
            ConfigurationError: It is neither, or can be read as the names of several tables.
        """
        separator = "/" if "/" in text else "."
        cuts = [place for place, character in enumerate(text) if character == separator]
        names = [cls(text[:cut], text[cut + 1 :]) for cut in cuts]
        names = [name for name in names if name.schema and name.table and "/" not in name.schema + name.table]
        if not names:
            message = f"'{text}' is not a table name"
            raise ConfigurationError(message, remedy="Write it as schema.table")
        if len(names) > 1:
            message = f"'{text}' can be the name of {len(names)} tables"
            listed = " or ".join(name.typed for name in names[:MAX_READINGS])
            more = " or ..." if len(names) > MAX_READINGS else ""
            raise ConfigurationError(message, remedy=f"Write schema/table with a slash: {listed}{more}")
        return names[0]


@dataclass(frozen=True)
class TableState:
    """The state of one source table in the state table.

    `item` is the item as stored. The properties read it, and treat an absent attribute like its sentinel.
    """

    item: Mapping[str, str] = field(hash=False)

    DATE_FORMAT: ClassVar[str] = _DATE_FORMAT

    @classmethod
    def new(cls, bucket: str, schema_prefix: str, folder: str) -> TableState:
        """State of a new table: inactive, nothing loaded, no keys.

        Args:
            schema_prefix: `<prefix><schema>/`.
            folder: `<table>/`.
        """
        path = f"{bucket}/{schema_prefix}{folder}"
        return cls(
            {
                Attribute.PATH: path,
                Attribute.BUCKET: bucket,
                Attribute.PREFIX: schema_prefix,
                Attribute.FOLDER: folder,
                Attribute.PRIMARY_KEY: Sentinel.NONE,
                Attribute.PARTITION_KEY: Sentinel.NONE,
                Attribute.LAST_FULL_LOAD_DATE: Sentinel.NEVER_LOADED,
                Attribute.LAST_INCREMENTAL_FILE: path + Sentinel.FIRST_FILE,
                Attribute.ACTIVE_FLAG: Sentinel.INACTIVE,
            }
        )

    def with_attributes(self, **attributes: str) -> TableState:
        """A copy of the state with some attributes changed."""
        return replace(self, item={**self.item, **attributes})

    @property
    def path(self) -> str:
        """Key of the item: `<raw bucket>/<prefix><schema>/<table>/`."""
        return self.item[Attribute.PATH]

    @property
    def bucket(self) -> str:
        """Raw bucket."""
        stored = self.item.get(Attribute.BUCKET)
        return stored if stored and self.path.startswith(f"{stored}/") else self.path.partition("/")[0]

    @property
    def raw_prefix(self) -> str:
        """Key prefix of all raw files of the table, with a trailing slash."""
        return self.path[len(self.bucket) + 1 :]

    @property
    def name(self) -> TableName:
        """The name, from the last two folders of the path."""
        parts = self.raw_prefix.rstrip("/").split("/")
        return TableName(parts[-2] if len(parts) > 1 else "", parts[-1])

    def check_types(self) -> None:
        """Refuse attributes of types that cannot be read as text, such as lists. Operators' own attributes may be any.

        Raises:
            ConfigurationError: There is one, or the bucket is not that of the path, or the fencing token no number.
        """
        for name in sorted(_READ_AS_TEXT.intersection(self.item)):
            found = _NO_TEXT.match(self.item[name])
            if found:
                message = f"{name} is {_TYPES[found[1]]}, and every attribute is a text"
                remedy = f"Write {name} as a string, or remove it"
                raise ConfigurationError(message, remedy=remedy, table=self.name)
        stored = self.item.get(Attribute.BUCKET)
        if stored and stored != self.bucket:
            message = f"{Attribute.BUCKET} is '{stored}', but the table's path begins with {self.bucket}/"
            raise ConfigurationError(message, remedy=f"Set it to {self.bucket}", table=self.name)
        _ = self.fencing_token

    @property
    def active(self) -> bool:
        """Whether an operator turned the table on."""
        return self.item.get(Attribute.ACTIVE_FLAG, Sentinel.INACTIVE).strip().lower() == Sentinel.ACTIVE

    @property
    def off_by_rollback(self) -> bool:
        """Whether a rollback turned the table off, and no operator has decided since that it stays off."""
        return not self.active and self.item.get(Attribute.LAST_OFF_BY_ROLLBACK) == Sentinel.ACTIVE

    def leased(self, now: datetime) -> bool:
        """Whether a run holds the table's lease at that time; a broken one, see `lease_fault`, counts as expired."""
        end = self.item.get(Attribute.LEASE_EXPIRES_UTC, "")
        return Attribute.LEASE_HOLDER in self.item and iso_utc(now) < end <= iso_utc(now + LONGEST_LEASE)

    def lease_fault(self, now: datetime) -> str:
        """Why the table's lease is none, although it has not expired, for people; empty if nothing is wrong with it."""
        end = self.item.get(Attribute.LEASE_EXPIRES_UTC, "")
        if Attribute.LEASE_HOLDER not in self.item or iso_utc(now) >= end > "":
            return ""
        if end > iso_utc(now + LONGEST_LEASE):
            minutes = LONGEST_LEASE // timedelta(minutes=1)
            return f"{Attribute.LEASE_EXPIRES_UTC} is '{end}', and no lease lasts longer than {minutes} minutes"
        return "" if end else f"{Attribute.LEASE_EXPIRES_UTC} is missing"

    @property
    def fencing_token(self) -> int:
        """The number of the newest lease; 0 if there was none.

        Raises:
            ConfigurationError: The attribute is not a whole number.
        """
        text = self.item.get(Attribute.FENCING_TOKEN, "0")
        if not text.isdecimal():
            raise self.invalid_token()
        return int(text)

    def invalid_token(self) -> ConfigurationError:
        """The error for a fencing token of another type."""
        message = f"{Attribute.FENCING_TOKEN} is '{self.item.get(Attribute.FENCING_TOKEN)}', not a whole number"
        remedy = "Remove the attribute: the next run or command takes the number from the lake"
        return ConfigurationError(message, remedy=remedy, table=self.name)

    @property
    def settings(self) -> TableSettings:
        """The operator's settings of the table."""
        return TableSettings.from_item(self.item)

    @property
    def last_full_load_utc(self) -> datetime:
        """When the newest applied LOAD file was written; 1900 if none.

        Raises:
            ConfigurationError: The attribute is not `yyyy-mm-dd HH:MM:SS`.
        """
        text = self.item.get(Attribute.LAST_FULL_LOAD_DATE, Sentinel.NEVER_LOADED)
        try:
            return datetime.strptime(text, _DATE_FORMAT).replace(tzinfo=timezone.utc)
        except ValueError as error:
            message = f"{Attribute.LAST_FULL_LOAD_DATE} is '{text}'"
            remedy = f"Write it as yyyy-mm-dd HH:MM:SS, or {Sentinel.NEVER_LOADED} if nothing was loaded"
            raise ConfigurationError(message, remedy=remedy, table=self.name) from error

    @property
    def last_incremental_file(self) -> str:
        """Watermark as stored: `<raw bucket>/<key>`, or the table's path and `0.parquet` if no change was applied."""
        return self.item.get(Attribute.LAST_INCREMENTAL_FILE, self.path + Sentinel.FIRST_FILE)

    @property
    def watermark(self) -> str:
        """Watermark as `RawFile.relative`; empty if no change was applied."""
        return self._relative(self.last_incremental_file)

    def _relative(self, watermark: str) -> str:
        relative = watermark
        if relative.startswith(self.path):
            relative = relative[len(self.path) :]
        elif is_transactions_key(relative):
            relative = relative.rpartition("/")[2]
        return "" if relative == Sentinel.FIRST_FILE else relative

    @property
    def checked_watermark(self) -> str:
        """Watermark as `RawFile.relative`, after checking its form; empty if no change was applied.

        Raises:
            ConfigurationError: It is not the key of a change file.
        """
        watermark = self.watermark
        if watermark in ("", Sentinel.NONE):
            return ""
        if not read_time(file_order(watermark)):
            message = f"{Attribute.LAST_INCREMENTAL_FILE} is '{self.last_incremental_file}', which is not a change file"
            first = f"{self.path}{Sentinel.FIRST_FILE}"
            remedy = f"Set it to {self.path}<change file>, or to {first} to begin with the first file"
            raise ConfigurationError(message, remedy=remedy, table=self.name)
        return watermark

    def as_watermark(self, relative: str) -> str:
        """`<raw bucket>/<key>` of a change file, or the sentinel. Inverse of `watermark`.

        Args:
            relative: `RawFile.relative`; empty for the sentinel.
        """
        if self.transactions_prefix and is_transactions_key(relative):
            return f"{self.bucket}/{self.transactions_folder}{relative}"
        return self.path + (relative or Sentinel.FIRST_FILE)

    @property
    def recorded(self) -> Mapping[str, str]:
        """`LastFullLoadDate` and `LastIncrementalFile` as the jobs last wrote them; empty if they never did."""
        try:
            recorded = dict(json.loads(self.item.get(Attribute.LAST_RECORDED, "")))
        except (ValueError, TypeError):
            return {}
        return {name: text for name, text in recorded.items() if isinstance(text, str)}

    @property
    def watermark_by_hand(self) -> bool:
        """Whether an operator changed the watermark since the jobs wrote it."""
        recorded = self.recorded.get(Attribute.LAST_INCREMENTAL_FILE)
        return recorded is not None and self.checked_watermark != self._relative(recorded)

    @property
    def full_load_date_by_hand(self) -> bool:
        """Whether an operator changed the date of the last full load since the jobs wrote it."""
        recorded = self.recorded.get(Attribute.LAST_FULL_LOAD_DATE)
        return recorded is not None and self.item.get(Attribute.LAST_FULL_LOAD_DATE) != recorded

    @property
    def transactions_prefix(self) -> str:
        """Prefix of the keys of the table's transaction files; empty if it has none."""
        cdc_path = _cdc_path(self.item)
        return transactions_prefix(self.raw_prefix, cdc_path) if cdc_path else ""

    @property
    def transactions_folder(self) -> str:
        """Key prefix of the folder of the table's transaction files, with a trailing slash; empty if it has none."""
        folder, slash, _ = self.transactions_prefix.rpartition("/")
        return folder + slash

    @property
    def last_listed_utc(self) -> datetime | None:
        """When the last successful run began to list the raw files, to the second; None if there was none.

        Raises:
            ConfigurationError: The attribute is not `yyyy-mm-ddTHH:MM:SSZ`.
        """
        text = _value(self.item, Attribute.LAST_LISTED_UTC)
        try:
            return parse_iso_utc(text) if text else None
        except ValueError as error:
            message = f"{Attribute.LAST_LISTED_UTC} is '{text}'"
            remedy = "Remove it: the next run checks every change file of the late window and sets it again"
            raise ConfigurationError(message, remedy=remedy, table=self.name) from error

    def needs_clean_up(self, now: datetime) -> bool:
        """Whether to delete files that are past retention for a day, or for a tenth of the retention time if longer.

        A clean-up reads the records of all retained changes, so each should find enough to delete.
        """
        since = self.item.get(Attribute.LAST_RETIRED_SINCE_UTC)
        if since == "" or not self.last_change:
            return False
        settings = self.settings
        if not settings.clean_up:
            return False
        retention = timedelta(days=settings.retention_days)
        try:
            retired_utc = parse_iso_utc(since or "")
        except ValueError:  # unknown, as after an upgrade
            return True
        # A time to come is as good as none.
        return retired_utc > now + MIN_CLEAN_UP_DELAY or now >= retired_utc + retention + max(
            MIN_CLEAN_UP_DELAY, retention / 10
        )

    @property
    def last_change(self) -> int:
        """Number of the newest change that the item knows of; 0 if none."""
        text = self.item.get(Attribute.LAST_CHANGE_ID, "")
        return int(text) if text.isdecimal() else 0

    @property
    def deaths(self) -> int:
        """Number of Spark runs that died at the table since a good run."""
        text = self.item.get(Attribute.LAST_DEATHS, "")
        return int(text) if text.isdecimal() else 0

    @property
    def acknowledged_change(self) -> int:
        """Number of the newest change when an operator last acknowledged the findings; 0 if never."""
        text = self.item.get(Attribute.ACKNOWLEDGED_CHANGE, "")
        return int(text) if text.isdecimal() else 0

    @property
    def left_out(self) -> str:
        """What the last run left out, see `cdclake.control.plan.left_out`; empty if nothing."""
        return _value(self.item, Attribute.LAST_LEFT_OUT)

    @property
    def last_look_from(self) -> str:
        """`yyyymmdd-HHMMSS`: the scan for new files begins no earlier; empty if absent or invalid."""
        text = self.item.get(Attribute.LAST_LOOK_FROM, "")
        return text if _STAMP.fullmatch(text) else ""

    @property
    def last_page_end(self) -> str:
        """Key within the raw folder after which the next page begins; empty if absent or invalid."""
        text = self.item.get(Attribute.LAST_PAGE_END, "")
        return text if len((self.raw_prefix + text).encode()) <= MAX_KEY_BYTES else ""


@dataclass(frozen=True)
class CsvDialect:
    """The CSV dialect of a table's raw files.

    Attributes:
        delimiter: One character between fields.
        row_delimiter: Ends a row; a newline also matches carriage return and newline.
        null_value: An unquoted field with this text is null.
        no_sup_value: A field with this text was not sent, so the lake keeps its value. None: there is no such text.
        quoting: Whether fields may be quoted (RFC 4180).
        add_column_name: Whether a first line that may be a header or a row is a header; None if it is unknown.
    """

    delimiter: str = ","
    row_delimiter: str = "\n"
    null_value: str = "NULL"
    no_sup_value: str | None = None
    quoting: bool = True
    add_column_name: bool | None = None


class SchemaPolicy(Enum):
    """What happens when columns change at the source."""

    EVOLVE = "evolve"
    """The change is applied and reported."""
    WARN = "warn"
    """It also needs an acknowledgement."""
    FREEZE = "freeze"
    """Nothing is applied before an operator accepts the change."""


class UnknownKeyPolicy(Enum):
    """What happens when an update has a key that the table lacks, and may have changed it unseen."""

    INSERT = "insert"
    """The row is inserted."""
    WARN = "warn"
    """It is, and that needs an acknowledgement."""
    REFUSE = "refuse"
    """Nothing is applied."""


@dataclass(frozen=True)
class TableSettings:
    """The operator's settings of a table, parsed.

    Each field holds the attribute of the same name, see `cdclake.model.names.Attribute`. An empty text or tuple means
    that the attribute is not set.

    Attributes:
        schema: Declared columns and types; None if not declared.
        csv: The attributes of CSV files.
        cdc_path: Without slashes at its ends.
        soft_delete: Whether `DeleteMode` is `soft`.
        clean_up: Whether `CleanUp` is `automatic`.
        keep_missing_columns: Whether `MissingColumns` is `keep`.
        accepted_drift: Texts of `cdclake.model.drift.ColumnDrift`.
        unknown_keys: None if not set.
    """

    primary_key: tuple[str, ...] = ()
    partition_key: tuple[str, ...] = ()
    schema: Schema | None = None
    csv: CsvDialect = CsvDialect()
    order_column: str = ""
    late_window_hours: int = DEFAULT_LATE_WINDOW_HOURS
    max_quarantined_rows: int = 0
    cdc_path: str = ""
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES
    unique_checks: str = ""
    unknown_keys: UnknownKeyPolicy | None = None
    soft_delete: bool = False
    retention_days: int = DEFAULT_RETENTION_DAYS
    clean_up: bool = True
    full_load_quiet_minutes: int = DEFAULT_FULL_LOAD_QUIET_MINUTES
    dms_task: str = ""
    accept_lost_changes: int = 0
    max_files_per_run: int = DEFAULT_MAX_FILES_PER_RUN
    max_bytes_per_run: int = DEFAULT_MAX_BYTES_PER_RUN
    ignore_files: tuple[str, ...] = ()
    catalog_table: str = ""
    history: bool = False
    history_time_column: str = ""
    keep_missing_columns: bool = True
    null_means_unsent: tuple[str, ...] = ()
    schema_policy: SchemaPolicy = SchemaPolicy.EVOLVE
    accepted_drift: tuple[str, ...] = ()
    readers: Readers = Readers.FOLDER

    @classmethod
    def from_item(cls, item: Mapping[str, str]) -> TableSettings:
        """Read the settings of a state item.

        Raises:
            ConfigurationError: A value is invalid; names the attribute.
        """
        schema_text = _value(item, Attribute.SCHEMA)
        return cls(
            primary_key=_columns(item, Attribute.PRIMARY_KEY),
            partition_key=_partition_columns(item),
            schema=parse_columns(schema_text) if schema_text else None,
            csv=_csv_dialect(item),
            order_column=_value(item, Attribute.ORDER_COLUMN),
            late_window_hours=_number(item, Attribute.LATE_WINDOW_HOURS, DEFAULT_LATE_WINDOW_HOURS),
            max_quarantined_rows=_number(item, Attribute.MAX_QUARANTINED_ROWS, 0),
            cdc_path=_cdc_path(item),
            target_file_bytes=_number(item, Attribute.TARGET_FILE_BYTES, DEFAULT_TARGET_FILE_BYTES, least=1),
            unique_checks=_one_of(item, Attribute.UNIQUE_CHECKS, ("", IMMEDIATE, "deferred")),
            unknown_keys=_unknown_keys(item),
            soft_delete=_one_of(item, Attribute.DELETE_MODE, ("hard", "soft")) == "soft",
            clean_up=_one_of(item, Attribute.CLEAN_UP, ("automatic", "manual")) == "automatic",
            retention_days=_number(item, Attribute.RETENTION_DAYS, DEFAULT_RETENTION_DAYS, most=MAX_RETENTION_DAYS),
            full_load_quiet_minutes=_number(
                item, Attribute.FULL_LOAD_QUIET_MINUTES, DEFAULT_FULL_LOAD_QUIET_MINUTES, most=MAX_QUIET_MINUTES
            ),
            dms_task=_value(item, Attribute.DMS_TASK),
            accept_lost_changes=_change_number(item, Attribute.ACCEPT_LOST_CHANGES),
            max_files_per_run=_number(item, Attribute.MAX_FILES_PER_RUN, DEFAULT_MAX_FILES_PER_RUN, least=1),
            max_bytes_per_run=_number(item, Attribute.MAX_BYTES_PER_RUN, DEFAULT_MAX_BYTES_PER_RUN, least=1),
            ignore_files=_texts(item, Attribute.IGNORE_FILES),
            catalog_table=_value(item, Attribute.CATALOG_TABLE),
            history=_flag(item, Attribute.HISTORY, default="false"),
            history_time_column=_value(item, Attribute.HISTORY_TIME_COLUMN),
            keep_missing_columns=_keep_missing_columns(item),
            null_means_unsent=_columns_outside_key(item, Attribute.NULL_MEANS_UNSENT),
            schema_policy=SchemaPolicy(
                _one_of(item, Attribute.SCHEMA_POLICY, tuple(policy.value for policy in SchemaPolicy))
            ),
            accepted_drift=tuple(_value(item, Attribute.ACCEPTED_DRIFT).split(DRIFT_SEPARATOR)),
            readers=Readers(_one_of(item, Attribute.READERS, tuple(one.value for one in Readers))),
        )

    @property
    def named_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that settings name, by attribute; without attributes that name none."""
        columns = {
            Attribute.PRIMARY_KEY: self.primary_key,
            Attribute.PARTITION_KEY: self.partition_key,
            Attribute.ORDER_COLUMN: (self.order_column,),
            Attribute.HISTORY_TIME_COLUMN: (self.history_time_column,),
            Attribute.NULL_MEANS_UNSENT: self.null_means_unsent,
            Attribute.SCHEMA: tuple(self.schema.names) if self.schema else (),
        }
        return {attribute: names for attribute, names in columns.items() if any(names)}


def _unknown_keys(item: Mapping[str, str]) -> UnknownKeyPolicy | None:
    policy = _one_of(item, Attribute.UNKNOWN_KEYS, ("", *(one.value for one in UnknownKeyPolicy)))
    return UnknownKeyPolicy(policy) if policy else None


def _cdc_path(item: Mapping[str, str]) -> str:
    return _value(item, Attribute.CDC_PATH).strip("/")


def _csv_dialect(item: Mapping[str, str]) -> CsvDialect:
    delimiter = _unescaped(item.get(Attribute.CSV_DELIMITER, ","))
    row_delimiter = _unescaped(item.get(Attribute.CSV_ROW_DELIMITER, "\n"))
    if len(delimiter) != 1:
        raise _invalid(item, Attribute.CSV_DELIMITER, "one character, or \\t")
    if not row_delimiter or row_delimiter == delimiter:
        raise _invalid(item, Attribute.CSV_ROW_DELIMITER, "the text that ends a row, such as \\n")
    quoting = _flag(item, Attribute.RFC4180, default="true")
    null_value, no_sup_value = item.get(Attribute.CSV_NULL_VALUE, "NULL"), item.get(Attribute.CSV_NO_SUP_VALUE)
    if null_value == no_sup_value:
        raise _invalid(item, Attribute.CSV_NO_SUP_VALUE, f"another text than {Attribute.CSV_NULL_VALUE}, or remove it")
    has_header = _flag(item, Attribute.ADD_COLUMN_NAME, "false") if _value(item, Attribute.ADD_COLUMN_NAME) else None
    return CsvDialect(delimiter, row_delimiter, null_value, no_sup_value, quoting, has_header)


def _unescaped(text: str) -> str:
    """Replace escapes: DMS's own settings write delimiters as a backslash and a letter."""
    for escaped, character in (("\\t", "\t"), ("\\r", "\r"), ("\\n", "\n")):
        text = text.replace(escaped, character)
    return text


def _number(item: Mapping[str, str], attribute: str, default: int, least: int = 0, most: int | None = None) -> int:
    text = item.get(attribute, str(default)).strip()
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        raise _invalid(item, attribute, f"a whole number, {least} {'or more' if most is None else f'to {most}'}")
    return int(text)


def _change_number(item: Mapping[str, str], attribute: str) -> int:
    """Number of a change; 0 if the attribute is not set."""
    text = _value(item, attribute)
    if text and not text.isdecimal():
        raise _invalid(item, attribute, "the number of the table's newest change, or null")
    return int(text or 0)


def _flag(item: Mapping[str, str], attribute: str, default: str) -> bool:
    text = item.get(attribute, default).strip().lower()
    if text not in {"true", "false"}:
        raise _invalid(item, attribute, "true or false")
    return text == "true"


def _keep_missing_columns(item: Mapping[str, str]) -> bool:
    """Here `null` is a value, not the sentinel of an unset attribute."""
    text = item.get(Attribute.MISSING_COLUMNS, "keep").strip().lower()
    if text not in ("keep", "null"):
        raise _invalid(item, Attribute.MISSING_COLUMNS, "keep or null")
    return text == "keep"


def _one_of(item: Mapping[str, str], attribute: str, values: tuple[str, ...]) -> str:
    """Read one of several values; the first is the default."""
    text = (_value(item, attribute) or values[0]).strip().lower()
    if text not in values:
        raise _invalid(item, attribute, " or ".join(filter(None, values)))
    return text


def _invalid(item: Mapping[str, str], attribute: str, expected: str) -> ConfigurationError:
    message = f"{attribute} is {item.get(attribute)!r}"
    return ConfigurationError(message, remedy=f"Set it to {expected}", table=item.get(Attribute.PATH))


def _value(item: Mapping[str, str], attribute: str) -> str:
    text = item.get(attribute, Sentinel.NONE).strip()
    return "" if text == Sentinel.NONE else text


def _texts(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in _value(item, attribute).split(",") if text.strip())


def _columns(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    names = _texts(item, attribute)
    if len({name.lower() for name in names}) != len(names):
        message = f"{attribute} names a column twice"
        raise ConfigurationError(message, remedy=f"Correct {attribute}", table=item.get(Attribute.PATH))
    return names


def _partition_columns(item: Mapping[str, str]) -> tuple[str, ...]:
    """Each names a folder. Hive, Athena, Spark and Arrow do not read folders that begin with `_` or `.`."""
    names = _columns(item, Attribute.PARTITION_KEY)
    hidden = next((name for name in names if name.startswith(("_", "."))), "")
    if hidden:
        message = f"{Attribute.PARTITION_KEY} names {hidden}, and readers skip folders that begin with _ or ."
        remedy = "Name another column, rename the column with a DMS mapping rule, or set null"
        raise ConfigurationError(message, remedy=remedy, table=item.get(Attribute.PATH))
    return names


def _columns_outside_key(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    names, keys = _columns(item, attribute), {name.lower() for name in _columns(item, Attribute.PRIMARY_KEY)}
    wrong = next((name for name in names if name.lower() in keys), "")
    if wrong:
        message = f"{attribute} names {wrong}, a key column, which every row has"
        raise ConfigurationError(message, remedy=f"Correct {attribute}", table=item.get(Attribute.PATH))
    return names
