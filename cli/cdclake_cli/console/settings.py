"""The settings of a table and their meaning. Shows the effects of a change first, then makes what was confirmed."""

from __future__ import annotations

import json
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

from flask import Blueprint, redirect, render_template, request, url_for

from cdclake.control.admin.change_settings import change_settings
from cdclake.errors import CommitConflictError
from cdclake.model.table.attributes import ATTRIBUTES, Attribute
from cdclake_cli.config.column_checks import check_change
from cdclake_cli.config.compare import differences
from cdclake_cli.config.vocabulary import choices
from cdclake_cli.console.addresses import table_of
from cdclake_cli.console.context import current_console
from cdclake_cli.console.undo import CONFIRMED_FIELD
from cdclake_cli.doctor.fixes import tables_set
from cdclake_cli.settings import SETTABLE, meanings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from werkzeug.wrappers import Response

    from cdclake.model.table.state import TableState
    from cdclake_cli.config.compare import Difference

EDITABLE = tuple(name for name in SETTABLE if name != Attribute.ACTIVE_FLAG)
"""What the form has. `ActiveFlag` has its switch."""
_checking = Lock()
"""Checks of columns set environment variables, which all threads share."""

pages = Blueprint("settings", __name__)


@pages.get("/tables/<table:name>/settings")
def settings(name: str) -> str:
    """All settings of a table, what each means, and a form for them."""
    state = _state(name)
    meaning = meanings()
    return render_template(
        "settings.html",
        name=state.name,
        state=state,
        settings=[
            (one, state.item.get(one, ""), ATTRIBUTES[one].default, meaning[one].replace("`", ""), _choices(one))
            for one in EDITABLE
        ],
        done=request.args.get("done") == "yes",
    )


@pages.get("/tables/<table:name>/settings/change")
def plan(name: str) -> str:
    """What changing settings means: each parameter is a setting. Changes nothing."""
    state = _state(name)
    wanted = _wanted(state, request.args)
    changed = _checked(state, wanted) if wanted else ()
    return render_template(
        "settings_change.html",
        name=state.name,
        wanted=wanted,
        changed=changed,
        fingerprint=fingerprint(state, changed),
        field=CONFIRMED_FIELD,
        leased=state.leased(current_console().clock()),
        command=tables_set(
            state.name, *(part for one, value in wanted.items() for part in ("--set", f"{one}={value}"))
        ),
    )


@pages.post("/tables/<table:name>/settings/change")
def change(name: str) -> Response:
    """Change settings, if the difference is still the confirmed one."""
    state = _state(name)
    wanted = _wanted(state, request.form)
    if request.form.get(CONFIRMED_FIELD) != fingerprint(state, _checked(state, wanted)):
        message = f"The settings of {state.name} changed after the difference was shown. Nothing was done"
        raise CommitConflictError(message, remedy="Go back, reload the page and check the new difference")
    change_settings(current_console().lake.plan_inputs.states, state, wanted)
    return redirect(url_for("settings.settings", name=state.name, done="yes"), 303)


def fingerprint(state: TableState, changed: Sequence[Difference]) -> str:
    """Stands for a difference as it was shown: table, settings, and values before and after."""
    shown = [state.path, [[one.setting, one.before, one.after, one.effect.value] for one in changed]]
    return sha256(json.dumps(shown).encode()).hexdigest()


def _state(name: str) -> TableState:
    lake = current_console().lake
    return lake.installation.find_table(lake.plan_inputs.states, table_of(name))


def _wanted(state: TableState, given: Mapping[str, str]) -> dict[str, str]:
    """The settings that differ from a table's; browsers send line ends as CR LF."""
    values = {one: given[one].replace("\r\n", "\n") for one in EDITABLE if one in given}
    return {one: value for one, value in values.items() if value != state.item.get(one, "")}


def _checked(state: TableState, wanted: Mapping[str, str]) -> Sequence[Difference]:
    """What becomes of the settings, as `cdclake tables set --dry-run` tells it.

    Raises:
        ConfigurationError: They are invalid, name no columns of the raw files, or do not suit the lake table.
    """
    with _checking, current_console().checks([state.with_attributes(**wanted)]) as checks:
        check_change(checks, state, wanted)
    return differences(state, wanted)


def _choices(attribute: str) -> tuple[str, ...]:
    return choices(attribute) if ATTRIBUTES[attribute].configures else ()
