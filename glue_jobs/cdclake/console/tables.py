"""The list of tables, and the page of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, abort, redirect, render_template, request, url_for

from cdclake.commit.ancestry import next_to_reapply
from cdclake.commit.report import newest_changes
from cdclake.console.charts import change_charts
from cdclake.console.context import console
from cdclake.console.paging import Window, whole_number
from cdclake.console.text import NONE
from cdclake.control import controller
from cdclake.control.admin.settings import set_active
from cdclake.control.plan.planned_table import Action
from cdclake.control.status import Health, table_statuses
from cdclake.errors import UnknownTableError
from cdclake.model.names import Sentinel
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Collection

    from werkzeug.wrappers import Response

    from cdclake.control.status import TableStatus
    from cdclake.model.table import TableState

TABLES_A_PAGE = 100
CHANGES_A_PAGE = 40

pages = Blueprint("tables", __name__)


class Row(NamedTuple):
    """A table in the list; the state is None if it is not registered yet."""

    status: TableStatus
    state: TableState | None

    def said(self, attribute: str) -> str:
        """What the item says in an attribute; a dash if that is nothing."""
        value = self.state.item.get(attribute) if self.state else None
        return NONE if value in (None, Sentinel.NONE, Sentinel.NEVER_LOADED) else str(value)


class Looked(NamedTuple):
    """How tables stand, and which folders could not be looked at."""

    rows: list[Row]
    errors: tuple[str, ...]


@pages.get("/")
def index() -> str:
    """All tables, those first that need a person; `q` and `standing` limit them."""
    looked = _look()
    wanted, standing = request.args.get("q", "").strip(), request.args.get("standing", "")
    named = [row for row in looked.rows if wanted.lower() in row.status.table.lower()]
    shown = [row for row in named if standing in ("", row.status.health.value)]
    counts = Counter(row.status.health for row in named)
    window = Window(len(shown), TABLES_A_PAGE, whole_number("from", 0))
    return render_template(
        "tables.html",
        rows=shown[window.slice],
        window=window,
        all_tables=len(looked.rows),
        named=len(named),
        counts=[(one, counts[one]) for one in Health if counts[one]],
        needing=sum(row.status.needs_action for row in looked.rows),
        errors=looked.errors,
        q=wanted,
        standing=standing,
    )


@pages.get("/tables/<name>")
def table(name: str) -> str:
    """How a table stands and what became of it; `through` is the last change to list."""
    parsed = TableName.parse(name)
    lake = console().lake
    log = lake.log(parsed)
    report = newest_changes(log, CHANGES_A_PAGE, whole_number("through", None))
    row, errors = _look_for(name)
    if row is None and not report.head:
        raise UnknownTableError(
            "There is no such table", remedy="Write it as schema.table, as the list of tables has it", table=name
        )
    done = whole_number("done", 0)
    return render_template(
        "table.html",
        name=name,
        row=row,
        errors=errors,
        layout=log.layout,
        report=report,
        charts=change_charts(report.entries),
        again=next_to_reapply(log, report.head) if row and row.state and report.head else None,
        done=log.record(done) if 0 < done <= report.head else None,
    )


@pages.post("/tables/<name>/active")
def activate(name: str) -> Response:
    """Turn a table on or off: `active` is `true` or `false`. Goes back to the list if `back` is `list`."""
    wanted = request.form.get("active")
    if wanted not in ("true", "false"):
        abort(400, "Whether the table is to be active must be said by true or false.")
    lake = console().lake
    states = lake.plan_inputs.states
    set_active(states, lake.installation.find_table(states, TableName.parse(name)), active=wanted == "true")
    if request.form.get("back") == "list":
        return redirect(url_for("tables.index", _anchor=name), 303)
    return redirect(url_for("tables.table", name=name), 303)


def _look(only: Collection[str] = ()) -> Looked:
    about, now = console(), console().clock()
    planned = controller.plan(about.lake.plan_inputs, now, only)
    found = table_statuses(planned.tables, about.lake.log, now, about.late_after_minutes)
    registered = {one.state.path: one.state for one in planned.tables if one.action is not Action.REGISTER}
    return Looked([Row(status, registered.get(status.path)) for status in found], planned.errors)


def _look_for(name: str) -> tuple[Row | None, tuple[str, ...]]:
    """How one table stands; None if the lake alone may know of it."""
    try:
        looked = _look([name])
    except UnknownTableError:
        return None, ()
    return (looked.rows[0] if looked.rows else None), looked.errors
