"""A source table: its name, and its item in the state table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar

from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.schema import Schema

Item = dict[str, str]
"""One item of the state table: attribute name to value, all strings."""

DEFAULT_TARGET_FILE_BYTES = 128 * 1024 * 1024
_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, order=True)
class TableName:
    """`schema.table` of the source database."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `schema.table`. The table part may hold further dots.

        Raises:
            ConfigurationError: There is no dot, or a part is empty.
        """
        schema, dot, table = text.partition(".")
        if not (dot and schema and table):
            message = f"'{text}' is not a table name"
            raise ConfigurationError(message, remedy="Write it as schema.table")
        return cls(schema, table)


@dataclass(frozen=True)
class TableState:
    """What the state table knows of one source table.

    `item` is the item as stored; the properties read it, and treat an absent attribute like its sentinel.
    """

    item: Mapping[str, str] = field(hash=False)

    DATE_FORMAT: ClassVar[str] = _DATE_FORMAT

    @classmethod
    def new(cls, bucket: str, schema_prefix: str, folder: str) -> TableState:
        """State of a table seen for the first time: inactive, nothing loaded, no keys.

        Args:
            bucket: Raw bucket.
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
        """The same state with some attributes changed."""
        return replace(self, item={**self.item, **attributes})

    @property
    def path(self) -> str:
        """Key of the item: `<raw bucket>/<prefix><schema>/<table>/`."""
        return self.item[Attribute.PATH]

    @property
    def bucket(self) -> str:
        """Raw bucket."""
        return self.item.get(Attribute.BUCKET) or self.path.partition("/")[0]

    @property
    def raw_prefix(self) -> str:
        """Key prefix of all raw files of the table, with a trailing slash."""
        return self.path[len(self.bucket) + 1 :]

    @property
    def name(self) -> TableName:
        """`schema.table`, from the last two folders of the path."""
        parts = self.raw_prefix.rstrip("/").split("/")
        return TableName(parts[-2] if len(parts) > 1 else "", parts[-1])

    @property
    def active(self) -> bool:
        """Whether a person has turned the table on."""
        return self.item.get(Attribute.ACTIVE_FLAG, Sentinel.INACTIVE).strip().lower() == Sentinel.ACTIVE

    def leased(self, now: datetime) -> bool:
        """Whether some run has the right to write the table at that moment."""
        return Attribute.LEASE_HOLDER in self.item and self.item[Attribute.LEASE_EXPIRES_UTC] > utc_text(now)

    @property
    def settings(self) -> TableSettings:
        """What a person set about the table."""
        return TableSettings.from_item(self.item)

    @property
    def last_full_load_utc(self) -> datetime:
        """When the newest LOAD file applied was written; 1900 if none.

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
        """Watermark as stored: `<raw bucket>/<key>`; the table's path and `0.parquet` if no change was applied."""
        return self.item.get(Attribute.LAST_INCREMENTAL_FILE, self.path + Sentinel.FIRST_FILE)

    @property
    def watermark(self) -> str:
        """Watermark relative to the table's raw folder; empty if no change was applied."""
        relative = self.last_incremental_file
        if relative.startswith(self.path):
            relative = relative[len(self.path) :]
        return "" if relative == Sentinel.FIRST_FILE else relative


@dataclass(frozen=True)
class TableSettings:
    """What a person can set about a table, parsed.

    Empty `primary_key` means that only inserts are taken; empty `partition_key`, an unpartitioned lake table.
    """

    primary_key: tuple[str, ...] = ()
    partition_key: tuple[str, ...] = ()
    schema: Schema | None = None
    csv_delimiter: str = ","
    csv_null_value: str = "NULL"
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES

    @classmethod
    def from_item(cls, item: Mapping[str, str]) -> TableSettings:
        """Read the settings of a state item.

        Raises:
            ConfigurationError: A value does not parse; names the attribute.
        """
        from cdclake.model.schema import parse_columns  # here, as schema.py needs nothing of this module

        schema_text = _value(item, Attribute.SCHEMA)
        delimiter = item.get(Attribute.CSV_DELIMITER, ",").replace("\\t", "\t")
        if len(delimiter) != 1:
            message = f"{Attribute.CSV_DELIMITER} is '{delimiter}'"
            raise ConfigurationError(message, remedy="Set it to one character, or \\t", table=item.get(Attribute.PATH))
        size_text = item.get(Attribute.TARGET_FILE_BYTES, str(DEFAULT_TARGET_FILE_BYTES))
        if not size_text.isdigit() or int(size_text) == 0:
            message = f"{Attribute.TARGET_FILE_BYTES} is '{size_text}'"
            raise ConfigurationError(message, remedy="Set it to a number of bytes", table=item.get(Attribute.PATH))
        return cls(
            primary_key=_columns(item, Attribute.PRIMARY_KEY),
            partition_key=_columns(item, Attribute.PARTITION_KEY),
            schema=parse_columns(schema_text) if schema_text else None,
            csv_delimiter=delimiter,
            csv_null_value=item.get(Attribute.CSV_NULL_VALUE, "NULL"),
            target_file_bytes=int(size_text),
        )


def _value(item: Mapping[str, str], attribute: str) -> str:
    text = item.get(attribute, Sentinel.NONE).strip()
    return "" if text == Sentinel.NONE else text


def _columns(item: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in _value(item, attribute).split(",") if name.strip())
    if len({name.lower() for name in names}) != len(names):
        message = f"{attribute} names a column twice"
        raise ConfigurationError(message, remedy=f"Correct {attribute}", table=item.get(Attribute.PATH))
    return names
