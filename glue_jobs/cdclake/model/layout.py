"""Keys of objects in the lake bucket."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError
from cdclake.model.names import MAX_S3_KEY_BYTES
from cdclake.model.partition_folder import partition_folder
from cdclake.model.table.name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTROL_FOLDER = "_cdclake"
CHANGE_DIGITS = 12
HISTORY = "_history/"
"""Prefix of the paths of history data files, among paths relative to the table's folder. The rest of such a path is
relative to the history's folder. No file of the table itself has such a path, as readers skip names with a leading
underscore."""
HISTORY_SUFFIX = "_history"
"""Suffix of the history's folder, next to the table's folder."""
ICEBERG = "_iceberg/"
"""Prefix of the paths of data files that only an Iceberg table has; for the history's Iceberg table, after `HISTORY`.
Also the folder, beside the schemas, of all Iceberg tables: no pattern of a reader of a table's folder reaches it."""
_METADATA_NAME = re.compile(r"v(\d+)\.metadata\.json", re.ASCII)
_DATA_NAME = re.compile(r"\d{12,}-\d{5,}\.parquet", re.ASCII)


class FileKeys(NamedTuple):
    """The keys of a data file.

    Attributes:
        key: The file.
        retired_key: Where a store without versions keeps the file while it is retired.
        folder: The folder that contains it and others of its kind, with a trailing slash; empty if unknown.
    """

    key: str
    retired_key: str
    folder: str = ""


RESERVED_SCHEMAS = frozenset({CONTROL_FOLDER, ICEBERG.rstrip("/")})
"""Names of schemas whose folders in the lake would be cdclake's own."""


def require_schema_folder(name: TableName) -> None:
    """Refuse a table whose schema's folder in the lake would be one of cdclake's own.

    Raises:
        ConfigurationError: It would.
    """
    if name.schema in RESERVED_SCHEMAS:
        message = f"The schema {name.schema} has the name of a folder that cdclake keeps for itself in the lake"
        remedy = "Let a DMS mapping rule rename the schema, or exclude it, and remove its folder from the raw bucket"
        raise ConfigurationError(message, remedy=remedy, table=name)


def is_in_history(path: str) -> bool:
    """Whether a data file is one of the history, by its path."""
    return path.startswith(HISTORY)


def is_in_iceberg(path: str) -> bool:
    """Whether a data file is in the folder of an Iceberg table, by its path, so that readers of folders miss it."""
    return path.removeprefix(HISTORY).startswith(ICEBERG)


def change_of(path: str) -> int:
    """Number of the change that wrote a data file, by its path; 0 if another program wrote it."""
    name = path.removeprefix(HISTORY)
    name = name.removeprefix(ICEBERG + "data/") if is_in_iceberg(path) else path.rpartition("/")[2]
    return _change_of_name(name)


def _change_of_name(name: str) -> int:
    number, rest = name[:CHANGE_DIGITS], name[CHANGE_DIGITS:]
    return _number_of(number) if rest.startswith("-") else 0


def _number_of(digits: str) -> int:
    return int(digits) if len(digits) == CHANGE_DIGITS and digits.isascii() and digits.isdecimal() else 0


def s3_key_fault(key: str) -> str:
    """Why S3 can hold no object of that key; empty if it can."""
    size_bytes = len(key.encode())
    return f"a key of {size_bytes} bytes, of at most {MAX_S3_KEY_BYTES} in S3" if size_bytes > MAX_S3_KEY_BYTES else ""


