"""What operators set for a table, read from its item."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.iceberg.table import Readers
from cdclake.model.names import DRIFT_SEPARATOR
from cdclake.model.schema import Schema, parse_columns
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.table.column_policy import Action, ColumnPolicy
from cdclake.model.table.values import (
    ATTRIBUTE,
    attribute_text,
    columns,
    flag,
    invalid,
    is_one,
    member,
    one_of,
    read_fields,
    setting,
    settings,
    text_or_default,
    texts,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.table.name import TableName

COLUMN_ATTRIBUTES = frozenset(attributes_that(lambda declared: declared.names_columns))
"""Attributes that name columns, see `TableSettings.named_columns`."""
IMMEDIATE = "immediate"
"""Value of `UniqueChecks`: the source checks keys row by row, so two rows never have one key."""
MAX_RETENTION_DAYS = 36_500
MAX_QUIET_MINUTES = 10_080


_ALLOWED_ACTIONS: dict[str, tuple[Action, ...]] = {
    Attribute.PRIMARY_KEY: (Action.HASH,),
    Attribute.PARTITION_KEY: (Action.HASH, Action.REDACT, Action.TRUNCATE),
    Attribute.NULL_MEANS_UNSENT: (Action.HASH, Action.REDACT, Action.TRUNCATE),
    Attribute.ORDER_COLUMN: (),
    Attribute.HISTORY_TIME_COLUMN: (),
}
"""Attributes that name columns, and what a rule may do to these."""


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


def _schema(item: Mapping[str, str], attribute: str) -> Schema | None:
    text = attribute_text(item, attribute)
    return parse_columns(text) if text else None


def _delimiter(item: Mapping[str, str], attribute: str) -> str:
    text = _unescaped(text_or_default(item, attribute))
    if len(text) != 1:
        raise invalid(item, attribute, "one character, or \\t")
    return text


def _row_delimiter(item: Mapping[str, str], attribute: str) -> str:
    text = _unescaped(text_or_default(item, attribute))
    if not text or text == _delimiter(item, Attribute.CSV_DELIMITER):
        raise invalid(item, attribute, "the text that ends a row, such as \\n")
    return text


def _unescaped(text: str) -> str:
    """Replace escapes: DMS's own settings write delimiters as a backslash and a letter."""
    for escaped, character in (("\\t", "\t"), ("\\r", "\r"), ("\\n", "\n")):
        text = text.replace(escaped, character)
    return text


def _no_sup_value(item: Mapping[str, str], attribute: str) -> str | None:
    text = item.get(attribute)
    if not text:  # DMS writes null then, which tells nothing
        return None
    if text == text_or_default(item, Attribute.CSV_NULL_VALUE):
        raise invalid(item, attribute, f"another text than {Attribute.CSV_NULL_VALUE}, or empty")
    return text


def _flag_if_set(item: Mapping[str, str], attribute: str) -> bool | None:
    return flag(item, attribute) if attribute_text(item, attribute) else None


def _folder(item: Mapping[str, str], attribute: str) -> str:
    return attribute_text(item, attribute).strip("/")


def _unknown_keys(item: Mapping[str, str], attribute: str) -> UnknownKeyPolicy | None:
    return member(UnknownKeyPolicy)(item, attribute) if attribute_text(item, attribute) else None


def _change_number(item: Mapping[str, str], attribute: str) -> int:
    """Number of a change; 0 if the attribute is not set."""
    text = attribute_text(item, attribute)
    if text and not text.isdecimal():
        raise invalid(item, attribute, "the number of the table's newest change, or null")
    return int(text or 0)


def _keep_missing_columns(item: Mapping[str, str], attribute: str) -> bool:
    """Here `null` is a value, not the sentinel of an unset attribute."""
    text = text_or_default(item, attribute).strip().lower()
    if text not in ("keep", "null"):
        raise invalid(item, attribute, "keep or null")
    return text == "keep"


