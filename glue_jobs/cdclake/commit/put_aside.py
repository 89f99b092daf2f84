"""The bad rows that a table still lacks: put aside by a change, and neither taken after all nor loaded anew since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdclake.commit.bad_rows import bad_rows_in, changes_with_bad_rows
from cdclake.commit.timeline import line
from cdclake.model.change import ChangeKind

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog


@dataclass(frozen=True)
class PutAside:
    """Bad rows of one raw file that one change put aside.

    Attributes:
        change: Number of the change.
        created_utc: When it was committed, ISO 8601.
        raw_file: The raw file, relative to the table's raw folder.
        rows: As `cdclake.commit.bad_rows.bad_rows_in` gives them.
    """

    change: int
    created_utc: str
    raw_file: str
    rows: tuple[dict[str, Any], ...]


def put_aside(log: ChangeLog, head: int, change: int | None = None) -> list[PutAside]:
    """Bad rows that the table lacks as it is after a change, those of the newest changes first.

    What a rollback undid is left out: its raw files are new again to the next run. One folder listing, and the records
    of the changes back to the oldest that has bad rows: none if there are none.

    Args:
        log: The table's change log.
        head: Number of the newest change.
        change: Only those that this change put aside; None: all.

    Raises:
        IntegrityError: A change record is missing.
    """
    oldest = min(changes_with_bad_rows(log, head), default=head + 1) if change is None else change
    found: list[PutAside] = []
    released: set[str] = set()
    for record in line(log, head) if oldest <= head else ():
        by_file: dict[str, list[dict[str, Any]]] = {}
        for key in record.quarantine if change in (None, record.change) else ():
            for row in bad_rows_in(log.store.get(key) or b""):
                by_file.setdefault(row["file"], []).append(row)
        found += [
            PutAside(record.change, record.created_utc, name, tuple(sorted(rows, key=_number)))
            for name, rows in sorted(by_file.items())
            if name not in released
        ]
        if record.kind is ChangeKind.RELEASE:
            released.update(record.raw_files)
        if record.kind is ChangeKind.FULL_LOAD or record.change <= oldest:
            break
    return found


def _number(row: dict[str, Any]) -> int:
    return -1 if row["row"] is None else int(row["row"])
