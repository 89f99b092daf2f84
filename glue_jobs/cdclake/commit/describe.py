"""Describes changes and undo plans in the words and figures that the command line and the console share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.change.record import ChangeKind
from cdclake.model.names import DRIFT_SEPARATOR
from cdclake.model.times import display_stored, display_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.commit.report import LogEntry
    from cdclake.commit.undo import UndoPlan
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.name import TableName


MAX_LISTED = 10
"""Of column changes in one line; the page of a change and `cdclake changes show` list all."""


def change_fields(record: ChangeRecord) -> dict[str, object]:
    """The fields of a change in a list, as a table or as JSON. `seconds` ends at the commit."""
    books = record.books
    return {
        "change": record.change,
        "created_utc": record.created_utc,
        "time": record.created_utc[:19].replace("T", " "),
        "kind": record.kind.value,
        "as_of": record.as_of,
        "what": effect_text(record),
        "made_by": record.made_by,
        "reason": record.reason,
        "raw_files": len(record.raw_files),
        "drift": [str(one) for one in record.drift],
        "missing_columns": list(record.missing_columns),
        "unknown_keys": record.unknown_keys,
        "rows_read": books.read,
        "inserted": books.inserted,
        "updated": books.updated,
        "deleted": books.deleted,
        "rows": books.rows_after,
        "files_added": len(record.added),
        "files_retired": len(record.retired),
        "files_restored": len(record.restored),
        "bytes_added": record.bytes_added,
        "clock_utc": record.clock_utc,
        "seconds": round(sum(record.seconds.values(), 0.0), 3),
    }


def file_sections(record: ChangeRecord, quarantine: Sequence[str] = ()) -> list[tuple[str, Sequence[str]]]:
    """The lists of a change's files and columns, each with its header; without the empty ones.

    A direct change read no raw files: its rows were in none.

    Args:
        quarantine: Addresses of the files with its quarantined rows, to list them too.
    """
    sections = (
        ("Raw files read", () if record.kind is ChangeKind.DIRECT else tuple(map(str, record.raw_files))),
        ("Columns changed at the source", tuple(f"{one}, first in {one.file}" for one in record.drift)),
        ("Columns missing in some change files", record.missing_columns),
        ("Quarantined rows", quarantine),
        ("Data files added", tuple(file.path for file in record.added)),
        ("Data files retired", record.retired),
        ("Data files restored", record.restored),
    )
    return [(header, names) for header, names in sections if names]


def entry_fields(entry: LogEntry) -> dict[str, object]:
    """`change_fields`, the delay, the flags `shown`, `undone` and `retained`, and a note that puts them into words."""
    record = entry.record
    flags = {"shown": entry.current, "undone": entry.undone, "retained": entry.retained}
    notes = {"current": entry.current, "undone": entry.undone, "not retained": not entry.retained}
    made_by = f"by {record.made_by}" if record.made_by else ""
    why = f"{made_by}: {record.reason}" if made_by and record.reason else made_by
    drift = f"columns: {first_of(list(map(str, record.drift)))}" if record.drift else ""
    clock = clock_text(record)
    note = ", ".join([*(text for text, applies in notes.items() if applies), *filter(None, [why, drift, clock])])
    delay = {"delay_seconds": entry.delay.seconds if entry.delay else None}
    return {**change_fields(record), **delay, **flags, "note": note}


def first_of(texts: Sequence[str], separator: str = DRIFT_SEPARATOR) -> str:
    """The first of some texts, each once, with the number of the others: `a; b; and 8 more`."""
    different = list(dict.fromkeys(texts))
    rest = len(different) - MAX_LISTED
    return separator.join([*different[:MAX_LISTED], *([f"and {rest:,} more"] if rest > 0 else [])])


def clock_text(record: ChangeRecord) -> str:
    """That the clock of a change's writer was behind the change before; empty if it was not."""
    if not record.clock_utc:
        return ""
    return f"the writer's clock showed {display_utc(record.clock_utc)}, so the time is from change {record.change - 1}"


def effect_text(record: ChangeRecord) -> str:
    """The kind of a change and, if it brought back an earlier state of the table, which one."""
    kind = record.kind.value
    if record.as_of is None or record.kind is ChangeKind.TAKEOVER:
        return kind
    return f"{kind} {'of' if record.kind is ChangeKind.REAPPLY else 'to'} {_state(record.as_of)}"


def action_text(name: TableName, plan: UndoPlan) -> str:
    """What an undo plan does to a table, in the imperative."""
    if plan.kind is ChangeKind.REAPPLY:
        return f"Reapply change {plan.as_of} of {name}"
    return f"Roll {name} back to {_state(plan.as_of)}"


def state_text(change: int) -> str:
    """Describes a table with the content of a change, as in `The table is ...`."""
    return f"as it was after change {change}" if change else "as it was before any change"


def _state(change: int) -> str:
    return f"change {change}" if change else "the table before any change"


class Comparison(NamedTuple):
    """A fact about a table, now and after a plan is carried out."""

    what: str
    now: object
    then: object


def undo_facts(plan: UndoPlan, *, active: bool) -> list[Comparison]:
    """Compares the table before and after an undo plan.

    Args:
        plan: A rollback or reapply.
        active: Whether the table is active now; a rollback turns it off.
    """
    now, then = _facts(plan.before), _facts(plan.after)
    stays_active = active and plan.kind is ChangeKind.REAPPLY
    return [*(Comparison(what, now[what], then[what]) for what in now), Comparison("Active", active, stays_active)]


def _facts(snapshot: Snapshot) -> dict[str, object]:
    return {
        "Rows": f"{snapshot.rows:,}",
        "Data files": f"{len(snapshot.files):,}",
        "Last change file": snapshot.watermark,
        "Full load": display_stored(snapshot.full_load_utc),
    }
