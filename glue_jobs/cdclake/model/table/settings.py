"""What operators set for a table, read from its item."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.iceberg.table import Readers
from cdclake.model.names import DRIFT_SEPARATOR, Attribute, Sentinel
from cdclake.model.schema import Schema, parse_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TARGET_FILE_BYTES = 128 * 1024 * 1024
DEFAULT_LATE_WINDOW_HOURS = 72
DEFAULT_RETENTION_DAYS = 30
DEFAULT_FULL_LOAD_QUIET_MINUTES = 10
"""DMS writes the next LOAD file when one is full; even a slow source fills one within some minutes."""
DEFAULT_MAX_FILES_PER_RUN = 10_000
"""A week at DMS's default of one file per minute. Planning them takes half a minute, and listing them in the change
record 300 kB."""
DEFAULT_MAX_BYTES_PER_RUN = 10 * 1024**3
"""320 change files of DMS's default size: at most an hour's work for the workers of the default deployment."""
IMMEDIATE = "immediate"
"""Value of `UniqueChecks`: the source checks keys row by row, so two rows never have one key."""
MAX_RETENTION_DAYS = 36_500
MAX_QUIET_MINUTES = 10_080


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
        schema_text = attribute_text(item, Attribute.SCHEMA)
        return cls(
            primary_key=_columns(item, Attribute.PRIMARY_KEY),
            partition_key=_partition_columns(item),
            schema=parse_columns(schema_text) if schema_text else None,
            csv=_csv_dialect(item),
            order_column=attribute_text(item, Attribute.ORDER_COLUMN),
            late_window_hours=_number(item, Attribute.LATE_WINDOW_HOURS, DEFAULT_LATE_WINDOW_HOURS),
            max_quarantined_rows=_number(item, Attribute.MAX_QUARANTINED_ROWS, 0),
            cdc_path=cdc_path_of(item),
            target_file_bytes=_number(item, Attribute.TARGET_FILE_BYTES, DEFAULT_TARGET_FILE_BYTES, least=1),
            unique_checks=_one_of(item, Attribute.UNIQUE_CHECKS, ("", IMMEDIATE, "deferred")),
            unknown_keys=_unknown_keys(item),
            soft_delete=_one_of(item, Attribute.DELETE_MODE, ("hard", "soft")) == "soft",
            clean_up=_one_of(item, Attribute.CLEAN_UP, ("automatic", "manual")) == "automatic",
            retention_days=_number(item, Attribute.RETENTION_DAYS, DEFAULT_RETENTION_DAYS, most=MAX_RETENTION_DAYS),
            full_load_quiet_minutes=_number(
                item, Attribute.FULL_LOAD_QUIET_MINUTES, DEFAULT_FULL_LOAD_QUIET_MINUTES, most=MAX_QUIET_MINUTES
            ),
            dms_task=attribute_text(item, Attribute.DMS_TASK),
            accept_lost_changes=_change_number(item, Attribute.ACCEPT_LOST_CHANGES),
            max_files_per_run=_number(item, Attribute.MAX_FILES_PER_RUN, DEFAULT_MAX_FILES_PER_RUN, least=1),
            max_bytes_per_run=_number(item, Attribute.MAX_BYTES_PER_RUN, DEFAULT_MAX_BYTES_PER_RUN, least=1),
            ignore_files=_texts(item, Attribute.IGNORE_FILES),
            catalog_table=attribute_text(item, Attribute.CATALOG_TABLE),
            history=_flag(item, Attribute.HISTORY, default="false"),
            history_time_column=attribute_text(item, Attribute.HISTORY_TIME_COLUMN),
            keep_missing_columns=_keep_missing_columns(item),
            null_means_unsent=_columns_outside_key(item, Attribute.NULL_MEANS_UNSENT),
            schema_policy=SchemaPolicy(
                _one_of(item, Attribute.SCHEMA_POLICY, tuple(policy.value for policy in SchemaPolicy))
            ),
            accepted_drift=tuple(attribute_text(item, Attribute.ACCEPTED_DRIFT).split(DRIFT_SEPARATOR)),
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


def cdc_path_of(item: Mapping[str, str]) -> str:
    """The folder of the transaction files; empty if the table has none."""
    return attribute_text(item, Attribute.CDC_PATH).strip("/")


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
    has_header = (
        _flag(item, Attribute.ADD_COLUMN_NAME, "false") if attribute_text(item, Attribute.ADD_COLUMN_NAME) else None
    )
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
    text = attribute_text(item, attribute)
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
    text = (attribute_text(item, attribute) or values[0]).strip().lower()
    if text not in values:
        raise _invalid(item, attribute, " or ".join(filter(None, values)))
    return text


def _invalid(item: Mapping[str, str], attribute: str, expected: str) -> ConfigurationError:
    message = f"{attribute} is {item.get(attribute)!r}"
    return ConfigurationError(message, remedy=f"Set it to {expected}", table=item.get(Attribute.PATH))


def attribute_text(item: Mapping[str, str], attribute: str) -> str:
    """The text of an attribute; empty if it is not set, or `null`."""
    text = item.get(attribute, Sentinel.NONE).strip()
    return "" if text == Sentinel.NONE else text


def _texts(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in attribute_text(item, attribute).split(",") if text.strip())


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
