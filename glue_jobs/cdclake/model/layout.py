"""Where things lie in the lake bucket."""

from __future__ import annotations

from dataclasses import dataclass

from cdclake.errors import ConfigurationError
from cdclake.model.schema import partition_folder
from cdclake.model.table import TableName

CONTROL_FOLDER = "_cdclake"
CHANGE_DIGITS = 12


@dataclass(frozen=True)
class LakeLayout:
    """Keys of one lake table.

    Attributes:
        bucket: Lake bucket (or a folder, for a lake on disk).
        prefix: Lake prefix, empty or with a trailing slash.
        name: The table.
    """

    bucket: str
    prefix: str
    name: TableName

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
    def out_path(self) -> str:
        """Inverse of `from_arguments`."""
        return f"s3://{self.bucket}/{self.prefix}{self.name.schema}/"

    @property
    def table_prefix(self) -> str:
        """Folder of the data files, all that readers see."""
        return f"{self.prefix}{self.name.schema}/{self.name.table}/"

    @property
    def control_prefix(self) -> str:
        """Folder of the change log and everything else that readers do not see."""
        return f"{self.prefix}{CONTROL_FOLDER}/{self.name.schema}/{self.name.table}/"

    @property
    def changes_prefix(self) -> str:
        """Folder of the change records."""
        return self.control_prefix + "changes/"

    def change_key(self, change: int) -> str:
        """Key of a change record."""
        return f"{self.changes_prefix}{change:0{CHANGE_DIGITS}d}.json"

    def snapshot_key(self, change: int, run_id: str) -> str:
        """Key of a snapshot. Two runs that try for one change number write two; the change record names its own."""
        return f"{self.control_prefix}snapshots/{change:0{CHANGE_DIGITS}d}-{run_id}.json.gz"

    def published_key(self, change: int) -> str:
        """Key of the empty object that says a change is fully visible."""
        return f"{self.control_prefix}published/{change:0{CHANGE_DIGITS}d}"

    def staging_prefix(self, change: int, run_id: str) -> str:
        """Folder for the files of a change that is not committed yet."""
        return f"{self.control_prefix}staging/{change:0{CHANGE_DIGITS}d}-{run_id}/"

    def tombstones_key(self, change: int, run_id: str) -> str:
        """Key of the tombstones that a run writes, without what its task adds."""
        return f"{self.control_prefix}tombstones/{change:0{CHANGE_DIGITS}d}-{run_id}"

    def quarantine_prefix(self, change: int, run_id: str) -> str:
        """Folder for the bad rows of a change."""
        return f"{self.control_prefix}quarantine/{change:0{CHANGE_DIGITS}d}-{run_id}/"

    def retired_key(self, change: int, path: str) -> str:
        """Where a data file retired by a change is kept, in a store without versions."""
        return f"{self.control_prefix}retired/{change:0{CHANGE_DIGITS}d}/{path}"

    def data_key(self, path: str) -> str:
        """Key of a data file."""
        return self.table_prefix + path

    @staticmethod
    def data_path(change: int, number: int, partition_key: tuple[str, ...], partition: tuple[str | None, ...]) -> str:
        """Relative path of a new data file. The name is never used again, as change numbers are not."""
        return f"{partition_folder(partition_key, partition)}{change:0{CHANGE_DIGITS}d}-{number:05d}.parquet"
