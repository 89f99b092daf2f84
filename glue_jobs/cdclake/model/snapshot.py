"""Snapshots: the state of a lake table after a change.

A snapshot lists all live data files, with the statistics that the next run needs to find the files of change rows
without reading the table. It is stored as gzipped JSON.
"""

from __future__ import annotations

import gc
import gzip
import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from cdclake.errors import ConfigurationError
from cdclake.model.iceberg.field_ids import NO_FIELD_IDS, FieldIds
from cdclake.model.iceberg.table import IcebergFiles
from cdclake.model.names import Sentinel
from cdclake.model.raw.files import RawKind, file_order
from cdclake.model.raw.ledger import Ledger
from cdclake.model.schema import Column, Schema
from cdclake.model.stored_json import FORMAT, check_fields, from_fields, parse_stored, reading
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.column_policy import NO_POLICY, AppliedPolicy
from cdclake.model.table.state import TableState
from cdclake.model.type_widening import clashes
from cdclake.printable import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings

RELOAD = f"{Attribute.LAST_FULL_LOAD_DATE}={Sentinel.NEVER_LOADED}"
"""The setting that makes the next run load a table again."""
KeyValue = Union[int, str, None]
"""Bound of a key column as in JSON: an integer or text. None: unknown."""

_ANY_ZONE = timedelta(days=1)
"""Times in names of raw files are of any time zone."""

_GZIP_LEVEL = 3
"""Level 9 takes ten times as long, for a fifth less."""


@dataclass(frozen=True)
class DataFile:
    """One live Parquet file of a lake table.

    Attributes:
        path: Key relative to the table's folder, partition folders included.
        rows: Number of all rows, soft-deleted ones included.
        bytes: Size of the object.
        partition: Values of the partition columns as text, in their order; None for null.
        key_min: Smallest leading key, see `cdclake.lake.storage.keys`; None if unknown, or if the table has no key.
        key_max: Largest leading key.
        deleted: Number of soft-deleted rows.
        has_field_ids: Whether its columns have `FieldIds`; not in adopted files.
        counts_as_loaded: Whether its rows count as rows of the last full load, whatever their operations and positions:
            the load was taken as a difference, and left the file as it was.
    """

    path: str
    rows: int
    bytes: int
    partition: tuple[str | None, ...] = ()
    key_min: KeyValue = None
    key_max: KeyValue = None
    deleted: int = 0
    has_field_ids: bool = False
    counts_as_loaded: bool = False

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DataFile:
        """Inverse of `dataclasses.asdict`.

        `__init__` takes several times as long as handing over the parsed JSON, and a large table has 100,000 files.

        Args:
            data: The JSON; it belongs to the file from now on.
        """
        if data.keys() != cls.__dataclass_fields__.keys():
            check_fields(data, cls)
        data["partition"] = tuple(data["partition"])
        file = object.__new__(cls)
        object.__setattr__(file, "__dict__", data)
        return file

    @property
    def live_rows(self) -> int:
        """Number of rows that are not soft-deleted."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class TombstoneFile:
    """One file of tombstones, in the control folder.

    Attributes:
        key: Key in the lake bucket.
        rows: Number of deletes.
        newest: Greatest `file_order` of the change files with these deletes.
        key_min: Smallest leading key.
        key_max: Largest.
        key_types: Types of the key columns that its keys are encoded for.
        last: Greatest position.
    """

    key: str
    rows: int
    newest: str
    key_min: KeyValue
    key_max: KeyValue
    key_types: tuple[str, ...]
    last: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TombstoneFile:
        """Inverse of `dataclasses.asdict`."""
        file = from_fields(cls, data)
        return replace(file, key_types=tuple(file.key_types))


@dataclass(frozen=True)
class History:
    """The versions of a table's rows, see `cdclake.lake.scd2.versions`.

    Attributes:
        open: Data files of the newest version of each key. Their paths begin with `cdclake.model.layout.HISTORY`.
        closed: Data files of all earlier versions.
        schema: Its source columns.
        primary_key: Key columns of its versions.
        loads: Numbers of the changes that are full loads, ascending. Positions are comparable from one to the next.
        since: Number of the change since which it contains every change; None while it is not kept.
        field_ids: Of the columns in its files.
        iceberg: The manifests of its files, open versions first; None if it is no Iceberg table.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    open: tuple[DataFile, ...] = ()
    closed: tuple[DataFile, ...] = ()
    loads: tuple[int, ...] = ()
    since: int | None = None
    field_ids: FieldIds = NO_FIELD_IDS
    iceberg: IcebergFiles | None = None

    @property
    def is_kept(self) -> bool:
        """Whether changes of the table are still added to it."""
        return self.since is not None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All its data files, open versions first."""
        return (*self.open, *self.closed)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_json`."""
        check_fields(data, cls)
        opened, closed = (tuple(DataFile.from_json(file) for file in data[name]) for name in ("open", "closed"))
        return cls(
            Schema.from_json(data["schema"]),
            tuple(data["primary_key"]),
            opened,
            closed,
            tuple(data["loads"]),
            data["since"],
            from_fields(FieldIds, data["field_ids"]),
            IcebergFiles.from_json(data["iceberg"]) if data["iceberg"] else None,
        )

    def to_json(self) -> dict[str, Any]:
        """JSON data; files as they are."""
        return {**vars(self), "schema": self.schema.to_json()}