def _partition_columns(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    """Each names a folder. Hive, Athena, Spark and Arrow do not read folders that begin with `_` or `.`."""
    names = columns(item, attribute)
    hidden = next((name for name in names if name.startswith(("_", "."))), "")
    if hidden:
        message = f"{attribute} names {hidden}, and readers skip folders that begin with _ or ."
        remedy = "Name another column, rename the column with a DMS mapping rule, or set null"
        raise ConfigurationError(message, remedy=remedy, table=item.get(Attribute.PATH))
    return names


def _columns_outside_key(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    names, keys = columns(item, attribute), {name.lower() for name in columns(item, Attribute.PRIMARY_KEY)}
    wrong = next((name for name in names if name.lower() in keys), "")
    if wrong:
        message = f"{attribute} names {wrong}, a key column, which every row has"
        raise ConfigurationError(message, remedy=f"Correct {attribute}", table=item.get(Attribute.PATH))
    return names


def _column_policy(item: Mapping[str, str], attribute: str) -> ColumnPolicy:
    """Some attributes need values of a column that a rule would take away."""
    policy = ColumnPolicy.parse(attribute_text(item, attribute))
    for user, allowed in _ALLOWED_ACTIONS.items():
        for name in columns(item, user) if policy.rules else ():
            rule = policy.find(name)
            if rule and rule.action not in allowed:
                message = f"{attribute} has '{rule}', and {user} needs the values of {name}"
                remedy = f"Correct {attribute} or {user}"
                if allowed:
                    remedy += f"; {user} may name columns with the action {' or '.join(one.value for one in allowed)}"
                raise ConfigurationError(message, remedy=remedy, table=item.get(Attribute.PATH))
    unsent = item.get(Attribute.CSV_NO_SUP_VALUE)
    for rule in policy.rules if unsent else ():
        if rule.action is Action.REDACT or (rule.action is Action.TRUNCATE and len(unsent or "") <= rule.length):
            message = f"{attribute} has '{rule}', and what is left of a value may equal {Attribute.CSV_NO_SUP_VALUE}"
            raise ConfigurationError(message, remedy=f"Exclude or hash {rule.column}", table=item.get(Attribute.PATH))
    return policy


def _drift(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    return tuple(filter(None, attribute_text(item, attribute).split(DRIFT_SEPARATOR)))


@dataclass(frozen=True)
class CsvDialect:
    """The CSV dialect of a table's raw files.

    Attributes:
        delimiter: One character between fields.
        row_delimiter: Ends a row; a newline also matches carriage return and newline.
        null_value: An unquoted field with this text is null.
        no_sup_value: A field with this text was not sent, so the lake keeps its value. None: there is no such text.
            That text may be `null`, so only an empty one means that the attribute is not set.
        quoting: Whether fields may be quoted (RFC 4180).
        add_column_name: Whether a first line that may be a header or a row is a header; None if it is unknown.
    """

    delimiter: str = setting(Attribute.CSV_DELIMITER, _delimiter)
    row_delimiter: str = setting(Attribute.CSV_ROW_DELIMITER, _row_delimiter)
    null_value: str = setting(Attribute.CSV_NULL_VALUE, text_or_default)
    no_sup_value: str | None = setting(Attribute.CSV_NO_SUP_VALUE, _no_sup_value)
    quoting: bool = setting(Attribute.RFC4180, flag)
    add_column_name: bool | None = setting(Attribute.ADD_COLUMN_NAME, _flag_if_set)

    @classmethod
    def from_item(cls, item: Mapping[str, str]) -> CsvDialect:
        """Read the dialect of a state item.

        Raises:
            ConfigurationError: A value is invalid; names the attribute.
        """
        return cls(**read_fields(cls, item))

    @property
    def row_rules(self) -> str:
        """What decides where a file's rows begin and end, and so their numbers; for people and comparisons."""
        return (
            f"{Attribute.CSV_DELIMITER}={self.delimiter!r}, {Attribute.CSV_ROW_DELIMITER}={self.row_delimiter!r},"
            f" {Attribute.RFC4180}={self.quoting}, {Attribute.ADD_COLUMN_NAME}={self.add_column_name}"
        )


@dataclass(frozen=True)
class TableSettings:
    """The operator's settings of a table, parsed.

    Each field holds the attribute that it names, see `attributes.Attribute`. Its default is what an item
    without attributes means. An empty text or tuple means that the attribute is not set.

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

    primary_key: tuple[str, ...] = setting(Attribute.PRIMARY_KEY, columns)
    partition_key: tuple[str, ...] = setting(Attribute.PARTITION_KEY, _partition_columns)
    schema: Schema | None = setting(Attribute.SCHEMA, _schema)
    csv: CsvDialect = settings(CsvDialect.from_item)
    order_column: str = setting(Attribute.ORDER_COLUMN, attribute_text)
    late_window_hours: int = setting(Attribute.LATE_WINDOW_HOURS, whole_number())
    max_quarantined_rows: int = setting(Attribute.MAX_QUARANTINED_ROWS, whole_number())
    cdc_path: str = setting(Attribute.CDC_PATH, _folder)
    target_file_bytes: int = setting(Attribute.TARGET_FILE_BYTES, whole_number(least=1))
    unique_checks: str = setting(Attribute.UNIQUE_CHECKS, one_of(IMMEDIATE, "deferred"))
    unknown_keys: UnknownKeyPolicy | None = setting(Attribute.UNKNOWN_KEYS, _unknown_keys)
    soft_delete: bool = setting(Attribute.DELETE_MODE, is_one("soft", of=("hard", "soft")))
    clean_up: bool = setting(Attribute.CLEAN_UP, is_one("automatic", of=("automatic", "manual")))
    retention_days: int = setting(Attribute.RETENTION_DAYS, whole_number(most=MAX_RETENTION_DAYS))
    keep_every_state: int = setting(Attribute.KEEP_EVERY_STATE, whole_number(least=1, most=MAX_RETENTION_DAYS))
    full_load_quiet_minutes: int = setting(Attribute.FULL_LOAD_QUIET_MINUTES, whole_number(most=MAX_QUIET_MINUTES))
    reload_by_difference: bool = setting(Attribute.RELOAD_MODE, is_one("diff", of=("replace", "diff")))
    max_delay_minutes: int = setting(Attribute.MAX_DELAY_MINUTES, whole_number())
    dms_task: str = setting(Attribute.DMS_TASK, attribute_text)
    accept_lost_changes: int = setting(Attribute.ACCEPT_LOST_CHANGES, _change_number)
    max_files_per_run: int = setting(Attribute.MAX_FILES_PER_RUN, whole_number(least=1))
    max_bytes_per_run: int = setting(Attribute.MAX_BYTES_PER_RUN, whole_number(least=1))
    ignore_files: tuple[str, ...] = setting(Attribute.IGNORE_FILES, texts)
    catalog_table: str = setting(Attribute.CATALOG_TABLE, attribute_text)
    history: bool = setting(Attribute.HISTORY, flag)
    history_time_column: str = setting(Attribute.HISTORY_TIME_COLUMN, attribute_text)
    keep_missing_columns: bool = setting(Attribute.MISSING_COLUMNS, _keep_missing_columns)
    null_means_unsent: tuple[str, ...] = setting(Attribute.NULL_MEANS_UNSENT, _columns_outside_key)
    schema_policy: SchemaPolicy = setting(Attribute.SCHEMA_POLICY, member(SchemaPolicy))
    accepted_drift: tuple[str, ...] = setting(Attribute.ACCEPTED_DRIFT, _drift)
    readers: Readers = setting(Attribute.READERS, member(Readers))
    column_policy: ColumnPolicy = setting(Attribute.COLUMN_POLICY, _column_policy)

    @classmethod
    def from_item(cls, item: Mapping[str, str]) -> TableSettings:
        """Read the settings of a state item.

        Raises:
            ConfigurationError: A value is invalid; names the attribute.
        """
        return cls(**read_fields(cls, item))

    @property
    def lake_schema(self) -> Schema:
        """The declared columns as the lake has them; empty if none are declared."""
        return self.column_policy.lake_columns(self.schema or Schema())

    @property
    def retention(self) -> timedelta:
        """How long earlier states are kept."""
        return timedelta(days=self.retention_days)

    @property
    def keep_every(self) -> timedelta:
        """How long every state is kept."""
        return timedelta(days=self.keep_every_state)

    def check_history(self, name: TableName) -> None:
        """Refuse a history of a table whose changes are not whole rows.

        Raises:
            ConfigurationError: `History` is true, and `CsvNoSupValue` is set.
        """
        if self.history and self.csv.no_sup_value is not None:
            unsent, history = Attribute.CSV_NO_SUP_VALUE, Attribute.HISTORY
            message = f"{name} cannot have a history with {unsent}, because its changes lack columns"
            remedy = f"Make the source log all columns and set {unsent} to an empty text, or set {history} to false"
            raise ConfigurationError(message, remedy=remedy, table=name)

    @property
    def named_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that settings name, by attribute; without attributes that name none."""
        values = {one.metadata.get(ATTRIBUTE): getattr(self, one.name) for one in fields(self)}
        named = {name: _names_in(values[name]) for name in values if name in COLUMN_ATTRIBUTES}
        return {name: names for name, names in named.items() if any(names)}


def _names_in(value: Schema | ColumnPolicy | tuple[str, ...] | str | None) -> tuple[str, ...]:
    if isinstance(value, ColumnPolicy):
        return tuple(rule.column for rule in value.rules)
    if isinstance(value, Schema):
        return tuple(value.names)
    return value if isinstance(value, tuple) else (value or "",)


def cdc_path_of(item: Mapping[str, str]) -> str:
    """The folder of the transaction files; empty if the table has none."""
    return _folder(item, Attribute.CDC_PATH)
