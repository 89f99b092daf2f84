"""Rollback and reapply: shows the plan first, and carries out exactly the plan that the operator confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, abort, redirect, render_template, request, url_for

from cdclake.commit.describe import action_text, undo_facts
from cdclake.errors import CommitConflictError
from cdclake_cli.console.addresses import table_of
from cdclake_cli.console.context import current_console
from cdclake_cli.console.paging import whole_number

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from cdclake.commit.undo import UndoPlan
    from cdclake.control.admin.table_admin import RegisteredTable

MAX_LISTED = 30
MAX_REASON_LENGTH = 1000
CONFIRMED_FIELD = "confirmed"

pages = Blueprint("undo", __name__)


@pages.get("/tables/<table:name>/rollback")
def plan_rollback(name: str) -> str:
    """The plan of a rollback: of the last change, or to the change `to`."""
    lake_table = _open(name)
    return _show(lake_table, lake_table.plan_rollback(whole_number("to", None)))


@pages.post("/tables/<table:name>/rollback")
def rollback(name: str) -> Response:
    """Roll back, if the plan is still the confirmed one."""
    lake_table, to = _open(name), whole_number("to", None)
    plan = _check_confirmed(lake_table, lake_table.plan_rollback(to))
    return _done(lake_table, lake_table.rollback(to, _reason(), plan).change)


@pages.get("/tables/<table:name>/reapply")
def plan_reapply(name: str) -> str:
    """The plan of a reapply."""
    lake_table = _open(name)
    return _show(lake_table, lake_table.plan_reapply())


@pages.post("/tables/<table:name>/reapply")
def reapply(name: str) -> Response:
    """Reapply, if the plan is still the confirmed one."""
    lake_table = _open(name)
    plan = _check_confirmed(lake_table, lake_table.plan_reapply())
    return _done(lake_table, lake_table.reapply(_reason(), plan).change)


def _open(name: str) -> RegisteredTable:
    console = current_console()
    return console.lake.open_table(table_of(name), console.made_by)


def _check_confirmed(lake_table: RegisteredTable, plan: UndoPlan) -> UndoPlan:
    """Return the plan if the operator confirmed it. It is compared again under the table's lease."""
    if request.form.get(CONFIRMED_FIELD) != plan.fingerprint:
        message = f"{lake_table.state.name} changed after the plan was shown. Nothing was done"
        raise CommitConflictError(message, remedy="Go back, reload the page and check the new plan")
    return plan


def _reason() -> str:
    reason = request.form.get("reason", "").strip()
    if len(reason) > MAX_REASON_LENGTH:
        abort(400, f"A reason may have at most {MAX_REASON_LENGTH:,} characters.")
    return reason


def _done(lake_table: RegisteredTable, change: int) -> Response:
    return redirect(url_for("tables.table", name=lake_table.state.name, done=change), 303)


def _show(lake_table: RegisteredTable, plan: UndoPlan) -> str:
    state, kind, to = lake_table.state, plan.kind.value, whole_number("to", None)
    return render_template(
        "undo.html",
        name=state.name,
        kind=kind,
        plan=plan,
        title=action_text(state.name, plan),
        facts=undo_facts(plan, active=state.active),
        listed=lake_table.log.records_of(plan.undone[-MAX_LISTED:]),
        leased=state.leased(current_console().clock()),
        command=f"cdclake {kind} {state.name.typed}" + (f" --to {to}" if to is not None else ""),
        max_reason_length=MAX_REASON_LENGTH,
    )
