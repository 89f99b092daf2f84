"""The progress of a replication, saved in the raw bucket.

Progress is written after the files. After a crash between the two, the next run sends the same changes again, under new
file names and with the same change sequences: duplicates, as DMS sends them when a task resumes, but never a loss.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.errors import IntegrityError

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class BinlogPosition(NamedTuple):
    """A position in the source's binlog, between two transactions.

    Files are numbered with at least six digits, so a longer name is later.
    """

    file: str
    offset_bytes: int

    def is_before(self, other: BinlogPosition) -> bool:
        """Whether this position is before another one of the same server."""
        return (len(self.file), self.file, self.offset_bytes) < (len(other.file), other.file, other.offset_bytes)


@dataclass(frozen=True)
class ReplicationProgress:
    """What was written so far.

    Attributes:
        binlog: All changes before this position were written. None if the full load has not finished.
        sequence: Number of change rows written since the full load.
        last_commit_utc: Latest commit time so far, which the change sequence never goes below.
        last_file_utc: Time in the name of the latest change file.
        server: Server of the binlog, see `connection.server_id`.
    """

    binlog: BinlogPosition | None
    sequence: int = 0
    last_commit_utc: datetime = EPOCH
    last_file_utc: datetime = EPOCH
    server: str = ""

    def to_json(self) -> dict[str, Any]:
        """The content of the progress file."""
        times = {name: getattr(self, name).isoformat() for name in ("last_commit_utc", "last_file_utc")}
        return {**asdict(self), "binlog": self.binlog._asdict() if self.binlog else None, **times}


class ProgressFile:
    """The progress of a replication, in an object of the raw bucket.

    The folder's name begins with `awsdms_`, like DMS's control tables, so it is not mistaken for source data.

    Args:
        store: The raw bucket.
        raw_prefix: Key prefix of the schema folders.
        task: Name of the replication; each has its own progress.
    """

    def __init__(self, store: ObjectStore, raw_prefix: str, task: str) -> None:
        self._store = store
        self.key = f"{raw_prefix}awsdms_stand_in/{task}.json"

    def read(self) -> ReplicationProgress | None:
        """The saved progress; None if there is none.

        Raises:
            IntegrityError: The object is malformed.
        """
        data = self._store.get(self.key)
        if data is None:
            return None
        try:
            fields = json.loads(data)
            times = {name: datetime.fromisoformat(fields[name]) for name in ("last_commit_utc", "last_file_utc")}
            saved = fields["binlog"]
            position = BinlogPosition(str(saved["file"]), int(saved["offset_bytes"])) if saved else None
            return ReplicationProgress(position, int(fields["sequence"]), **times, server=str(fields["server"]))
        except (ValueError, KeyError, TypeError) as error:
            remedy = "Delete it, and repeat the full load with --anew"
            raise IntegrityError("The saved position cannot be read", remedy=remedy, file=self.key) from error

    def write(self, progress: ReplicationProgress) -> None:
        """Save the progress, replacing the previous one."""
        self._store.put(self.key, json.dumps(progress.to_json()).encode())
