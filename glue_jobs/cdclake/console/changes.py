"""The page of one change, and the bad rows that changes put aside."""

from __future__ import annotations

from flask import Blueprint, render_template

from cdclake.commit.describe import effect_text
from cdclake.commit.quarantine import changes_with_bad_rows, read_bad_rows
from cdclake.console.charts import shares
from cdclake.console.context import console
from cdclake.console.paging import Window, whole_number
from cdclake.errors import UnknownTableError
from cdclake.model.change import ChangeKind
from cdclake.model.table import TableName

MOST_FILES_LISTED = 200
ROWS_A_PAGE = 50
MOST_CHANGES_WITH_BAD_ROWS = 30

pages = Blueprint("changes", __name__)


@pages.get("/tables/<name>/changes/<int:number>")
def change(name: str, number: int) -> str:
    """All of one change: its books, its files, who made it, and how long each phase took."""
    log = console().lake.log(TableName.parse(name))
    head = log.head()
    if not 0 < number <= head:
        raise _no_change(name, number, head)
    record = log.record(number)
    seconds = log.seconds(record)
    raw_files = record.raw_files if record.kind is not ChangeKind.DIRECT else ()
    return render_template(
        "change.html",
        name=name,
        typed=log.layout.name.typed,
        record=record,
        head=head,
        what=effect_text(record),
        record_url=f"s3://{log.layout.bucket}/{log.layout.change_key(number)}",
        retained=number >= log.first_retained(),
        seconds=seconds,
        shares=shares(seconds),
        most_listed=MOST_FILES_LISTED,
        files=[
            (what, paths)
            for what, paths in (
                ("Raw files read", raw_files),
                ("Raw files left out as too late", record.too_late),
                ("Data files added", tuple(file.path for file in record.added)),
                ("Data files retired", record.retired),
                ("Data files restored", record.restored),
            )
            if paths
        ],
    )


@pages.get("/tables/<name>/quarantine")
def quarantine(name: str) -> str:
    """Bad rows of one change, `change` or the newest that has any; `from` is the first of them to show."""
    log = console().lake.log(TableName.parse(name))
    head = log.head()
    candidates = changes_with_bad_rows(log, head)
    asked = whole_number("change", 0)
    if asked > head:
        raise _no_change(name, asked, head)
    listed = [log.record(number) for number in candidates[:MOST_CHANGES_WITH_BAD_ROWS]]
    with_rows = [record for record in listed if record.quarantine]
    record = log.record(asked) if asked else next(iter(with_rows), None)
    window = Window(record.books.quarantined if record else 0, ROWS_A_PAGE, whole_number("from", 0))
    return render_template(
        "quarantine.html",
        name=name,
        typed=log.layout.name.typed,
        record=record,
        page=read_bad_rows(log, record, window.start, window.size) if record else None,
        window=window,
        with_rows=with_rows,
        more_changes=len(candidates) > len(listed),
        bucket=log.layout.bucket,
    )


def _no_change(name: str, number: int, head: int) -> UnknownTableError:
    remedy = f"Its newest is {head}" if head else "It has none yet"
    message = f"{name} has no change {number}"
    return UnknownTableError(message, remedy=remedy)
