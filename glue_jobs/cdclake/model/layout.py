"""Where things lie in the lake bucket."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdclake.errors import ConfigurationError
from cdclake.model.schema import partition_folder
from cdclake.model.table import TableName

CONTROL_FOLDER = "_cdclake"
CHANGE_DIGITS = 12
HISTORY = "_history/"
"""What the path of a data file of the history begins with, where paths are relative to the table's folder. No file of
the table itself has such a path: readers pass over names that begin so."""
HISTORY_SUFFIX = "_history"
"""What the name of the history's folder ends with, beside the table's folder of the same name without it."""
_DATA_NAME = re.compile(r"\d{12,}-\d{5,}\.parquet")


def batches_prefix(lake_prefix: str) -> str:
    """What the keys of batches begin with: what Spark runs for several tables are told and tell, while they last.

    Tables' control folders lie two folders deeper, so no table's is met.

    Args:
        lake_prefix: Empty or with a trailing slash.
    """
    return f"{lake_prefix}{CONTROL_FOLDER}/batch-"


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
    def history_prefix(self) -> str:
        """Folder of the data files of the table's history, all that readers see of it."""
        return f"{self.prefix}{self.name.schema}/{self.name.table}{HISTORY_SUFFIX}/"

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
        return f"{self.snapshots_folder}{change:0{CHANGE_DIGITS}d}-{run_id}.json.gz"

    def published_key(self, change: int) -> str:
        """Key of the empty object that says a change is fully visible."""
        return f"{self.published_folder}{change:0{CHANGE_DIGITS}d}"

    @property
    def first_retained_key(self) -> str:
        """Key of the object that holds the number of the oldest change that can be gone back to."""
        return self.control_prefix + "first-retained"

    @property
    def cleaned_through_key(self) -> str:
        """Key of the object that holds the number of the change up to which retired files were cleaned up."""
        return self.control_prefix + "cleaned-through"

    @property
    def snapshots_folder(self) -> str:
        """Folder of the snapshots. In this and the next four, names begin with the number of the change."""
        return self.control_prefix + "snapshots/"

    @property
    def published_folder(self) -> str:
        """Folder of the marks of visible changes."""
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
    def quarantine_folder(self) -> str:
        """Folder of the folders of bad rows."""
        return self.control_prefix + "quarantine/"

    @property
    def retired_folder(self) -> str:
        """Folder of the retired data files, in a store without versions."""
        return self.control_prefix + "retired/"

    @property
    def foreign_folder(self) -> str:
        """Folder of the files that somebody else put among the data files."""
        return self.control_prefix + "foreign/"

    @property
    def as_of_folder(self) -> str:
        """Folder of the copies of retired files that are read."""
        return self.control_prefix + "as-of/"

    def staging_prefix(self, change: int, run_id: str) -> str:
        """Folder for the files of a change that is not committed yet."""
        return f"{self.staging_folder}{change:0{CHANGE_DIGITS}d}-{run_id}/"

    def tombstones_key(self, change: int, run_id: str) -> str:
        """Key of the tombstones that a run writes, without what its task adds."""
        return f"{self.tombstones_folder}{change:0{CHANGE_DIGITS}d}-{run_id}"

    def quarantine_prefix(self, change: int, run_id: str) -> str:
        """Folder for the bad rows of a change."""
        return f"{self.quarantine_folder}{change:0{CHANGE_DIGITS}d}-{run_id}/"

    def erasure_key(self, change: int) -> str:
        """Key of the note that the erasure which a change made is done, and of what it touched."""
        return f"{self.control_prefix}erasures/{change:0{CHANGE_DIGITS}d}.json"

    def retired_key(self, path: str) -> str:
        """Where a retired data file is kept, in a store without versions. As no path is used twice, one place does."""
        return self.retired_folder + path

    def foreign_key(self, path: str) -> str:
        """Where a file that somebody else put among the data files is moved to."""
        return self.foreign_folder + path

    def as_of_key(self, path: str) -> str:
        """Where a retired data file is copied to, to be read for a while."""
        return self.as_of_folder + path

    def data_key(self, path: str) -> str:
        """Key of a data file, of the table or of its history."""
        if path.startswith(HISTORY):
            return self.history_prefix + path[len(HISTORY) :]
        return self.table_prefix + path

    def data_path_of(self, key: str) -> str:
        """Inverse of `data_key`, for keys in the two folders."""
        if key.startswith(self.history_prefix):
            return HISTORY + key[len(self.history_prefix) :]
        return key[len(self.table_prefix) :]

    @staticmethod
    def data_path(change: int, number: int, partition_key: tuple[str, ...], partition: tuple[str | None, ...]) -> str:
        """Relative path of a new data file. The name is never used again, as change numbers are not."""
        return f"{partition_folder(partition_key, partition)}{change:0{CHANGE_DIGITS}d}-{number:05d}.parquet"

    @staticmethod
    def is_data_path(path: str) -> bool:
        """Whether a file of that relative path has a name as `data_path` gives them."""
        return bool(_DATA_NAME.fullmatch(path.rpartition("/")[2]))