@dataclass(frozen=True)
class ErasedKeys:
    """Keyed hashes of the keys of one erasure, by which older rows of these keys are recognized if they still arrive.

    An erasure removes the tombstones of its keys too, so nothing else protects a key from a raw file that arrives late,
    is read again after a rollback, or is loaded again.

    Attributes:
        change: Number of its change.
        erased_utc: When it was made, ISO 8601.
        columns: Columns of the keys.
        secret_id: Identifies the secret of the hashes, but does not reveal it.
        hashes: See `cdclake.lake.storage.keys.keyed_hashes`; ascending.
        through: `file_order` of the last change file that the table contained; empty if it contained none.
        last: Greatest position of an erased row or tombstone since the last full load, without marks; empty if none.
        ordering: `Snapshot.ordering`: what `last` compares with.
    """

    change: int
    erased_utc: str
    columns: tuple[str, ...]
    secret_id: str
    hashes: tuple[str, ...]
    through: str
    last: str
    ordering: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ErasedKeys:
        """Inverse of `vars`."""
        erased = from_fields(cls, data)
        return replace(erased, columns=tuple(erased.columns), hashes=tuple(erased.hashes))

    def is_later_than(self, file: RawFile, written_utc: datetime) -> bool:
        """Whether the erasure is later than all rows of a raw file.

        It is if the file was written before it, or sorts up to a file that the table contained. A direct change never
        counts as older: an operator makes it now.

        Args:
            written_utc: When the file was written.
        """
        if file.direct:
            return False
        known = file.kind is RawKind.CHANGE and file.order <= self.through
        return known or written_utc < datetime.fromisoformat(self.erased_utc)


