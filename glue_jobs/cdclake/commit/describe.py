"""Changes and undo plans in words and figures, the same for everything that shows them to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.change import ChangeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.commit.report import LogEntry
    from cdclake.commit.undo import UndoPlan
    from cdclake.model.change import ChangeRecord
    from cdclake.model.snapshot import Snapshot


def change_line(record: ChangeRecord) -> dict[str, object]:
    """A change in figures, as one line of a table or of JSON. Seconds are those up to the commit."""
    books = record.books
    return {
        "change": record.change,
        "created_utc": record.created_utc,
        "time": time_text(record.created_utc),
        "kind": record.kind.value,
        "as_of": record.as_of,
        "what": what_it_did(record),
        "made_by": record.made_by,
        "reason": record.reason,
        "raw_files": len(record.raw_files),
        "rows_read": books.read,
        "inserted": books.inserted,
        "updated": books.updated,
        "deleted": books.deleted,
        "rows": books.rows_after,
        "files_added": len(record.added),
        "files_retired": len(record.retired),
        "files_restored": len(record.restored),
        "bytes_added": record.bytes_added,
        "seconds": round(sum(record.seconds.values(), 0.0), 3),
    }


def entry_line(entry: LogEntry) -> dict[str, object]:
    """`change_line`, and how the change stands in the log: `shown`, `undone`, `retained`, and a note that says it."""
    record = entry.record
    marks = {"shown": entry.shown, "undone": entry.undone, "retained": entry.retained}
    notes = {"shown now": entry.shown, "undone": entry.undone, "not kept": not entry.retained}
    by_whom = f"by {record.made_by}" if record.made_by else ""
    why = f"{by_whom}: {record.reason}" if by_whom and record.reason else by_whom
    note = ", ".join([*(text for text, applies in notes.items() if applies), *filter(None, [why])])
    return {**change_line(record), **marks, "note": note}


def what_it_did(record: ChangeRecord) -> str:
    """The kind of a change, and what the table shows since, where that is an earlier change."""
    kind = record.kind.value
    if record.as_of is None or record.kind is ChangeKind.TAKEOVER:
        return kind
    return f"{kind}: as after {record.as_of}" if record.as_of else f"{kind}: {as_after(0)}"


def as_after(change: int) -> str:
    """What a table is that shows a change."""
    return f"as after change {change}" if change else "as before any change"


def time_text(created_utc: str) -> str:
    """`yyyy-mm-dd HH:MM:SS` of a change record's time."""
    return created_utc[:19].replace("T", " ")


class Compared(NamedTuple):
    """A fact about a table, now and once a plan is carried out."""

    what: str
    now: object
    then: object


def undo_facts(plan: UndoPlan, *, active: bool) -> list[Compared]:
    """What a plan makes of a table.

    Args:
        plan: A rollback or reapply.
        active: Whether the table is turned on now; a rollback turns it off.
    """
    now, then = _facts(plan.before), _facts(plan.after)
    stays_active = active and plan.kind is ChangeKind.REAPPLY
    return [*(Compared(what, now[what], then[what]) for what in now), Compared("Active", active, stays_active)]


def undone_records(log: ChangeLog, plan: UndoPlan, most: int) -> Sequence[ChangeRecord]:
    """The newest of the changes that a plan undoes or applies again, in order.

    Args:
        log: The table's change log.
        plan: A rollback or reapply.
        most: How many.
    """
    listed = plan.undone[-most:]
    if not listed:
        return []
    records = log.records(listed[0], listed[-1])  # with changes between that are not undone
    return [record for record in records if record.change in listed]


def _facts(snapshot: Snapshot) -> dict[str, object]:
    return {
        "Rows": f"{snapshot.rows:,}",
        "Data files": f"{len(snapshot.files):,}",
        "Last change file": snapshot.watermark,
        "Full load (UTC)": snapshot.full_load_utc,
    }
