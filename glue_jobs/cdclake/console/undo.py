"""Rollback and reapply: first what it would do, then, if the person agrees to that very plan, the deed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, abort, redirect, render_template, request, url_for

from cdclake.commit.describe import action_text, undo_facts, undone_records
from cdclake.console.context import console
from cdclake.console.paging import whole_number
from cdclake.errors import CommitConflictError
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from cdclake.commit.undo import UndoPlan
    from cdclake.control.admin.table_admin import RegisteredTable

MOST_LISTED = 30
MOST_REASON_LENGTH = 1000
AGREED = "agreed"

pages = Blueprint("undo", __name__)


@pages.get("/tables/<name>/rollback")
def plan_rollback(name: str) -> str:
    """What a rollback would do: of the last change, or to the change `to`."""
    lake_table = _open(name)
    return _show(lake_table, lake_table.plan_rollback(whole_number("to", None)))


@pages.post("/tables/<name>/rollback")
def rollback(name: str) -> Response:
    """Do it, if it is still what the person was shown."""
    lake_table, to = _open(name), whole_number("to", None)
    plan = _as_agreed(lake_table, lake_table.plan_rollback(to))
    return _done(name, lake_table.rollback(to, _reason(), plan).change)


@pages.get("/tables/<name>/reapply")
def plan_reapply(name: str) -> str:
    """What a reapply would do."""
    lake_table = _open(name)
    return _show(lake_table, lake_table.plan_reapply())


@pages.post("/tables/<name>/reapply")
def reapply(name: str) -> Response:
    """Do it, if it is still what the person was shown."""
    lake_table = _open(name)
    plan = _as_agreed(lake_table, lake_table.plan_reapply())
    return _done(name, lake_table.reapply(_reason(), plan).change)


def _open(name: str) -> RegisteredTable:
    about = console()
    return about.lake.open_table(TableName.parse(name), about.made_by)


def _as_agreed(lake_table: RegisteredTable, plan: UndoPlan) -> UndoPlan:
    """The plan, as it is the one that the person has seen; it is compared once more under the table's lease."""
    if request.form.get(AGREED) != plan.fingerprint:
        message = f"{lake_table.state.name} changed since you were shown what would be done. Nothing was done"
        raise CommitConflictError(message, remedy="Go back and look again")
    return plan


def _reason() -> str:
    reason = request.form.get("reason", "").strip()
    if len(reason) > MOST_REASON_LENGTH:
        abort(400, f"A reason may have {MOST_REASON_LENGTH:,} characters.")
    return reason


def _done(name: str, change: int) -> Response:
    return redirect(url_for("tables.table", name=name, done=change), 303)


def _show(lake_table: RegisteredTable, plan: UndoPlan) -> str:
    state, kind, to = lake_table.state, plan.kind.value, whole_number("to", None)
    return render_template(
        "undo.html",
        name=str(state.name),
        kind=kind,
        plan=plan,
        title=action_text(state.name, plan),
        facts=undo_facts(plan, active=state.active),
        listed=undone_records(lake_table.log, plan, MOST_LISTED),
        at_work=state.leased(console().clock()),
        command=f"cdclake {kind} {state.name.typed}" + (f" --to {to}" if to is not None else ""),
        most_reason_length=MOST_REASON_LENGTH,
    )