@dataclass(frozen=True)
class Snapshot:
    """The state of a lake table after a change.

    Attributes:
        change: Number of the change; 0 for a table without changes.
        schema: Columns of the table in order, partition columns included, without `Op` and the position.
        primary_key: Key columns; empty if the table accepts only inserts.
        partition_key: Partition columns.
        order_column: Column that orders change rows; empty if only file and row number do.
        order_type: Type that the ordering column had when the table was loaded. Positions are encoded for it. Empty if
            there is no such column in the table, or if it was adopted, until its first change.
        ordering: What orders the change rows since the full load, see `cdclake.lake.raw.reader.Inspection`. Empty if
            there are none.
        watermark: Relative key of the last applied change file in order; empty if none.
        floor: Relative key; the full load contains all change files up to it, so they are never late. Empty if none.
        horizon: `yyyymmdd-HHMMSS`; tombstones of earlier change files were dropped, so these files are too late
            permanently. Empty if nothing was dropped.
        tombstones: Deletes within the late window, or more.
        forgotten: Greatest position of a tombstone that was dropped since the full load; empty if none was.
        load_in_quarantine: Whether rows of the full load are in quarantine, from where they may still be released.
        full_load_utc: When the newest file of the last full load was written, `yyyy-mm-dd HH:MM:SS`; empty if none.
        ledger: The raw files that the table contains.
        files: The live data files.
        history: The history; None if the table never had one.
        source: Columns of the newest raw file applied; None if unknown, as after an adoption.
        added: By column that a change added since the full load, a `file_order`: of the watermark before the
            change, or of the change's first file with the column if that is later. Updates of files up to it did not
            send the column, unless their positions show that they did. Columns are missing that changes added while
            `MissingColumns` was `null`.
        field_ids: Of the columns in its files.
        iceberg: The manifests of its files; None if the table is no Iceberg table.
        erased: Erased keys whose older rows may still arrive. A rollback keeps them.
        policy: What happened to columns before their values were stored.
        days: The last days with changes that applied raw files: number of the first one, and the date in UTC. They
            tell how old data files are, whose paths have the numbers of their changes.
    """

    change: int = 0
    schema: Schema = field(default_factory=Schema)
    primary_key: tuple[str, ...] = ()
    partition_key: tuple[str, ...] = ()
    order_column: str = ""
    order_type: str = ""
    ordering: str = ""
    watermark: str = ""
    floor: str = ""
    horizon: str = ""
    tombstones: tuple[TombstoneFile, ...] = ()
    forgotten: str = ""
    load_in_quarantine: bool = False
    full_load_utc: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    files: tuple[DataFile, ...] = ()
    history: History | None = None
    source: Schema | None = None
    added: Mapping[str, str] = field(default_factory=dict, hash=False)
    field_ids: FieldIds = NO_FIELD_IDS
    iceberg: IcebergFiles | None = None
    erased: tuple[ErasedKeys, ...] = ()
    policy: AppliedPolicy = NO_POLICY
    days: tuple[tuple[int, str], ...] = ()

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The live data files of the table and of its history."""
        return (*self.files, *(self.history.files if self.history else ()))

    def with_erased(self, others: Iterable[ErasedKeys]) -> Snapshot:
        """The same with the erased keys of other states besides, ascending by change."""
        erased = {one.change: one for one in (*self.erased, *others)}
        return replace(self, erased=tuple(erased[change] for change in sorted(erased)))

    @property
    def exists(self) -> bool:
        """Whether the table exists: a change made it, and no rollback undid that."""
        return len(self.schema) > 0

    @property
    def manifest_keys(self) -> tuple[str, ...]:
        """Keys of the manifests and manifest lists of the table and of its history."""
        history = self.history.iceberg if self.history else None
        return tuple(key for iceberg in (self.iceberg, history) if iceberg for key in iceberg.keys)

    @property
    def part_keys(self) -> tuple[str, ...]:
        """Keys of its tombstones and of the segments of its ledger."""
        return (*(file.key for file in self.tombstones), *(segment.key for segment in self.ledger.segments))

    @property
    def rows(self) -> int:
        """Number of rows without the soft-deleted ones."""
        return sum(file.rows - file.deleted for file in self.files)

    @property
    def deleted_rows(self) -> int:
        """Number of soft-deleted rows."""
        return sum(file.deleted for file in self.files)

    def days_after(self, now: datetime, count: int) -> tuple[tuple[int, str], ...]:
        """`days` after the next change.

        Args:
            now: When it is made.
            count: How many days to keep.
        """
        kept, today = self._days_since(now, count), now.date().isoformat()
        return kept if kept and kept[-1][1] >= today else (*kept, (self.change + 1, today))

    def settled_before(self, now: datetime, days: int) -> int:
        """The first change of the last days: data files of earlier changes are older."""
        return next((change for change, _ in self._days_since(now, days)), self.change + 1)

    def _days_since(self, now: datetime, days: int) -> tuple[tuple[int, str], ...]:
        last = (now.date() - timedelta(days)).isoformat()
        return tuple(one for one in self.days if one[1] > last)

    def erased_still_needed(self, first_retained: int, *, keeps_deletes: bool) -> tuple[ErasedKeys, ...]:
        """The erased keys of which older rows can still arrive, as for tombstones, or after a rollback.

        Args:
            first_retained: Number of the oldest change that a rollback can reach.
            keeps_deletes: Whether the table remembers its deletes until the next full load.
        """
        window = max(self.horizon, file_order(self.floor))

        def is_needed(erased: ErasedKeys) -> bool:
            end_utc = datetime.fromisoformat(erased.erased_utc) + _ANY_ZONE
            return (
                first_retained < erased.change  # a rollback beyond the erasure would read older files again
                or window <= max(erased.through, f"{end_utc:%Y%m%d-%H%M%S}")
                or (keeps_deletes and self.full_load_utc <= end_utc.strftime(TableState.DATE_FORMAT))
            )

        return tuple(filter(is_needed, self.erased))

    def to_bytes(self) -> bytes:
        """Gzipped JSON; the same snapshot always gives the same bytes."""
        history = self.history.to_json() if self.history else None
        source = self.source.to_json() if self.source else None
        schemas = {"schema": self.schema.to_json(), "source": source}
        data = {**vars(self), **schemas, "history": history, "format": FORMAT}
        # `asdict` would copy each value of each file first, which takes longer than all the rest.
        text = json.dumps(data, default=vars, separators=(",", ":"), sort_keys=True)
        return gzip.compress(text.encode(), _GZIP_LEVEL, mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> Snapshot:
        """Inverse of `to_bytes`.

        Args:
            key: Key of the snapshot, for errors.

        Raises:
            ConfigurationError: A newer version of cdclake wrote it.
            IntegrityError: It is damaged.
        """
        with reading("snapshot of a table", key), _garbage_stays():
            return cls._from_bytes(data)

    @classmethod
    def _from_bytes(cls, data: bytes) -> Snapshot:
        read = parse_stored(gzip.decompress(data), cls)
        read["schema"] = Schema.from_json(read["schema"])
        read["files"] = tuple(DataFile.from_json(file) for file in read["files"])
        read["tombstones"] = tuple(TombstoneFile.from_json(file) for file in read["tombstones"])
        read["source"] = Schema.from_json(read["source"]) if read["source"] else None
        read["field_ids"] = from_fields(FieldIds, read["field_ids"])
        read["iceberg"] = IcebergFiles.from_json(read["iceberg"]) if read["iceberg"] else None
        read["erased"] = tuple(ErasedKeys.from_json(one) for one in read["erased"])
        read["history"] = History.from_json(read["history"]) if read["history"] else None
        read["ledger"] = Ledger.from_json(read["ledger"])
        read["policy"] = from_fields(AppliedPolicy, read["policy"])
        read["days"] = tuple((change, day) for change, day in read["days"])
        for name in ("primary_key", "partition_key"):
            read[name] = tuple(read[name])
        return cls(**read)


@contextmanager
def _garbage_stays() -> Iterator[None]:
    """Pause the collection of cyclic garbage, which would inspect the many new objects of a snapshot repeatedly."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class LakeKeys(NamedTuple):
    """The attributes that a lake table was created with and that change only when it is loaded again, as texts.

    The item holds them too, so that a plan can check the settings without reading the lake.
    """

    primary_key: str
    partition_key: str
    order_column: str
    column_policy: str = ""

    @classmethod
    def of(cls, lake: Snapshot) -> LakeKeys | None:
        """The keys of a lake table; None if it does not exist."""
        if not lake.exists:
            return None
        return cls(",".join(lake.primary_key), ",".join(lake.partition_key), lake.order_column, lake.policy.text)

    @classmethod
    def parse(cls, text: str) -> LakeKeys | None:
        """Inverse of `str`; None for any other text."""
        try:
            return cls(*json.loads(text))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """The JSON list that the item holds."""
        return json.dumps(list(self))

    def check(self, settings: TableSettings, name: TableName) -> None:
        """Refuse settings of a table with other keys, ordering column or column policy. Case does not matter.

        Raises:
            ConfigurationError: Names the attribute that was changed.
        """
        primary_key, partition_key = map(",".join, (settings.primary_key, settings.partition_key))
        now = LakeKeys(primary_key, partition_key, settings.order_column, str(settings.column_policy))
        attributes = (
            Attribute.PRIMARY_KEY,
            Attribute.PARTITION_KEY,
            Attribute.ORDER_COLUMN,
            Attribute.COLUMN_POLICY,
        )
        for attribute, was, is_now in zip(attributes, self, now):
            if was.lower() != is_now.lower():
                message = f"The lake table was created with {attribute} '{was}', but the settings now have '{is_now}'"
                back, new = (f"{attribute}={value or Sentinel.NONE}" for value in (was, is_now))
                remedy = (
                    f"Set it back ({set_command(name, back)}), or reload the table with it"
                    f" ({set_command(name, new, RELOAD)})"
                )
                raise ConfigurationError(message, remedy=remedy, table=name)


