"""How far the replication has come, and where it is remembered.

The position is written after the files are. Whoever dies between the two sends the same changes once more from the
position that is there, under new file names and with the same change sequence: duplicates, as DMS sends them when a
task resumes, and never a loss.
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
    """A place in the source's binlog, between two transactions.

    Files are numbered with six digits or more, so that of two names the longer one is the later.
    """

    file: str
    offset_bytes: int

    def is_before(self, other: BinlogPosition) -> bool:
        """Whether this place comes before another of the same server."""
        return (len(self.file), self.file, self.offset_bytes) < (len(other.file), other.file, other.offset_bytes)


@dataclass(frozen=True)
class Progress:
    """What of the source has been written.

    Attributes:
        binlog: Everything before it has been. None: the full load has begun and not ended.
        sequence: Change rows written since the full load; the next one's number is one more.
        last_commit_utc: Latest time of commit so far, which the change sequence never goes behind.
        last_file_utc: Time in the name of the latest change file.
        server: Whose binlog it is, see `connection.server_name`.
    """

    binlog: BinlogPosition | None
    sequence: int = 0
    last_commit_utc: datetime = EPOCH
    last_file_utc: datetime = EPOCH
    server: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the file."""
        times = {name: getattr(self, name).isoformat() for name in ("last_commit_utc", "last_file_utc")}
        return {**asdict(self), "binlog": self.binlog._asdict() if self.binlog else None, **times}


class ProgressFile:
    """The progress, in an object of the raw bucket.

    It lies in a folder that begins as DMS's control tables do (`awsdms_`), which nobody takes for source data.

    Args:
        store: The raw bucket.
        raw_prefix: Key prefix of the schemas' folders.
        task: Name of the replication: each has its own progress.
    """

    def __init__(self, store: ObjectStore, raw_prefix: str, task: str) -> None:
        self._store = store
        self.key = f"{raw_prefix}awsdms_stand_in/{task}.json"

    def read(self) -> Progress | None:
        """The progress; None if there is none.

        Raises:
            IntegrityError: The object is not what `write` writes.
        """
        data = self._store.get(self.key)
        if data is None:
            return None
        try:
            fields = json.loads(data)
            times = {name: datetime.fromisoformat(fields[name]) for name in ("last_commit_utc", "last_file_utc")}
            place = fields["binlog"]
            position = BinlogPosition(str(place["file"]), int(place["offset_bytes"])) if place else None
            return Progress(position, int(fields["sequence"]), **times, server=str(fields["server"]))
        except (ValueError, KeyError, TypeError) as error:
            remedy = "Delete it, and load anew"
            raise IntegrityError("The saved position cannot be read", remedy=remedy, file=self.key) from error

    def write(self, progress: Progress) -> None:
        """Remember it, in place of the one before."""
        self._store.put(self.key, json.dumps(progress.to_json()).encode())
