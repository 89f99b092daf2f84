"""The page of one change, and the page of quarantined rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, render_template

from cdclake.commit.describe import clock_text, effect_text, file_sections
from cdclake.commit.quarantine import changes_with_bad_rows, read_bad_rows
from cdclake.errors import UnknownTableError
from cdclake_cli.console.addresses import table_of
from cdclake_cli.console.charts import shares
from cdclake_cli.console.context import current_console
from cdclake_cli.console.paging import Window, whole_number
from cdclake_cli.printing.cost import cost_text, place_text

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName

MAX_CHANGES_LISTED = 30

pages = Blueprint("changes", __name__)


@pages.get("/tables/<table:name>/changes/<int:number>")
def change(name: str, number: int) -> str:
    """One change: its books, its files, its author, and the duration of each phase."""
    log = current_console().lake.log(table_of(name))
    head = log.head()
    if not 0 < number <= head:
        raise _no_change(log.layout.name, number, head)
    record = log.record(number)
    seconds = log.seconds(record)
    return render_template(
        "change.html",
        name=log.layout.name,
        typed=log.layout.name.typed,
        record=record,
        head=head,
        what=effect_text(record),
        clock=clock_text(record),
        delay=log.delays([record]).get(number),
        record_url=f"s3://{log.layout.bucket}/{log.layout.change_key(number)}",
        retained=number in log.retained(),
        seconds=seconds,
        place=place_text(record.place),
        cost=cost_text(record.place, sum(seconds.values())),
        shares=shares(seconds),
        max_listed=current_console().max_files_listed,
        files=file_sections(record),
    )


@pages.get("/tables/<table:name>/quarantine")
def quarantine(name: str) -> str:
    """The bad rows of the change `change`, or of the newest change with bad rows. `from` is the first row to show."""
    lake = current_console().lake
    log = lake.log(table_of(name))
    head = log.head()
    if not head:
        lake.installation.find_table(lake.plan_inputs.states, log.layout.name)  # raises if there is no such table
    candidates = changes_with_bad_rows(log, head)
    requested = whole_number("change", 0)
    if requested > head:
        raise _no_change(log.layout.name, requested, head)
    listed = [log.record(number) for number in candidates[:MAX_CHANGES_LISTED]]
    with_rows = [record for record in listed if record.quarantine]
    record = log.record(requested) if requested else next(iter(with_rows), None)
    bad_rows = record.books.quarantined if record else 0
    window = Window(bad_rows, current_console().rows_per_page, whole_number("from", 0))
    return render_template(
        "quarantine.html",
        name=log.layout.name,
        typed=log.layout.name.typed,
        record=record,
        page=read_bad_rows(log, record, window.start, window.size) if record else None,
        window=window,
        with_rows=with_rows,
        more_changes=len(candidates) > len(listed),
        bucket=log.layout.bucket,
    )


def _no_change(name: TableName, number: int, head: int) -> UnknownTableError:
    remedy = f"Choose a change from 1 to {head}" if head else "Wait for its first change"
    return UnknownTableError(f"{name} has no change {number}", remedy=remedy)
