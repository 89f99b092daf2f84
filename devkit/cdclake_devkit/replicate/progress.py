"""The progress of a replication, saved in the raw bucket.

Progress is written after the files. After a crash between the two, the next run sends the same changes again, under new
file names and with the same change sequences: duplicates, as DMS sends them when a task resumes, but never a loss.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cdclake.errors import IntegrityError
from cdclake_cli.sources.positions import BinlogPosition, WalPosition

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore
    from cdclake_cli.sources.positions import Position

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class ReplicationProgress:
    """What was written so far.

    Attributes:
        position: All changes before this position were written. None if the full load has not finished.
        sequence: Number of change rows written since the full load.
        last_commit_utc: Latest commit time so far, which the change sequence never goes below.
        last_file_utc: Time in the name of the latest change file.
        server: Server of the position, see `SourceSession.server`.
        slot: What keeps the server's log until it is read, see `SourceSession.new_slot`; empty for nothing.
    """

    position: Position | None
    sequence: int = 0
    last_commit_utc: datetime = EPOCH
    last_file_utc: datetime = EPOCH
    server: str = ""
    slot: str = ""

    def to_json(self) -> dict[str, Any]:
        """The content of the progress file."""
        fields = asdict(self)
        del fields["position"]
        times = {name: getattr(self, name).isoformat() for name in ("last_commit_utc", "last_file_utc")}
        return {**_saved(self.position), **fields, **times}


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
            position, sequence, server = _position(fields), int(fields["sequence"]), str(fields["server"])
            return ReplicationProgress(position, sequence, **times, server=server, slot=str(fields.get("slot", "")))
        except (ValueError, KeyError, TypeError) as error:
            remedy = "Delete it, and repeat the full load with --anew"
            raise IntegrityError("The saved position cannot be read", remedy=remedy, file=self.key) from error

    def write(self, progress: ReplicationProgress) -> None:
        """Save the progress, replacing the previous one."""
        self._store.put(self.key, json.dumps(progress.to_json()).encode())


def _saved(position: Position | None) -> dict[str, Any]:
    if isinstance(position, WalPosition):
        return {"wal": str(position)}
    return {"binlog": position._asdict() if position else None}


def _position(fields: dict[str, Any]) -> Position | None:
    if "wal" in fields:
        return WalPosition.parse(fields["wal"])
    saved = fields["binlog"]
    return BinlogPosition(str(saved["file"]), int(saved["offset_bytes"])) if saved else None
