"""The list of tables, and the page of one table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, abort, redirect, render_template, request, url_for

from cdclake.commit.report import newest_changes
from cdclake.commit.undo import next_to_reapply
from cdclake.control import controller
from cdclake.control.admin.change_settings import set_active
from cdclake.control.plan.fates import Fate
from cdclake.control.plan.planned_table import Action
from cdclake.control.raw_fates import raw_fates, rows_read
from cdclake.control.status import Health, table_statuses
from cdclake.errors import UnknownTableError
from cdclake.model.names import Sentinel
from cdclake_cli.console.addresses import table_of
from cdclake_cli.console.charts import change_charts
from cdclake_cli.console.context import current_console
from cdclake_cli.console.paging import Window, whole_number

if TYPE_CHECKING:
    from collections.abc import Collection

    from werkzeug.wrappers import Response

    from cdclake.control.status import TableStatus
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState

pages = Blueprint("tables", __name__)


class Row(NamedTuple):
    """A table in the list; `state` is None if it is not registered yet."""

    status: TableStatus
    state: TableState | None

    def attribute(self, name: str) -> str:
        """The value of an attribute; empty if it is not set."""
        value = self.state.item.get(name) if self.state else None
        return "" if value in (None, Sentinel.NONE, Sentinel.NEVER_LOADED) else str(value)


class TableRows(NamedTuple):
    """The status of tables, and errors of raw folders that could not be listed."""

    rows: list[Row]
    errors: tuple[str, ...]


@pages.get("/")
def index() -> str:
    """All tables, those that need action first; `q` and `health` filter them."""
    tables = _load()
    query, health = request.args.get("q", "").strip(), request.args.get("health", "")
    by_name = [row for row in tables.rows if query.lower() in row.status.table.lower()]
    matching = [row for row in by_name if health in ("", row.status.health.value)]
    counts = Counter(row.status.health for row in by_name)
    window = Window(len(matching), current_console().tables_per_page, whole_number("from", 0))
    return render_template(
        "tables.html",
        rows=matching[window.slice],
        window=window,
        all_tables=len(tables.rows),
        by_name=len(by_name),
        counts=[(one, counts[one]) for one in Health if counts[one]],
        action_needed=sum(row.status.needs_action for row in tables.rows),
        errors=tables.errors,
        q=query,
        health=health,
    )


@pages.get("/tables/<table:name>")
def table(name: str) -> str:
    """A table's status and changes; `through` is the last change to list."""
    lake = current_console().lake
    log = lake.log(table_of(name))
    report = newest_changes(log, current_console().changes_per_page, whole_number("through", None))
    row, errors = _load_one(log.layout.name)
    if row is None and not report.head:
        raise UnknownTableError(
            "The table does not exist",
            remedy="Write it as schema.table, as in the list of tables",
            table=log.layout.name,
        )
    done = whole_number("done", 0)
    return render_template(
        "table.html",
        name=log.layout.name,
        row=row,
        errors=errors,
        layout=log.layout,
        report=report,
        charts=change_charts(report.entries),
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
    window = Window(len(matching), console.rows_per_page, whole_number("from", 0))
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
    active = request.form.get("active")
    if active not in ("true", "false"):
        abort(400, "'active' must be true or false.")
    lake = current_console().lake
    states = lake.plan_inputs.states
    table = table_of(name)
    set_active(states, lake.installation.find_table(states, table), active=active == "true")
    if request.form.get("back") == "list":
        return redirect(url_for("tables.index", _anchor=str(table)), 303)
    return redirect(url_for("tables.table", name=table), 303)


def _load(only: Collection[TableName] = ()) -> TableRows:
    console = current_console()
    now = console.clock()
    planned = controller.plan(console.lake.plan_inputs, now, only)
    statuses = table_statuses(planned.tables, console.lake.log, now, console.late_after_minutes)
    registered = {one.state.path: one.state for one in planned.tables if one.action is not Action.REGISTER}
    return TableRows([Row(status, registered.get(status.path)) for status in statuses], planned.errors)


def _load_one(name: TableName) -> tuple[Row | None, tuple[str, ...]]:
    """The status of one table; None if it is not registered and has no raw files."""
    try:
        tables = _load([name])
    except UnknownTableError:
        return None, ()
    return (tables.rows[0] if tables.rows else None), tables.errors
