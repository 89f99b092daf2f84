"""The item of a table in the state table."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from cdclake.errors import ConfigurationError
from cdclake.model.names import MAX_S3_KEY_BYTES, Sentinel
from cdclake.model.raw.files import file_order, is_transactions_key, read_time, transactions_prefix
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.table.name import TableName
from cdclake.model.table.seen import Seen
from cdclake.model.table.settings import TableSettings, cdc_path_of
from cdclake.model.table.values import attribute_text
from cdclake.model.times import iso_utc, parse_iso_utc

if TYPE_CHECKING:
    from collections.abc import Mapping

Item = dict[str, str]
"""One item of the state table: attribute name to value, all strings."""
MIN_CLEAN_UP_DELAY = timedelta(days=1)
MIN_THINNING_DELAY = timedelta(hours=6)
LONGEST_LEASE = timedelta(minutes=10)
"""No lease ends later than this from now: runs take leases of five minutes at a time, and writers share a clock."""
_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
_TYPES = {"L": "a list", "M": "a map", "SS": "a set", "NS": "a set", "BS": "a set", "B": "binary"}
_NO_TEXT = re.compile(rf'{{"({"|".join(_TYPES)})": ')
"""Begins the text of a value that is none, see `cdclake.adapters.dynamodb`."""
_READ_AS_TEXT = frozenset(attributes_that(lambda declared: not declared.any_type))


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
            ConfigurationError: There is one, or the bucket differs from the path's, or the fencing token is no number.
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

    @cached_property
    def settings(self) -> TableSettings:
        """The operator's settings of the table. Planning a table asks for them ten times, and reading takes 0.3 ms."""
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
        cdc_path = cdc_path_of(self.item)
        return transactions_prefix(self.raw_prefix, cdc_path) if cdc_path else ""

    @property
    def transactions_folder(self) -> str:
        """Key prefix of the folder of the table's transaction files, with a trailing slash; empty if it has none."""
        folder, slash, _ = self.transactions_prefix.rpartition("/")
        return folder + slash

    @property
    def seen(self) -> Seen:
        """What runs saw of the raw files."""
        return Seen.parse(self.item.get(Attribute.LAST_SEEN, ""))

    def needs_clean_up(self, now: datetime) -> bool:
        """Whether to delete files that are past retention for a day, or for a tenth of the retention time if longer.

        Likewise states that are not to be kept for long, after six hours. Each clean-up should find enough to delete.
        """
        settings = self.settings
        if not (self.last_change and settings.clean_up):
            return False
        retention, keep_every = settings.retention, settings.keep_every
        if self._is_due(Attribute.LAST_RETIRED_SINCE_UTC, now, retention, MIN_CLEAN_UP_DELAY):
            return True
        is_thinned = keep_every < retention
        return is_thinned and self._is_due(Attribute.LAST_REPEATED_SINCE_UTC, now, keep_every, MIN_THINNING_DELAY)

    def _is_due(self, attribute: str, now: datetime, kept_for: timedelta, delay: timedelta) -> bool:
        """Whether the time of an attribute is so long ago, and longer by a tenth, or by a delay if that is more."""
        since = self.item.get(attribute)
        if since == "":
            return False
        try:
            since_utc = parse_iso_utc(since or "")
        except ValueError:  # unknown, as in an item that was restored
            return True
        # A time to come is as good as none.
        return since_utc > now + MIN_CLEAN_UP_DELAY or now >= since_utc + kept_for + max(delay, kept_for / 10)

    @property
    def last_change(self) -> int:
        """Number of the newest change that the item knows of; 0 if none."""
        return self._number(Attribute.LAST_CHANGE_ID)

    @property
    def last_lineage_change(self) -> int:
        """Number of the newest change whose lineage a run told; 0 if none."""
        return self._number(Attribute.LAST_LINEAGE_CHANGE)

    @property
    def deaths(self) -> int:
        """Number of Spark runs that died at the table since a good run."""
        return self._number(Attribute.LAST_DEATHS)

    @property
    def acknowledged_change(self) -> int:
        """Number of the newest change when an operator last acknowledged the findings; 0 if never."""
        return self._number(Attribute.ACKNOWLEDGED_CHANGE)

    def _number(self, name: str) -> int:
        text = self.item.get(name, "")
        return int(text) if text.isdecimal() else 0

    @property
    def left_out(self) -> str:
        """What the last run left out, see `cdclake.control.plan.left_out`; empty if nothing."""
        return attribute_text(self.item, Attribute.LAST_LEFT_OUT)

    @property
    def last_page_end(self) -> str:
        """Key within the raw folder after which the next page begins; empty if absent or invalid."""
        text = self.item.get(Attribute.LAST_PAGE_END, "")
        return text if len((self.raw_prefix + text).encode()) <= MAX_S3_KEY_BYTES else ""
