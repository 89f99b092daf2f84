"""The list of tables, and the page of one table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flask import Blueprint, abort, redirect, render_template, request, url_for

from cdclake.commit.report import newest_changes
from cdclake.commit.undo import next_to_reapply
from cdclake.control.admin.change_settings import change_settings
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.fates import Fate
from cdclake.control.raw_fates import raw_fates, rows_read
from cdclake.errors import CdclakeError, UnknownTableError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake_cli.console import charts
from cdclake_cli.console.addresses import table_of
from cdclake_cli.console.context import current_console
from cdclake_cli.console.overview import Row, current_overview
from cdclake_cli.console.paging import Window, whole_number
from cdclake_cli.console.table_list import ACTION, SORTS, Selection, health_counts
from cdclake_cli.printing.lake_facts import lake_facts

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.name import TableName

pages = Blueprint("tables", __name__)


@pages.get("/")
def index() -> str:
    """All tables; `q` and `health` filter them, `sort` is their order, and `from` the first to show."""
    overview = current_overview()
    known = overview.known()
    selection = Selection.of_request(whole_number("from", 0))
    named = selection.named(known.rows.values())
    matching = selection.chosen(named)
    window = Window.at(len(matching), current_console().tables_per_page, selection.start)
    return render_template(
        "tables.html",
        rows=overview.live(matching[window.slice]),
        window=window,
        known=known,
        action_needed=sum(row.status.needs_action for row in known.rows.values() if row.status),
        by_name=len(named),
        counts=health_counts(named),
        action_by_name=sum(row.status.needs_action for row in named if row.status),
        selection=selection,
        ACTION=ACTION,
        sorts=SORTS,
    )


@pages.get("/tables/<table:name>")
def table(name: str) -> str:
    """A table's status and changes; `through` is the last change to list."""
    log = current_console().lake.log(table_of(name))
    report = newest_changes(log, current_console().changes_per_page, whole_number("through", None))
    row = _row_of(log.layout.name)
    if row is None and not report.head:
        raise UnknownTableError(
            "The table does not exist",
            remedy="Write it as schema.table, as in the list of tables",
            table=log.layout.name,
        )
    lake, unread = _newest(log, report.head)
    done = whole_number("done", 0)
    return render_template(
        "table.html",
        name=log.layout.name,
        row=row,
        layout=log.layout,
        facts=lake_facts(lake, None) if lake else None,
        roles=_roles(lake) if lake else {},
        unread=unread,
        report=report,
        charts=charts.change_charts(report.entries) if report.entries else [],
        geometry=charts,
        reapplicable=next_to_reapply(log, report.head) if row and row.state and report.head else None,
        done=log.record(done) if 0 < done <= report.head else None,
    )


@pages.get("/tables/<table:name>/files")
def files(name: str) -> str:
    """The fates of a table's raw files, the last first; `fate` filters them, and `from` is the first to show."""
    console = current_console()
    lake, table = console.lake, table_of(name)
    inputs, log = lake.plan_inputs, lake.log(table)
    state = lake.installation.find_table(inputs.states, table)
    found = raw_fates(inputs.raw, state, log, console.clock(), inputs.statistics)
    counts = Counter(one.fate for one in found)
    fate = request.args.get("fate", "")
    matching = [one for one in reversed(found) if fate == one.fate.value or (not fate and one.fate is not Fate.GONE)]
    window = Window.at(len(matching), console.rows_per_page, whole_number("from", 0))
    shown = matching[window.slice]
    return render_template(
        "files.html",
        name=table,
        files=shown,
        rows=rows_read(log, shown),
        window=window,
        counts=[(one, counts[one]) for one in Fate if counts[one]],
        fate=fate,
    )


@pages.post("/tables/<table:name>/active")
def activate(name: str) -> Response:
    """Turn a table on or off: `active` is `true` or `false`. Redirects to the list if `back` is `list`."""
    active = request.form.get("active", "")
    if active not in (Sentinel.ACTIVE, Sentinel.INACTIVE):
        abort(400, "'active' must be true or false.")
    lake = current_console().lake
    states = lake.plan_inputs.states
    table = table_of(name)
    change_settings(states, lake.installation.find_table(states, table), {Attribute.ACTIVE_FLAG: active})
    if request.form.get("back") == "list":
        return redirect(url_for("tables.index", _anchor=str(table)), 303)
    return redirect(url_for("tables.table", name=table), 303)


def _row_of(name: TableName) -> Row | None:
    """A table as it is now; None if it is not registered and has no raw files."""
    overview, lake = current_overview(), current_console().lake
    new = lake.installation.new_state(name)
    (row,) = overview.live([Row(str(name), new, None)])
    return row if row.status else overview.known().rows.get(new.path)


def _newest(log: ChangeLog, head: int) -> tuple[Snapshot | None, str]:
    """The newest snapshot, or why it cannot be read; neither if there is no change."""
    if not head:
        return None, ""
    try:
        return log.snapshot(head), ""
    except CdclakeError as error:  # the rest of the page helps to find out why
        return None, error_line(error)


def _roles(lake: Snapshot) -> dict[str, str]:
    """What columns of a lake table are besides, by their names in lower case."""
    roles: dict[str, list[str]] = {}
    for role, names in (("key", lake.primary_key), ("partition", lake.partition_key)):
        for name in names:
            roles.setdefault(name.lower(), []).append(role)
    return {name: ", ".join(found) for name, found in roles.items()}