@dataclass(frozen=True)
class LakeLayout:
    """Keys of one lake table.

    Attributes:
        bucket: Lake bucket (or a folder, for a lake on disk).
        prefix: Lake prefix, empty or with a trailing slash.
        name: The table.

    Raises:
        ConfigurationError: Its folder would be one of cdclake's own.
    """

    bucket: str
    prefix: str
    name: TableName

    def __post_init__(self) -> None:
        require_schema_folder(self.name)

    @classmethod
    def from_arguments(cls, out_path: str, folder: str) -> LakeLayout:
        """Read the Spark jobs' arguments.

        Args:
            out_path: `<lake bucket>/<lake prefix><schema>/`, with or without `s3://`.
            folder: `<table>/`.

        Raises:
            ConfigurationError: No bucket or no schema in `out_path`.
        """
        bucket, _, rest = out_path.split("://", 1)[-1].strip("/").partition("/")
        parent, _, schema = rest.rpartition("/")
        if not (bucket and schema):
            message = f"out_path '{out_path}' has no bucket and schema"
            raise ConfigurationError(message, remedy="Write it as s3://bucket/prefix/schema/")
        return cls(bucket, f"{parent}/" if parent else "", TableName(schema, folder.strip("/")))

    @property
    def table_prefix(self) -> str:
        """Folder of the data files; readers see only this one."""
        return f"{self.prefix}{self.name.schema}/{self.name.table}/"

    @property
    def history(self) -> LakeLayout:
        """The layout of the table's history, as of a table of its own. It has no control folder."""
        return replace(self, name=TableName(self.name.schema, self.name.table + HISTORY_SUFFIX))

    @property
    def control_prefix(self) -> str:
        """Folder of the change log and everything else that is hidden from readers."""
        return f"{self.prefix}{CONTROL_FOLDER}/{self.name.schema}/{self.name.table}/"

    @property
    def changes_prefix(self) -> str:
        """Folder of the change records."""
        return self.control_prefix + "changes/"

    def change_key(self, change: int) -> str:
        """Key of a change record."""
        return f"{self.changes_prefix}{change:0{CHANGE_DIGITS}d}.json"

    def snapshot_key(self, change: int, run_id: str) -> str:
        """Key of a snapshot. Two runs may write one for the same change number; the change record names its own."""
        return f"{self.snapshots_folder}{change:0{CHANGE_DIGITS}d}-{run_id}.json.gz"

    def published_key(self, change: int) -> str:
        """Key of the empty object that marks a change as fully published."""
        return f"{self.published_folder}{change:0{CHANGE_DIGITS}d}"

    def published_change(self, key: str) -> int:
        """Number of the change that an object in `published_folder` marks; 0 if another program put it there."""
        return _number_of(key.removeprefix(self.published_folder))

    @property
    def newest_published_key(self) -> str:
        """Key of the object with the number of a published change, after which there are few others."""
        return self.control_prefix + "newest-published"

    @property
    def retained_key(self) -> str:
        """Key of the object that says which changes the table can be rolled back to, see `retained.Retained`."""
        return self.control_prefix + "retained.json"

    @property
    def cleaned_key(self) -> str:
        """Key of the object that says the same of the last clean-up that deleted all that the others needed."""
        return self.control_prefix + "cleaned.json"

    @property
    def files_checked_to_key(self) -> str:
        """Key of the object with the key up to which the last run compared the data files of a large table."""
        return self.control_prefix + "files-checked-to"

    @property
    def snapshots_folder(self) -> str:
        """Folder of the snapshots."""
        return self.control_prefix + "snapshots/"

    @property
    def published_folder(self) -> str:
        """Folder of the marks of published changes."""
        return self.control_prefix + "published/"

    @property
    def staging_folder(self) -> str:
        """Folder of the staging folders."""
        return self.control_prefix + "staging/"

    @property
    def tombstones_folder(self) -> str:
        """Folder of the remembered deletes."""
        return self.control_prefix + "tombstones/"

    @property
    def ledger_folder(self) -> str:
        """Folder of the segments of the ledger."""
        return self.control_prefix + "ledger/"

    @property
    def run_folders(self) -> tuple[str, ...]:
        """Folders of what a run writes for a change before it commits it. Names begin with the change's number."""
        return (
            self.staging_folder,
            self.snapshots_folder,
            self.tombstones_folder,
            self.ledger_folder,
            self.quarantine_folder,
        )

    def run_change(self, key: str) -> int:
        """Number of the change that a run wrote an object for, into one of `run_folders`; 0: another program did."""
        folder = next((folder for folder in self.run_folders if key.startswith(folder)), "")
        return _change_of_name(key[len(folder) :])

    def ledger_key(self, change: int, run_id: str, number: int) -> str:
        """Key of a segment of the ledger that a change wrote.

        Args:
            number: From 1.
        """
        return f"{self.ledger_prefix(change, run_id)}{number:05d}.json.gz"

    def ledger_prefix(self, change: int, run_id: str) -> str:
        """What the keys of all segments of a change begin with."""
        return f"{self.ledger_folder}{change:0{CHANGE_DIGITS}d}-{run_id}-"

    @property
    def quarantine_folder(self) -> str:
        """Folder of the quarantine folders."""
        return self.control_prefix + "quarantine/"

    @property
    def retired_folder(self) -> str:
        """Folder of the retired data files, in a store without versions."""
        return self.control_prefix + "retired/"

    @property
    def foreign_folder(self) -> str:
        """Folder of foreign files that were found among the data files."""
        return self.control_prefix + "foreign/"

    @property
    def as_of_folder(self) -> str:
        """Folder of the copies of retired files for readers of earlier changes."""
        return self.control_prefix + "as-of/"

    def staging_prefix(self, change: int, run_id: str) -> str:
        """Folder for the files of a change that is not committed yet."""
        return f"{self.staging_folder}{change:0{CHANGE_DIGITS}d}-{run_id}/"

    @property
    def iceberg_prefix(self) -> str:
        """Folder of the Iceberg table: its data files, if they are not in the table's folder, and its metadata."""
        return f"{self.prefix}{ICEBERG}{self.name.schema}/{self.name.table}/"

    def iceberg_data_prefix(self, change: int, run_id: str) -> str:
        """Folder of the data files of a change of an Iceberg table. They stay where tasks write them."""
        return f"{self.iceberg_prefix}data/{change:0{CHANGE_DIGITS}d}-{run_id}/"

    @property
    def iceberg_metadata_folder(self) -> str:
        """Folder of manifests and metadata. Names of all but the version hint contain a change number."""
        return f"{self.iceberg_prefix}metadata/"

    def manifest_prefix(self, change: int, run_id: str) -> str:
        """Beginning of the keys of the manifests of a change, and of its manifest list."""
        return f"{self.iceberg_metadata_folder}{change:0{CHANGE_DIGITS}d}-{run_id}"

    def iceberg_metadata_key(self, change: int) -> str:
        """Key of the metadata after a change, named as catalogs without a server expect it."""
        return f"{self.iceberg_metadata_folder}v{change}.metadata.json"

    def is_iceberg_metadata(self, key: str) -> bool:
        """Whether a key has the form that `iceberg_metadata_key` returns."""
        return bool(_METADATA_NAME.fullmatch(key.removeprefix(self.iceberg_metadata_folder)))

    def iceberg_change(self, key: str) -> int | None:
        """Number of the change that made a file of the Iceberg table; None if another program made it."""
        name = key.removeprefix(self.iceberg_prefix).partition("/")[2]
        metadata = _METADATA_NAME.fullmatch(name)
        return int(metadata[1]) if metadata else _change_of_name(name) or None

    @property
    def version_hint_key(self) -> str:
        """Key of the object with the number of the newest metadata, which readers without a catalog open first."""
        return self.iceberg_metadata_folder + "version-hint.text"

    def tombstones_key(self, change: int, run_id: str) -> str:
        """Key of the tombstones that a run writes, without the suffix of the task."""
        return f"{self.tombstones_folder}{change:0{CHANGE_DIGITS}d}-{run_id}"

    def quarantine_prefix(self, change: int, run_id: str) -> str:
        """Folder for the quarantined rows of a change."""
        return f"{self.quarantine_folder}{change:0{CHANGE_DIGITS}d}-{run_id}/"

    @property
    def erasure_secret_key(self) -> str:
        """Key of the object with the secret that keys the hashes of erased keys."""
        return self.control_prefix + "erasure-secret"

    @property
    def erasures_folder(self) -> str:
        """Folder of the marks of erasures."""
        return self.control_prefix + "erasures/"

    def erasure_key(self, change: int) -> str:
        """Key of the object that marks the erasure of a change as done, and lists what it touched."""
        return f"{self.erasures_folder}{change:0{CHANGE_DIGITS}d}.json"

    def retired_key(self, path: str) -> str:
        """Key of a retired data file in a store without versions. Paths are never reused, so keys do not collide."""
        return self.retired_folder + path

    def foreign_key(self, path: str) -> str:
        """Key to which a foreign file is moved."""
        return self.foreign_folder + path

    def as_of_key(self, path: str) -> str:
        """Key to which a retired data file is copied for reading."""
        return self.as_of_folder + path

    def data_key(self, path: str) -> str:
        """Key of a data file of the table or its history, in its folder or in the folder of its Iceberg table."""
        if is_in_history(path):
            return self.history.data_key(path[len(HISTORY) :])
        if path.startswith(ICEBERG):
            return self.iceberg_prefix + path[len(ICEBERG) :]
        return self.table_prefix + path

    def file_keys(self, paths: Iterable[str]) -> list[FileKeys]:
        """The keys of data files."""
        history = self.history
        folders = (self.table_prefix, self.iceberg_prefix, history.table_prefix, history.iceberg_prefix)

        def keys(path: str) -> FileKeys:
            key = self.data_key(path)
            return FileKeys(key, self.retired_key(path), next(folder for folder in folders if key.startswith(folder)))

        return list(map(keys, paths))

    def data_path_of(self, key: str) -> str:
        """Inverse of `data_key`, for keys in the four folders."""
        history = self.history
        if key.startswith((history.table_prefix, history.iceberg_prefix)):
            return HISTORY + history.data_path_of(key)
        if key.startswith(self.iceberg_prefix):
            return ICEBERG + key[len(self.iceberg_prefix) :]
        return key[len(self.table_prefix) :]

    @staticmethod
    def data_path(change: int, number: int, partition_key: tuple[str, ...], partition: tuple[str | None, ...]) -> str:
        """Relative path of a new data file. It is never reused, because change numbers are not."""
        return f"{partition_folder(partition_key, partition)}{change:0{CHANGE_DIGITS}d}-{number:05d}.parquet"

    @staticmethod
    def is_data_path(path: str) -> bool:
        """Whether the name of a relative path has the form that `data_path` returns."""
        return bool(_DATA_NAME.fullmatch(path.rpartition("/")[2]))