def check_declared_types(lake: Snapshot, settings: TableSettings, name: TableName, *, reloads: bool = False) -> None:
    """Refuse a Schema with a type that has no common type with the lake table's, whose columns never narrow.

    Args:
        reloads: Whether the table is loaded again, which replaces the table's types, but not its history's, unless that
            begins anew: with another column policy, or because it was turned off.

    Raises:
        ConfigurationError: Names the first such column.
    """
    declared = settings.lake_schema
    versions = lake.history if settings.history else None
    if versions and reloads and (str(settings.column_policy) != lake.policy.text or not versions.is_kept):
        versions = None
    history = versions.schema if versions else Schema()
    for known, where in ((history, "its history"), (Schema() if reloads else lake.schema, "the lake table")):
        clashing = clashes(known, declared)
        if not clashing:
            continue
        column = next(column for column in declared if column.name in clashing)
        was = clashing[column.name]
        message = f"{Attribute.SCHEMA} declares {column.name} as {column.type}, and in {where} it is {was}"
        source = settings.schema or Schema()
        if known is history and versions and not versions.is_kept:  # the lake table may have the new type already
            remedy = (
                f"Load the table again, then its history begins anew ({set_command(name, RELOAD)}), or leave the"
                f" history off ({set_command(name, f'{Attribute.HISTORY}=false')})"
            )
            raise ConfigurationError(message, remedy=remedy, table=name)
        kept = Schema(tuple(Column(each.name, clashing.get(each.name, each.type)) for each in source))
        new = [f"{Attribute.SCHEMA}={source.declaration}", RELOAD]
        new += [f"{Attribute.HISTORY}=false"] if known is history else []
        without = " and without its history" if known is history else ""
        remedy = (
            f"Declare it as {was} ({set_command(name, f'{Attribute.SCHEMA}={kept.declaration}')}), or reload the table"
            f" with the new type{without} ({set_command(name, *new)})"
        )
        raise ConfigurationError(message, remedy=remedy, table=name)


def set_command(name: TableName, *settings: str) -> str:
    """The command that sets attributes of a table, each `<attribute>=<value>`."""
    return " ".join([f"cdclake tables set {name.typed}", *(f"--set {shell_word(setting)}" for setting in settings)])
